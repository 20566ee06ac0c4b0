"""Agents that do what an order's payload says, step by step, and write every call down in a file.

A payload names a behaviour for each step (``{"a": "permanent"}``), or a list of them for one call after another;
without one a step is ``ok``. What each means stands in ``_act``.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import zip_longest
from pathlib import Path
from typing import Any

import asyncpg
from pydantic import BaseModel

from tests.waiting import eventually, eventually_blocking
from triumvir.agent import Agent, Context
from triumvir.errors import Permanent, Transient
from triumvir.workflow import Step, Wait, Workflow

BOOKINGS = "create table public.bookings (key text not null, call int not null)"

lab = Agent("lab")
ghost = Agent("ghost")


@dataclass(frozen=True)
class Call:
    """One line of the ledger."""

    step: str
    key: str
    order: str
    call: int
    attempt: int
    fence: int
    at: float
    thread: str


def calls(folder: Path, order_id: str) -> list[Call]:
    """Every call made for an order so far, in order."""
    ledger = folder / "calls.jsonl"
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    return [call for call in (Call(**json.loads(line)) for line in lines) if call.order == order_id]


def open_gate(folder: Path, order_id: str) -> None:
    """Let the calls go on that wait at the gate of this order."""
    (folder / f"gate-{order_id}").touch()


def _folder() -> Path:
    return Path(os.environ["LAB_FOLDER"])


def _write_down(ctx: Context, step: str) -> None:
    call = Call(
        step, ctx.idempotency_key, ctx.order_id, ctx.call, ctx.attempt, ctx.fence, time.time(),
        threading.current_thread().name,
    )  # fmt: skip
    with (_folder() / "calls.jsonl").open("a") as ledger:
        ledger.write(json.dumps(call.__dict__) + "\n")


def _behaviour(ctx: Context, order: dict[str, Any], step: str) -> str:
    named = order.get(step, "ok")
    if isinstance(named, str):
        return named
    so_far = sum(call.step == step for call in calls(_folder(), ctx.order_id))
    return str(named[min(so_far, len(named)) - 1])


async def _perform(ctx: Context, order: dict[str, Any], step: str) -> Any:
    _write_down(ctx, step)
    return await _act(ctx, _behaviour(ctx, order, step), step)


async def _act(ctx: Context, behaviour: str, step: str) -> Any:
    match behaviour:
        case "ok":
            return {"step": step, "key": ctx.idempotency_key, "known": sorted(ctx.results)}
        case "hang":
            return await asyncio.Event().wait()
        case "late":
            return await _late(step)
        case "gate":
            await eventually(_gate(ctx).exists, what="the gate")
            return step
        case "report":
            ctx.progress("half of it")
            return await _act(ctx, "gate", step)
        case "report-and-hang":
            ctx.progress("half of it")
            return await _act(ctx, "hang", step)
        case _:
            return _raise_or_return(behaviour)


def _gate(ctx: Context) -> Path:
    return _folder() / f"gate-{ctx.order_id}"


async def _late(step: str) -> str:
    """Comes to its end just after it was told to stop."""
    try:
        return str(await asyncio.Event().wait())
    except asyncio.CancelledError:
        return f"late {step}"


def _raise_or_return(behaviour: str) -> Any:
    match behaviour:
        case "permanent":
            raise Permanent("no way")
        case "permanent-doubt":
            raise Permanent("no way", effect="unknown")
        case "transient":
            raise Transient("not now", effect="none")
        case "transient-doubt":
            raise Transient("not now")
        case "later":
            raise Transient("not now", effect="none", retry_after=timedelta(milliseconds=400))
        case "value-error":
            raise ValueError("odd \x00 text \ud800")
        case "system-exit":
            raise SystemExit(3)
        case "own-cancel":
            raise asyncio.CancelledError
        case "stop-iteration":
            return next(iter([]))
    return {
        "huge": "x" * 300_000,
        "nul": "a\x00b",
        "surrogate": "\ud800",
        "big-number": 2**70,
        "nan": float("nan"),
        "object": object(),
        "null": None,
    }[behaviour]


def _offer(agent: Agent, name: str) -> None:
    """An operation ``name`` with the undo ``un-name``."""

    @agent.operation(name, undo=f"un-{name}")
    async def run(ctx: Context, order: dict[str, Any]) -> Any:
        return await _perform(ctx, order, name)

    @agent.undo(f"un-{name}")
    async def undo(ctx: Context, order: dict[str, Any], result: Any) -> Any:
        return await _perform(ctx, order, f"un-{name}")


for _name in ("a", "b", "c"):
    _offer(lab, _name)
_offer(ghost, "a")


class Charge(BaseModel):
    amount: int


@lab.operation("typed")
async def typed(ctx: Context, order: Charge) -> Charge:
    _write_down(ctx, "typed")
    return Charge(amount=order.amount * 2)


@lab.operation("echo", undo="un-echo")
async def echo(ctx: Context, order: Any) -> Any:
    _write_down(ctx, "echo")
    return order


@lab.undo("un-echo")
async def un_echo(ctx: Context, order: Any, result: Any) -> None:
    _write_down(ctx, "un-echo")
    if order != result:
        raise Permanent(f"was run with {result}, and is undone with {order}")


@lab.operation("plain")
def plain(ctx: Context, order: dict[str, Any]) -> Any:
    _write_down(ctx, "plain")
    behaviour = _behaviour(ctx, order, "plain")
    if behaviour == "report":
        ctx.progress("half of it")
        eventually_blocking(_gate(ctx).exists, what="the gate")
        return "plain"
    return "done" if behaviour == "ok" else _raise_or_return(behaviour)


@ghost.operation("stall")
def stall(ctx: Context, order: dict[str, Any]) -> str:
    """A plain function that may hang for ever: nobody can stop it."""
    _write_down(ctx, "stall")
    if order.get("stalls"):
        threading.Event().wait()
    return "went on"


@ghost.operation("refuse-to-end")
async def refuse_to_end(ctx: Context, order: dict[str, Any]) -> None:
    """A coroutine that takes no cancellation."""
    _write_down(ctx, "refuse-to-end")
    while order.get("stalls"):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


@lab.operation("busy")
def busy(ctx: Context, order: dict[str, Any]) -> int:
    """Computes for so many seconds without ever waiting."""
    end, rounds = time.monotonic() + float(order["seconds"]), 0
    while time.monotonic() < end:
        rounds += 1
    return rounds


@lab.operation("book")
async def book(ctx: Context, order: dict[str, Any]) -> str:
    _write_down(ctx, "book")
    behaviour = _behaviour(ctx, order, "book")
    async with ctx.transaction() as connection:
        await connection.execute(
            "insert into bookings (key, call) values ($1, $2)", ctx.idempotency_key, ctx.call
        )
        if behaviour == "nested":
            async with ctx.transaction():
                pass
        if behaviour == "raise-inside":
            raise Transient("not now", effect="none")
        if behaviour == "fence":
            await _fence_off(ctx)
    if behaviour == "raise-after":
        raise Transient("not now", effect="none")
    return "booked"


@lab.operation("session")
async def session(ctx: Context, order: dict[str, Any]) -> list[Any]:
    """Runs these statements in its transaction; what it finds of the session before: settings, role, locks."""
    async with ctx.transaction() as connection:
        if order.get("codec"):
            await connection.set_type_codec(
                "json", schema="pg_catalog", encoder=json.dumps, decoder=json.loads
            )
        found = await connection.fetchrow(
            "select current_setting('search_path'), current_setting('default_transaction_read_only'), current_user,"
            " (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()),"
            " coalesce(current_setting('app.tenant', true), ''), to_regclass('pg_temp.scratch') is null,"
            " (select count(*) from pg_prepared_statements where from_sql),"
            " '{}'::json, pg_backend_pid()"
        )
        for sql in order.get("sql", []):
            await connection.execute(sql)
    return list(found or ())


async def _fence_off(ctx: Context) -> None:
    """As a supervisor does that took the attempt for dead, in the middle of its transaction."""
    connection = await asyncpg.connect(os.environ["TRIUMVIR_DATABASE_URL"])
    try:
        await connection.execute("update triumvir.inbox set refuse_upto = $1 where fence = $1", ctx.fence)
    finally:
        await connection.close()


def _steps(agent: str, *names: str, within: timedelta | None = None) -> Iterator[Step]:
    for name in names:
        yield Step(name, agent=agent, operation=name, undo=f"un-{name}", complete_within=within)


def _fan(*ranks: int) -> Iterator[Step]:
    """Three steps that are undone, by these ranks, and a last one that may fail."""
    for step, rank in zip_longest(_steps("lab", "a", "b", "c"), ranks):
        yield replace(step, undo_rank=rank)
    yield Step("plain", agent="lab", operation="plain")


def _solo(name: str, within: timedelta | None = None) -> Workflow:
    return Workflow(name, 1, [Step(name, agent="lab", operation=name, complete_within=within)])


def _choosy() -> Iterator[Step]:
    yield from _steps("lab", "a")
    yield Step("b", agent="lab", operation="b", undo="un-b", when="payload.with_b")
    chosen = {
        "total": "payload.total",
        "after": "steps.a.result.step",
        "b": "steps.b.state",
        "id": "order.order_id",
    }
    yield Step("echo", agent="lab", operation="echo", undo="un-echo", select=chosen)
    yield Step("c", agent="lab", operation="c", undo="un-c", when="!(payload.without_c)")


def _baffled() -> Iterator[Step]:
    yield Step(
        "echo", agent="lab", operation="echo", undo="un-echo", select="payload.lines[?price > `1`].sku"
    )
    yield Step("b", agent="lab", operation="b", undo="un-b", when="length(payload.total) > `1`")
    yield from _steps("lab", "c")


def _routed(undone: bool) -> Iterator[Step]:
    """The first step leads to the second one when its time is over; the main line goes on with the third."""
    undos = {name: f"un-{name}" if undone else None for name in ("a", "b", "c")}
    yield Step("a", agent="lab", operation="a", undo=undos["a"], complete_within=_HASTY, on_timeout="b")
    yield Step("b", agent="lab", operation="b", undo=undos["b"], main_line=False)
    yield Step("c", agent="lab", operation="c", undo=undos["c"])


_HASTY = timedelta(seconds=1.5)
"""A deadline that tests wait for, and that a call which is to keep it keeps on a slow machine, too."""


def _waiting(name: str, within: timedelta, *, default: bool = True) -> Workflow:
    """A step, an approval, and a step that needs it."""
    no = {"approved": False} if default else None
    steps: list[Step | Wait] = [
        *_steps("lab", "a"),
        Wait("approve", signal="approval", within=within, default=no),
        Step("b", agent="lab", operation="b", undo="un-b", when="steps.approve.result.approved"),
    ]
    return Workflow(name, 1, steps, on_error="compensate")


WORKFLOWS = [
    Workflow("trio", 1, list(_steps("lab", "a", "b", "c")), on_error="compensate"),
    Workflow("trio-halt", 1, list(_steps("lab", "a", "b", "c")), on_error="halt"),
    Workflow("fan", 1, list(_fan()), on_error="compensate", undo_order="parallel"),
    Workflow("in-turn", 1, list(_fan()), on_error="compensate"),
    Workflow(
        "secretive", 1, list(_fan()), on_error="compensate", classification="confidential", retention_days=30
    ),
    Workflow("ranks", 1, list(_fan(2, 1, 1)), on_error="compensate", undo_order="by-rank"),
    *(Workflow(name, 1, list(_steps("lab", "a"))) for name in ("solo", "table")),
    Workflow("hasty", 1, list(_steps("lab", "a", within=_HASTY))),
    Workflow("hasty-trio", 1, list(_steps("lab", "a", "b", within=_HASTY)), on_error="compensate"),
    Workflow("ghost", 1, list(_steps("ghost", "a"))),
    Workflow("hasty-ghost", 1, list(_steps("ghost", "a", within=_HASTY))),
    *(
        Workflow(name, 1, [Step(name, agent="ghost", operation=name, complete_within=_HASTY)])
        for name in ("stall", "refuse-to-end")
    ),
    Workflow("missing", 1, [Step("missing", agent="lab", operation="missing")]),
    Workflow(
        "no-undo",
        1,
        [Step("a", agent="lab", operation="a", undo="un-missing"), *_steps("lab", "b")],
        on_error="compensate",
    ),
    Workflow("choosy", 1, list(_choosy()), on_error="compensate"),
    Workflow("routed", 1, list(_routed(undone=True)), on_error="compensate"),
    Workflow("once", 1, [Step("a", agent="lab", operation="a", complete_within=_HASTY, recoverable=False)]),
    Workflow("idle", 1, [Step("a", agent="lab", operation="a", when="payload.go")]),
    Workflow("baffled", 1, list(_baffled()), on_error="compensate"),
    *(_solo(name) for name in ("typed", "plain", "busy")),
    _solo("book"),
    _solo("session"),
    _waiting("patient", timedelta(days=1)),
    _waiting("hasty-approval", _HASTY),
    _waiting("needs-approval", _HASTY, default=False),
    Workflow("only-waits", 1, [Wait("approve", signal="approval", within=timedelta(days=1))]),
]
