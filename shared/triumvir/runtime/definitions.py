"""Workflow definitions, read once: they never change under a version."""

from __future__ import annotations

from collections.abc import Iterable

from triumvir.errors import DefinitionError, StoreError
from triumvir.store.statements import Connection, Row, statement
from triumvir.telemetry import events
from triumvir.telemetry.logs import get_logger
from triumvir.workflow import Workflow

log = get_logger(__name__)


class Definitions:
    """Every definition this process has met, by name and version."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], Workflow] = {}
        self._told: set[tuple[str, int]] = set()

    async def load(self, connection: Connection, wanted: Iterable[tuple[str, int]]) -> None:
        """Reads those that are not known yet. One that is not stored, or that this release cannot read, is logged
        and stays unknown.
        """
        missing = sorted(set(wanted) - set(self._known))
        if not missing:
            return
        rows = await statement("read_workflows").rows(
            connection, names=[name for name, _ in missing], versions=[version for _, version in missing]
        )
        for row in rows:
            self._read(row)
        gone = set(missing) - set(self._known) - self._told
        if gone:
            self._told |= gone
            log.error(events.DEFINITION_MISSING, workflows=[f"{name}/{version}" for name, version in gone])

    def _read(self, row: Row) -> None:
        key = row["name"], row["version"]
        try:
            self._known[key] = Workflow.from_json(row["definition"])
        except DefinitionError as error:
            if key not in self._told:
                log.warning(events.DEFINITION_MISSING, workflows=[f"{key[0]}/{key[1]}"], error=str(error))

    def get(self, name: str, version: int) -> Workflow:
        """One that was loaded. Raises StoreError if there is none."""
        found = self.find(name, version)
        if found is None:
            raise StoreError(
                f"workflow {name} version {version} has no definition that can be read; apply it again"
            )
        return found

    def find(self, name: str, version: int) -> Workflow | None:
        """One that was loaded, or None."""
        return self._known.get((name, version))

    def step_name(self, name: str, version: int, step_no: int | None) -> str | None:
        """The name of a step of one that was loaded."""
        workflow = self.find(name, version)
        return None if step_no is None or workflow is None else workflow.step(step_no).name
