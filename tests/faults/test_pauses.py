"""Operators at work while schedulers die: each move and pause is carried out once, whatever falls out."""

from __future__ import annotations

import os
import random
import secrets
import signal
from collections.abc import Sequence
from typing import Any, Final

import pytest

from tests.faults.cluster import Cluster
from tests.faults.shared import SharedCluster
from tests.waiting import eventually_true
from triumvir.client import Order
from triumvir.lifecycle import PAUSED, Action
from triumvir.store import pauses
from triumvir.store.operators import ask_move
from triumvir.store.reads import Reads

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

SEED: Final = int(os.environ.get("FAULT_SEED", "1"))
POINTS: Final = (
    "scheduler.command.before_commit",
    "scheduler.command.after_commit",
    "scheduler.command.after_publish",
    "scheduler.claim.before_commit",
    "scheduler.claim.after_commit",
    "scheduler.reply.after_commit",
)
STUCK: Final = {"charge": {"fail": "permanent"}, "undo book": {"fail": "transient", "times": 8}}
"""Its undo fails as often as one round of tries allows, and works in the next."""
SLOW: Final = {"reserve": {"slow": 0.8}}
BY: Final = "operator:ann"


def cases() -> list[object]:
    """Every point; all but one are slow."""
    chosen = random.Random(SEED).choice(POINTS[:3])
    return [pytest.param(p, id=p, marks=() if p == chosen else pytest.mark.slow) for p in POINTS]


async def ask(cluster: Cluster, orders: Sequence[Order], action: Action) -> None:
    """One command for each order, as it is now."""
    for order in orders:
        client, _, order_id = order.key.partition("/")
        fence = None
        if action not in ("pause", "unpause"):
            found = await Reads(cluster.database).order(client, order_id)
            assert found is not None
            fence = found.order.fence
        await ask_move(cluster.database, client, order_id, action, who=BY, reason="INC-1", fence=fence)


async def until(cluster: Cluster, what: str, condition: str, *values: object) -> None:
    """Until this holds of the orders in the store."""

    async def holds() -> bool:
        return bool(await cluster.database.fetchval(f"select {condition}", *values))

    await eventually_true(holds, within=90, what=what)


async def until_taken(cluster: Cluster) -> None:
    await until(
        cluster, "what was asked to be taken", "not exists (select from commands where taken_at is null)"
    )


async def submitted(cluster: Cluster, count: int, behaviour: dict[str, Any]) -> list[Order]:
    name = secrets.token_hex(3)
    return [await cluster.load.submit_one(f"{name}-{n}", behaviour) for n in range(count)]


def ids(orders: Sequence[Order]) -> list[str]:
    return [order.key.partition("/")[2] for order in orders]


@pytest.mark.parametrize("point", cases())
async def test_a_scheduler_that_dies_among_moves_and_pauses(
    shared_cluster: SharedCluster, point: str
) -> None:
    """Twice, at the same point; then it lives, and all that was asked for is so, and was done once."""
    async with shared_cluster.taken() as cluster:
        stuck = await submitted(cluster, 6, STUCK)
        resting = "count(*) = 6 from orders where order_id = any($1) and state = 'compensation_failed'"
        await until(cluster, "six to rest", resting, ids(stuck))
        before = cluster.crashes(point)
        victim = await cluster.arm("scheduler", point, 1, 1)
        running = await submitted(cluster, 6, SLOW)
        await ask(cluster, running, "pause")
        await ask(cluster, stuck[:2], "resume")
        for order, resting_one in zip(running, (*stuck[2:], None, None), strict=True):
            if await victim.dies(times=2, within=3):
                break
            await ask(cluster, [order], "pause")
            await ask(cluster, [resting_one] if resting_one else [], "resume")
            await submitted(cluster, 1, {})
        assert await victim.dies(times=2), f"nobody died twice at {point}"
        assert cluster.crashes(point) == before + 2
        await until_taken(cluster)
        held = "count(*) = 6 from orders where order_id = any($1) and (held_by = $2 or ended_at is not null)"
        await until(cluster, "all to stand still or to have ended", held, ids(running), PAUSED)
        again = (
            "select count(*) from transitions t join orders o using (no)"
            " where o.order_id = any($1) and t.why like 'paused by %'"
        )
        assert await cluster.database.fetchval(again, ids(running)) <= 6
        await ask(cluster, running, "unpause")
        states = await cluster.states()
        await ask(cluster, [o for o in stuck if states[o.key] == "compensation_failed"], "resume")
        await until_taken(cluster)
        await cluster.assert_sound()
        states = await cluster.states()
        assert {states[order.key] for order in running} == {"processed"}
        assert {states[order.key] for order in stuck} == {"compensated"}


@pytest.mark.slow
async def test_pauses_that_are_asked_for_while_no_scheduler_runs_hold_and_outlive_its_restart(
    shared_cluster: SharedCluster,
) -> None:
    async with shared_cluster.taken() as cluster:
        scheduler = cluster.services["scheduler"]
        await scheduler.stop(signal.SIGKILL)
        alone, others = await submitted(cluster, 3, {}), await submitted(cluster, 3, {})
        there = "count(*) = 6 from orders where order_id = any($1)"
        await until(cluster, "six to be accepted", there, ids([*alone, *others]))
        await ask(cluster, alone, "pause")
        await pauses.pause(cluster.database, "workflow", "trade", 0, BY, "INC-2")
        await scheduler.start()
        held = "count(*) = 3 from orders where order_id = any($1) and held_by = $2 and attempt = 0"
        await until(cluster, "three paused", held, ids(alone), PAUSED)
        await until(cluster, "three held", held, ids(others), "pause:workflow:trade")
        await scheduler.restart(number=signal.SIGKILL)
        await scheduler.ready()
        await until(cluster, "three still paused", held, ids(alone), PAUSED)
        await until(cluster, "three still held", held, ids(others), "pause:workflow:trade")
        await ask(cluster, alone, "unpause")
        await until(cluster, "the workflow's pause to hold them", held, ids(alone), "pause:workflow:trade")
        assert await pauses.unpause(cluster.database, "workflow", "trade", 0, BY, None)
        await cluster.assert_sound()
        states = await cluster.states()
        assert {states[order.key] for order in (*alone, *others)} == {"processed"}
