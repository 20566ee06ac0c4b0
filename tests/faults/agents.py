"""The agents of the fault tests: two steps at the deduping service, and one that only its own commit protects."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from datetime import timedelta
from itertools import zip_longest
from typing import Any

import aiohttp

from triumvir.agent import Agent, Context, Permanent, Transient
from triumvir.contracts.names import Direction
from triumvir.runtime.crash import EXIT_CODE
from triumvir.workflow import Step, UndoOrder, Workflow

BOOKINGS = """
create table public.bookings (
    id bigint generated always as identity, at timestamptz not null default clock_timestamp(),
    order_key text not null, step text not null, direction text not null, key text not null, fence bigint not null)
"""
"""No unique constraint: whoever commits without holding the attempt leaves a second row."""

TRADE = Workflow(
    "trade",
    1,
    [
        Step("reserve", agent="goods", operation="reserve", undo="release"),
        Step("book", agent="goods", operation="book", undo="unbook"),
        Step("charge", agent="money", operation="charge", undo="refund"),
    ],
    on_error="compensate",
)

CHOOSY = Workflow(
    "choosy",
    1,
    [
        Step("reserve", agent="goods", operation="reserve", undo="release", select={"ask": "payload.ask"}),
        Step("book", agent="goods", operation="book", undo="unbook", when="payload.kind != 'good'"),
        Step(
            "charge",
            agent="money",
            operation="charge",
            undo="refund",
            select={"ask": "payload.ask", "booked": "steps.book.result.booked", "book": "steps.book.state"},
        ),
    ],
    on_error="compensate",
)
"""The same for orders that say which kind they are; good ones book nothing."""


def fan(undo_order: UndoOrder, *ranks: int | None) -> Workflow:
    """Three steps that are undone in this order, and a seal that may be refused."""
    steps = [replace(step, undo_rank=rank) for step, rank in zip_longest(TRADE.steps, ranks)]
    seal = Step("seal", agent="money", operation="seal")
    return Workflow(f"trade-{undo_order}", 1, [*steps, seal], on_error="compensate", undo_order=undo_order)


FANS = (fan("parallel"), fan("by-rank", 2, 1, 2))

goods = Agent("goods")
money = Agent("money")


async def ask(ctx: Context, direction: Direction, order: dict[str, Any], *, applies: bool) -> dict[str, Any]:
    """One call of the remote service. With ``applies`` the effect is its own; else it only has its say."""
    if direction == "do" and order.get("ask", {}).get(ctx.step, {}).get("die"):
        os._exit(EXIT_CODE)
    url = f"{os.environ['FAULTS_DOWNSTREAM']}/{direction}/{ctx.step}"
    body = {
        "order": ctx.order_key,
        "key": ctx.idempotency_key,
        "fence": ctx.fence,
        "ask": order.get("ask", {}),
        "applies": applies,
    }
    patience = aiohttp.ClientTimeout(total=max(0.001, ctx.time_left / timedelta(seconds=1)))
    async with (
        aiohttp.ClientSession(timeout=patience) as session,
        session.post(url, json=body) as response,
    ):
        if response.status == 503:
            raise Transient("not now", effect="none")
        if response.status == 422:
            raise Permanent("refused", effect="none")
        answer: dict[str, Any] = await response.json()
    if direction == "do" and response.headers["Tries"] == "1":
        _block(order.get("ask", {}).get(ctx.step, {}).get("block", 0.0))
    return answer


def _block(seconds: float) -> None:
    """What an asynchronous function must not do: nothing else of its process runs meanwhile."""
    threading.Event().wait(seconds)


@goods.operation("reserve", undo="release")
async def reserve(ctx: Context, order: dict[str, Any]) -> dict[str, Any]:
    return await ask(ctx, "do", order, applies=True)


@goods.undo("release")
async def release(ctx: Context, order: dict[str, Any], reserved: dict[str, Any] | None) -> None:
    await ask(ctx, "undo", order, applies=True)


@goods.operation("book", undo="unbook")
async def book(ctx: Context, order: dict[str, Any]) -> dict[str, Any]:
    async with ctx.transaction() as connection:
        await _write(ctx, connection, "do")
        await ask(ctx, "do", order, applies=False)
    return {"booked": ctx.fence}


@goods.undo("unbook")
async def unbook(ctx: Context, order: dict[str, Any], booked: dict[str, Any] | None) -> None:
    await ask(ctx, "undo", order, applies=False)
    async with ctx.transaction() as connection:
        net = await connection.fetchval(
            "select coalesce(sum(case direction when 'do' then 1 else -1 end), 0) from public.bookings"
            " where order_key = $1 and step = $2",
            ctx.order_key,
            ctx.step,
        )
        if net > 0:
            await _write(ctx, connection, "undo")


@money.operation("charge", undo="refund")
async def charge(ctx: Context, order: dict[str, Any]) -> dict[str, Any]:
    return await ask(ctx, "do", order, applies=True)


@money.undo("refund")
async def refund(ctx: Context, order: dict[str, Any], charged: dict[str, Any] | None) -> None:
    await ask(ctx, "undo", order, applies=True)


@money.operation("seal")
async def seal(ctx: Context, order: dict[str, Any]) -> dict[str, Any]:
    return await ask(ctx, "do", order, applies=True)


async def _write(ctx: Context, connection: Any, direction: Direction) -> None:
    await connection.execute(
        "insert into public.bookings (order_key, step, direction, key, fence) values ($1, $2, $3, $4, $5)",
        ctx.order_key,
        ctx.step,
        direction,
        ctx.idempotency_key,
        ctx.fence,
    )
