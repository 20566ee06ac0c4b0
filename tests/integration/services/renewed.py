"""One agent in two releases: the older one does not know the operation ``fresh`` yet."""

from __future__ import annotations

from triumvir.agent import Agent, Context

older = Agent("renewed")
newer = Agent("renewed")


async def known(ctx: Context, order: dict[str, object]) -> str:
    return "known"


for _agent in (older, newer):
    _agent.operation("known")(known)


@newer.operation("fresh")
async def fresh(ctx: Context, order: dict[str, object]) -> str:
    return "fresh"
