"""Several supervisors over one store: each expiry is handled once, whatever cuts one of them off."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.herd import make_herd
from tests.integration.supervision.conftest import Desk
from tests.waiting import eventually
from triumvir.errors import StoreError
from triumvir.lifecycle import OrderRecord
from triumvir.runtime import decisions
from triumvir.store.faults import DATABASE_ERRORS
from triumvir.store.statements import Connection
from triumvir.telemetry import metrics
from triumvir_supervisor.overdue import Overdue
from triumvir_supervisor.parking import Parking


async def test_f45_each_expiry_is_counted_once_by_four_supervisors_at_once(desk: Desk) -> None:
    await make_herd(desk.db, "shop", 300, workflow="solo")
    fleet = [await desk.supervisor(f"s{n}") for n in range(4)]
    for _ in range(20):
        await asyncio.gather(*(each.overdue.scan() for each in fleet))
    assert Counter(await desk.failures()) == {1: 300}
    signed = await desk.db.fetch("select who, count(*) from transitions where n = 3 group by 1")
    assert sum(row["count"] for row in signed) == 300
    assert len(signed) > 1, "several of them worked"


async def test_f45_a_supervisor_cut_off_in_its_transaction_counts_nothing_twice(desk: Desk) -> None:
    await make_herd(desk.db, "shop", 40, workflow="solo")
    proxy = await desk.proxied()
    cut_off, other = await desk.supervisor("cut off", database_url=proxy.url), await desk.supervisor("other")
    locked = asyncio.Event()

    async def apply(connection: Connection, *_: object, **__: object) -> None:
        locked.set()
        proxy.blackhole()
        await connection.execute("select 1")  # it still believes that it holds the rows

    cut_off.overdue._decider.apply = apply  # type: ignore[assignment,method-assign]
    scanning = asyncio.create_task(cut_off.overdue.scan())
    await locked.wait()
    await other.overdue.scan()
    assert Counter(await desk.failures()) == {0: 40}, "the rows are locked by the one that is cut off"
    ended = await desk.db.fetchval(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity"
        " where application_name = 'triumvir cut off overdue' and datname = current_database()"
    )
    assert ended == 1
    await eventually(lambda: _scanned(desk, other.overdue), within=60, what="the other one's pass")
    proxy.heal()
    proxy.cut()
    with pytest.raises((StoreError, *DATABASE_ERRORS)):
        await scanning
    del cut_off.overdue._decider.apply
    for each in (cut_off, other):
        await each.overdue.scan()
    assert Counter(await desk.failures()) == {1: 40}
    assert await desk.db.fetchval("select count(*) from transitions where n > 2") == 40


async def _scanned(desk: Desk, overdue: Overdue) -> bool:
    await overdue.scan()
    return Counter(await desk.failures()) == {1: 40}


async def test_f47_what_moved_between_scan_and_write_is_left_alone(desk: Desk) -> None:
    done, renewed, overdue = await make_herd(desk.db, "shop", 3, workflow="solo")
    supervisor = await desk.supervisor()
    genuine = supervisor.overdue._read
    read: list[list[int]] = []

    async def pause(*arguments: object) -> object:
        rows = await genuine(*arguments)  # type: ignore[arg-type]
        if not read:
            read.append([row["no"] for row in rows])
            await desk.db.execute(
                "update orders set state = 'processed', locked_by = null, complete_by = null, ended_at = now(),"
                " history = 3 where no = $1",
                done,
            )
            await desk.db.execute(
                "update orders set complete_by = now() + interval '1 h' where no = $1", renewed
            )
        return rows

    supervisor.overdue._read = pause  # type: ignore[assignment,method-assign]
    await supervisor.overdue.scan()
    assert read == [[done, renewed, overdue]], "all three were overdue when they were read"
    assert await desk.failures() == [0, 0, 1]
    states = {row["no"]: row["state"] for row in await desk.db.fetch("select no, state from orders")}
    assert states == {done: "processed", renewed: "processing", overdue: "pending"}
    fenced = await desk.db.fetch("select no from inbox where refuse_upto > 0")
    assert [row["no"] for row in fenced] == [overdue], "the agents of the others may go on"


async def test_f56_an_order_whose_recovery_raises_is_parked_and_the_others_go_on(desk: Desk) -> None:
    nos = await make_herd(desk.db, "shop", 60, workflow="solo")
    poison, supervisor = nos[17], await desk.supervisor()
    genuine, raised, now = supervisor.overdue._expired, [], [0.0]
    supervisor.overdue._parking = Parking(clock=lambda: now[0])

    async def expired(connection: Connection, rows: object) -> object:
        if any(row["no"] == poison for row in rows):  # type: ignore[attr-defined]
            raised.append(len(rows))  # type: ignore[arg-type]
            raise LookupError("a fault in the supervisor")
        return await genuine(connection, rows)  # type: ignore[arg-type]

    supervisor.overdue._expired = expired  # type: ignore[assignment,method-assign]
    await supervisor.overdue.scan()
    assert Counter(await desk.failures()) == {1: 59, 0: 1}
    assert raised[0] == 60
    assert raised[-1] == 1
    before = len(raised)
    await supervisor.overdue.scan()
    assert len(raised) == before, "it is left alone for a while"
    for passed in (1, 2, 4):
        now[0] += passed
        await supervisor.overdue.scan()
    assert await desk.db.fetchval("select state from orders where no = $1", poison) == "error"
    assert (await desk.history(poison))[-1] == "LookupError: a fault in the supervisor"
    assert await desk.db.fetchval("select count(*) from orders where state = 'error'") == 1


async def test_f56_an_order_on_which_no_decision_can_be_made_rests_with_an_alert(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    nos = await make_herd(desk.db, "shop", 20, workflow="solo")
    genuine: Any = vars(decisions)["decide"]
    supervisor = await desk.supervisor()

    def decide(record: OrderRecord, *rest: object) -> object:
        if record.no == nos[3]:
            raise ZeroDivisionError("a fault in the heart")
        return genuine(record, *rest)

    monkeypatch.setattr(decisions, "decide", decide)
    await supervisor.overdue.scan()
    states = Counter(row["state"] for row in await desk.db.fetch("select state from orders"))
    assert states == {"pending": 19, "error": 1}
    assert (await desk.history(nos[3]))[
        -1
    ] == "deciding on Expired failed: ZeroDivisionError: a fault in the heart"
    refs = await desk.db.fetch("select refs from outbox where refs like '%order-halted%'")
    assert len(refs) <= 1


async def test_the_pace_is_shared_by_those_that_live(desk: Desk) -> None:
    await make_herd(desk.db, "shop", 120, workflow="solo")
    pace = {"recovery_rate": 0.001, "recovery_limit": 10_000}
    fleet = [await desk.supervisor(f"s{n}", **pace) for n in range(3)]
    for each in fleet:
        each.overdue._pace._saved = 60.0  # what was saved up while nothing was overdue
    seen = metrics.SUPERVISOR_ROWS.counts[()]
    assert await fleet[0].overdue.scan(), "there is more than it may move on"
    assert sum(await desk.failures()) == 60
    assert metrics.SUPERVISOR_ROWS.counts[()] - seen == 120, "it chose among the oldest of all"
    for each in fleet[1:]:
        await each.overdue.scan()
    assert sum(await desk.failures()) == 120
    assert not await fleet[0].overdue.scan()


async def test_no_more_is_reopened_while_schedulers_do_not_claim_what_was(desk: Desk) -> None:
    await make_herd(desk.db, "shop", 50, workflow="solo", begun=False)
    supervisor = await desk.supervisor(recovery_backlog=20)
    for _ in range(3):
        await supervisor.overdue.scan()
    waiting = "select count(*) from orders where state = 'pending'"
    assert await desk.db.fetchval(waiting) == 20
    await desk.db.execute("update orders set held_by = 'agent:lab' where state = 'pending'")
    await supervisor.overdue.scan()
    assert await desk.db.fetchval(waiting) == 40, "those were claimed, and held"


async def test_the_lag_is_the_age_of_the_oldest_deadline_nobody_saw_to(desk: Desk) -> None:
    await make_herd(desk.db, "shop", 5, workflow="solo")
    supervisor = await desk.supervisor()
    await supervisor.overdue.scan()
    assert _gauge() > 57 * 60
    await supervisor.overdue.scan()
    assert _gauge() == 0


def _gauge() -> float:
    return float(sum(read() for read in metrics.RECOVERY_LAG._reads[()]))
