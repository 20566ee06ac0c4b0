"""F48: a cancel races the completion of its order, a signal its deadline, a cancel a signal: one wins, all are told."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final

import pytest

from tests.faults.cluster import Cluster
from tests.faults.shared import SharedCluster
from triumvir.client import Order, Submission
from triumvir.store.operators import apply_workflow
from triumvir.store.statements import Row
from triumvir.workflow import Step, Wait, Workflow

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]
AT_ONCE: Final = 50
RESERVE: Final = Step("reserve", agent="goods", operation="reserve", undo="release")
SHORTEST: Final = timedelta(milliseconds=1)
LONGEST: Final = timedelta(hours=1)
WITHIN: Final = (SHORTEST, *(timedelta(milliseconds=60 * n) for n in range(1, 9)), LONGEST)
"""From over before anybody can know of it to never: what lies between is anybody's race."""
BY_SIGNAL: Final = {"by": "signal"}
BY_DEFAULT: Final = {"by": "default"}
BEFORE: Final = "supervisor.before_commit"
AFTER: Final = "supervisor.after_commit"
Race = Callable[[int, Order], Awaitable[None]]


def workflows() -> list[Workflow]:
    waits = [
        Workflow(
            f"race-{n}",
            1,
            [RESERVE, Wait("approve", signal="approval", within=within, default=BY_DEFAULT)],
            on_error="compensate",
        )
        for n, within in enumerate(WITHIN)
    ]
    return [Workflow("one-step", 1, [RESERVE], on_error="compensate"), *waits]


def many(most: int, few: int) -> pytest.MarkDecorator:
    """All of them are slow; a sample is not."""
    cases = [pytest.param(few), pytest.param(most, marks=pytest.mark.slow)]
    return pytest.mark.parametrize("count", cases)


async def raced(cluster: Cluster, name: str, submissions: Sequence[Submission], race: Race) -> list[Row]:
    """Races with each order, some at once; once nothing moves, each of them with its statuses, in order."""
    for workflow in workflows():
        await apply_workflow(cluster.database, workflow)
    room = asyncio.Semaphore(AT_ONCE)

    async def one(n: int, submission: Submission) -> None:
        async with room:
            order = await cluster.client.submit(
                submission.workflow, submission.payload, order_id=submission.order_id, progress=True
            )
            cluster.load.accepted.add(order.key)
            await race(n, order)

    await asyncio.gather(*(one(n, submission) for n, submission in enumerate(submissions)))
    await cluster.assert_sound(ends=False, within=300)
    return await cluster.database.fetch(
        "select o.order_id, o.state, o.workflow, array_agg(t.status order by t.n) as told,"
        " (select s.result from steps s where s.no = o.no and s.step_no = 2) as result"
        " from orders o join transitions t on t.no = o.no and t.status is not null"
        " where starts_with(o.order_id, $1) group by o.no",
        f"{name}-",
    )


async def until(order: Order, status: str) -> None:
    """Until its client was told so, or that it ended."""
    statuses: AsyncIterator[object] = order.statuses()
    async for told in statuses:
        if getattr(told, "status", None) == status:
            return


@many(1000, 40)
async def test_f48_of_a_cancel_and_a_completion_one_wins_and_the_client_is_told_which(
    shared_cluster: SharedCluster, count: int
) -> None:
    async def race(n: int, order: Order) -> None:
        moments = ("received", "processing")
        if n % 3:
            await until(order, moments[n % 3 - 1])
        await order.cancel("changed my mind")

    async with shared_cluster.taken() as cluster:
        name = f"cancel{count}"
        submissions = [Submission("one-step", {"n": n}, f"{name}-{n}") for n in range(count)]
        found = await raced(cluster, name, submissions, race)
    assert len(found) == count
    for row in found:
        assert row["state"] in ("processed", "compensated", "cancelled"), dict(row)
        lost = row["state"] == "processed"
        assert Counter(row["told"])["cancel_refused"] == lost, dict(row)
        assert Counter(row["told"])["completed"] == lost, dict(row)


@many(100, 30)
async def test_f48_of_a_signal_and_its_deadline_one_wins_and_the_sender_is_told_which(
    shared_cluster: SharedCluster, count: int
) -> None:
    async def race(n: int, order: Order) -> None:
        await until(order, "held")
        await order.signal("approval", BY_SIGNAL)

    async with shared_cluster.taken() as cluster:
        name = f"signal{count}"
        submissions = [Submission(f"race-{n % len(WITHIN)}", {}, f"{name}-{n}") for n in range(count)]
        found = await raced(cluster, name, submissions, race)
    assert len(found) == count
    for row in found:
        counted, refused = (row["told"].count(answer) for answer in ("signalled", "signal_refused"))
        assert (row["state"], counted + refused) == ("processed", 1), dict(row)
        assert row["result"] == ('{"by":"signal"}' if counted else '{"by":"default"}'), dict(row)
        within = WITHIN[int(row["workflow"].removeprefix("race-"))]
        assert within != LONGEST or counted, dict(row)
        assert within != SHORTEST or refused, dict(row)


@many(100, 20)
async def test_f48_of_a_cancel_and_a_signal_the_first_commit_wins_and_both_are_answered(
    shared_cluster: SharedCluster, count: int
) -> None:
    async def race(n: int, order: Order) -> None:
        await until(order, "held")
        asked = [order.cancel(), order.signal("approval", BY_SIGNAL)]
        await asyncio.gather(*(asked if n % 2 else reversed(asked)))

    async with shared_cluster.taken() as cluster:
        name = f"cross{count}"
        submissions = [Submission(f"race-{len(WITHIN) - 1}", {}, f"{name}-{n}") for n in range(count)]
        found = await raced(cluster, name, submissions, race)
    assert len(found) == count
    for row in found:
        told = Counter(row["told"])
        assert told["signalled"] + told["signal_refused"] == 1, dict(row)
        wins = "signalled" if row["state"] == "processed" else "compensating"
        assert row["state"] in ("processed", "compensated"), dict(row)
        assert told[wins] == 1, dict(row)
        assert told["cancel_refused"] == (row["state"] == "processed"), dict(row)


async def test_two_supervisors_handle_the_end_of_each_wait_once_and_one_that_dies_loses_none(
    shared_cluster: SharedCluster,
) -> None:
    async def wait(n: int, order: Order) -> None:
        return None

    async with shared_cluster.taken() as cluster:
        if "supervisor-b" not in cluster.services:
            second = await cluster.add("supervisor", "supervisor-b")
            await second.ready()
        died = sum(map(cluster.crashes, (BEFORE, AFTER)))
        await cluster.arm("supervisor", BEFORE, 1)
        await cluster.arm("supervisor-b", AFTER, 1)
        submissions = [Submission(f"race-{1 + n % 3}", {}, f"ends-{n}") for n in range(40)]
        found = await raced(cluster, "ends", submissions, wait)
        assert sum(map(cluster.crashes, (BEFORE, AFTER))) > died, "whoever saw to the first end dies"
    assert len(found) == 40
    for row in found:
        assert (row["state"], row["result"]) == ("processed", '{"by":"default"}'), dict(row)
        assert Counter(row["told"])["step_completed"] == 1, dict(row)
