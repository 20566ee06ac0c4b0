"""Commands of clients and operators: taken under the order's lock, through the same decisions as everything else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast, get_args

import orjson

from triumvir.lifecycle import Action, Broken, CancelRequested, Event, OperatorAsked, Signalled
from triumvir.runtime.batches import run_batch
from triumvir.store import orders
from triumvir.store.operators import DISGUISED
from triumvir.store.statements import Connection, statement
from triumvir.telemetry import metrics
from triumvir_scheduler.stage import Stage


@dataclass(slots=True)
class Asked:
    """Commands that wait for some locked orders."""

    by_order: dict[int, list[Event]] = field(default_factory=dict)
    ids: list[int] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    def events(self, no: int) -> list[Event]:
        return self.by_order.get(no, [])


async def asked_of(connection: Connection, nos: Sequence[int]) -> Asked:
    """The commands not yet taken of these orders, oldest first."""
    asked = Asked()
    if not nos:
        return asked
    rows = await statement("read_commands").rows(connection, nos=list(nos))
    under_way = await _fenced_off(connection, {row["no"] for row in rows if row["kind"] == "skip"})
    for row in rows:
        event = _event(row["kind"], row["data"], row["no"] in under_way)
        asked.by_order.setdefault(row["no"], []).append(event)
        asked.ids.append(row["id"])
        asked.kinds[row["kind"]] += 1
    return asked


async def _fenced_off(connection: Connection, nos: set[int]) -> set[int]:
    """What an operator does by hand no agent may begin any more. Those orders for which one may still be calling."""
    if not nos:
        return set()
    rows = await statement("fence_off").rows(connection, nos=sorted(nos))
    return {row["no"] for row in rows if row["under_way"]}


async def mark_taken(connection: Connection, asked: Asked) -> None:
    """Takes them, in the transaction that applies them."""
    if asked.ids:
        await statement("take_commands").rows(connection, ids=asked.ids)
        for kind, count in asked.kinds.items():
            metrics.COMMANDS.add(count, kind, "taken")


def _event(kind: str, data: str | None, under_way: bool) -> Event:
    """A cancel is a cancel, whatever can be read of its reason."""
    members = _members(data)
    reason, who = _plain(members.get("reason")), _plain(members.get("by"))
    if kind == "signal":
        name, text = _plain(members.get("name")), _plain(members.get("data"))
        return Signalled(name or "", text or "null", who or "the client", reason)
    if kind not in get_args(Action):
        return CancelRequested(reason, who or "the client")
    fence, result = members.get("fence" if kind not in DISGUISED else "seen"), _plain(members.get("result"))
    return OperatorAsked(cast(Action, kind), who or "an operator", reason, fence, result, under_way)


def _members(data: str | None) -> dict[str, Any]:
    try:
        members = orjson.loads(data or "{}")
    except ValueError:
        return {}
    return members if isinstance(members, dict) else {}


def _plain(text: object) -> str | None:
    return None if text is None else str(text).replace("\x00", "\\0")


class Commands:
    """The command loop's step."""

    def __init__(self, stage: Stage, limit: int) -> None:
        self._stage = stage
        self._limit = limit
        self._after = 0

    async def step(self) -> bool:
        """Looks at one page of the commands that wait and takes those whose orders exist; whether there may be more."""
        async with self._stage.look() as connection:  # every hint asks, and seldom is there anything
            rows = await statement("orders_with_commands").rows(
                connection, after=self._after, most=self._limit
            )
        is_full = len(rows) == self._limit
        self._after = rows[-1]["id"] if is_full else 0
        nos = sorted({row["no"] for row in rows if row["no"] is not None})
        if nos:
            await run_batch("commands", nos, self._take, self._set_aside)
        return bool(nos) or is_full

    async def _take(self, nos: Sequence[int], problem: str | None = None) -> None:
        """Applies what is asked of these orders; with a ``problem``, they are set aside instead."""
        await self._stage.fetch(nos)
        async with self._stage.work("command") as work:
            locked = await orders.lock(work.connection, nos)
            asked = await asked_of(work.connection, list(locked.histories))
            broken: dict[int, list[Event]] = {no: [Broken(problem or "")] for no in asked.by_order}
            await self._stage.apply(work, broken if problem else asked.by_order, locked=locked)
            await mark_taken(work.connection, asked)

    async def _set_aside(self, no: int, error: Exception) -> None:
        await self._take([no], f"{type(error).__name__}: {error}")
