"""What stands still as a whole: workflows, all versions or one, and agents. Orders are paused by ``ask_move``.

A pause is a row that schedulers look at once a second; what they would begin is held by its reason instead. Once the
row is gone supervisors lift those holds, a ramp at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from triumvir.store.operators import storable
from triumvir.store.statements import Connection, statement

Scope = Literal["workflow", "agent"]
REASON: Final = "pause:"
"""How the reasons of such holds begin, and that of a paused order."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause in force. ``version`` 0: every version of a workflow; agents have no other."""

    scope: Scope
    name: str
    version: int
    who: str
    reason: str
    at: datetime

    @property
    def held_by(self) -> str:
        """What orders are held by that it keeps from moving."""
        return f"{REASON}{self.scope}:{self.name}{f':{self.version}' if self.version else ''}"


@dataclass(frozen=True, slots=True)
class PauseEvent:
    """A line of the log: what was ``paused`` or ``unpaused``, by whom, and why. ``n`` rises."""

    n: int
    at: datetime
    scope: Scope
    name: str
    version: int
    what: Literal["paused", "unpaused"]
    who: str
    reason: str | None


class Paused:
    """The pauses in force at one look."""

    def __init__(self, pauses: Iterable[Pause] = ()) -> None:
        self._by_key = {(pause.scope, pause.name, pause.version): pause for pause in pauses}

    @property
    def reasons(self) -> frozenset[str]:
        return frozenset(pause.held_by for pause in self._by_key.values())

    def workflow(self, name: str, version: int) -> Pause | None:
        """What keeps the orders of a workflow's version from moving."""
        of_version = self._by_key.get(("workflow", name, version))
        return self._by_key.get(("workflow", name, 0)) or of_version

    def agent(self, name: str) -> Pause | None:
        """What keeps an agent from being sent anything new."""
        return self._by_key.get(("agent", name, 0))

    def held_by(self, reason: str | None) -> Pause | None:
        """The pause of which a hold tells."""
        return next((pause for pause in self._by_key.values() if pause.held_by == reason), None)


async def read(connection: Connection) -> Paused:
    """The pauses in force now."""
    return Paused(await in_force(connection))


async def in_force(connection: Connection) -> list[Pause]:
    """The pauses in force now, by scope and name."""
    return [Pause(**dict(row)) for row in await statement("read_pauses").rows(connection)]


async def pause(
    connection: Connection, scope: Scope, name: str, version: int, who: str, reason: str
) -> tuple[Pause, bool]:
    """Have it stand still; the pause in force then, and whether it is this one. Of two at once one is kept."""
    values = {"scope": scope, "name": name, "version": version}
    while True:
        row = await statement("insert_pause").row(
            connection, who=storable(who), reason=storable(reason), **values
        )
        if row is not None:
            return Pause(**dict(row)), True
        row = await statement("read_pause").row(connection, **values)
        if row is not None:  # else it ended at this very moment
            return Pause(**dict(row)), False


async def unpause(
    connection: Connection, scope: Scope, name: str, version: int, who: str, reason: str | None
) -> Pause | None:
    """Let it go on; the pause that is over now. None: there was none."""
    row = await statement("delete_pause").row(
        connection, scope=scope, name=name, version=version, who=storable(who), reason=storable(reason)
    )
    return None if row is None else Pause(**dict(row))


async def log(connection: Connection, most: int) -> list[PauseEvent]:
    """The newest lines of the log, the newest first."""
    return [PauseEvent(**dict(row)) for row in await statement("read_pause_log").rows(connection, most=most)]
