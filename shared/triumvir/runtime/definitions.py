"""Workflow definitions, read once: they never change under a version."""

from __future__ import annotations

from collections.abc import Iterable

from triumvir.errors import StoreError
from triumvir.store.statements import Connection, statement
from triumvir.workflow import Workflow


class Definitions:
    """Every definition this process has met, by name and version."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], Workflow] = {}

    async def load(self, connection: Connection, wanted: Iterable[tuple[str, int]]) -> None:
        """Reads those that are not known yet. Raises StoreError for one that is not stored."""
        missing = sorted(set(wanted) - set(self._known))
        if not missing:
            return
        rows = await statement("read_workflows").rows(
            connection, names=[name for name, _ in missing], versions=[version for _, version in missing]
        )
        for row in rows:
            self._known[row["name"], row["version"]] = Workflow.from_json(row["definition"])
        gone = set(missing) - set(self._known)
        if gone:
            raise StoreError(f"workflows without a definition: {sorted(gone)}")

    def get(self, name: str, version: int) -> Workflow:
        """One that was loaded."""
        return self._known[name, version]

    def step_name(self, name: str, version: int, step_no: int | None) -> str | None:
        """The name of a step of one that was loaded."""
        return None if step_no is None else self.get(name, version).step(step_no).name
