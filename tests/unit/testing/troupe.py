"""An agent and a workflow to rehearse: a till that keeps its books by idempotency key, as a remote service would."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from triumvir import Agent, Context, Step, Workflow


class Sale(BaseModel):
    """What is sold. ``seconds``: how long each call to the remote service takes."""

    pence: int
    seconds: float = 0.0


class Receipt(BaseModel):
    """What a step returns."""

    receipt: str


class Remote:
    """Dedupes by idempotency key. ``net``: what is left of each step's effects; ``seen``: every key, in order."""

    def __init__(self) -> None:
        self.net: Counter[str] = Counter()
        self.seen: list[str] = []
        self.undone: list[str] = []

    def serve(self, ctx: Context, direction: str) -> None:
        known = ctx.idempotency_key in self.seen
        self.seen.append(ctx.idempotency_key)
        if known:
            return
        if direction == "do":
            self.net[ctx.step] += 1
        else:
            self.undone.append(ctx.step)
            self.net[ctx.step] = max(0, self.net[ctx.step] - 1)


def till_of(remote: Remote) -> Agent:
    """An agent with three operations, one of them plain, and their undos."""
    till = Agent("till")

    @till.operation("reserve", undo="release")
    async def reserve(ctx: Context, sale: Sale) -> Receipt:
        await asyncio.sleep(sale.seconds)
        remote.serve(ctx, "do")
        return Receipt(receipt=f"{ctx.step}-{sale.pence}")

    @till.operation("charge", undo="refund")
    def charge(ctx: Context, sale: Sale) -> Receipt:
        remote.serve(ctx, "do")
        return Receipt(receipt=f"{ctx.step}-{ctx.results['reserve']['receipt']}")

    @till.operation("ship", undo="recall")
    async def ship(ctx: Context, sale: Sale) -> Receipt:
        remote.serve(ctx, "do")
        return Receipt(receipt=ctx.step)

    async def undo(ctx: Context, sale: Sale, receipt: Receipt | None) -> None:
        remote.serve(ctx, "undo")

    def plain_undo(ctx: Context, sale: Sale, receipt: Receipt | None) -> None:
        remote.serve(ctx, "undo")

    till.undo("release")(undo)
    till.undo("refund")(plain_undo)
    till.undo("recall")(undo)
    return till


SALE = Workflow(
    "sale",
    version=1,
    steps=[
        Step(
            "reserve",
            agent="till",
            operation="reserve",
            undo="release",
            complete_within=timedelta(minutes=10),
        ),
        Step("charge", agent="till", operation="charge", undo="refund"),
        Step("ship", agent="till", operation="ship", undo="recall", when="payload.pence > `100`"),
    ],
    on_error="compensate",
)
"""Free shipping above a pound; what is cheaper is fetched."""


def press() -> Agent:
    """An agent that prints ten pages in three and a half seconds, and says so after each."""
    made = Agent("press")

    @made.operation("print-pages")
    async def print_pages(ctx: Context, order: dict[str, Any]) -> str:
        for page in range(1, 11):
            ctx.progress(f"{page} of 10")
            await asyncio.sleep(0.35)
        return "printed"

    return made
