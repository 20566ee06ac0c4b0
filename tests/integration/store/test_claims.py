"""What is claimed: fair by client, by rank, due, not held, and by one process only."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import asyncpg

from tests.integration.store.rows import hold, live_instance, lock, make_orders
from triumvir.store.statements import Connection, statement


async def _claim(connection: Connection, most: int = 100) -> list[int]:
    return [row["no"] for row in await statement("claim_candidates").rows(connection, most=most)]


async def test_a_client_with_many_orders_leaves_room_for_the_others(connection: asyncpg.Connection) -> None:
    many = await make_orders(connection, [f"m{n}" for n in range(50)], client="shop-a")
    few = await make_orders(connection, ["f1", "f2"], client="shop-b")
    lone = await make_orders(connection, ["l1"], client="shop-c")
    async with connection.transaction():
        claimed = await _claim(connection, 9)
    whose = Counter("many" if no in many else "few" if no in few else "lone" for no in claimed)
    assert whose == {"many": 3, "few": 2, "lone": 1}
    assert lone[0] in claimed


async def test_with_room_for_one_order_at_a_time_no_client_has_it_all(connection: asyncpg.Connection) -> None:
    for client in ("shop-a", "shop-b", "shop-z"):
        await make_orders(connection, [f"o{n}" for n in range(40)], client=client)
    turns: Counter[str] = Counter()
    for _ in range(60):
        (row,) = await statement("claim_candidates").rows(connection, most=1)
        await lock(connection, row["no"])
        turns[row["client"]] += 1
    assert set(turns) == {"shop-a", "shop-b", "shop-z"}
    assert min(turns.values()) >= 5


async def test_older_and_more_urgent_orders_go_first(connection: asyncpg.Connection) -> None:
    nos = await make_orders(connection, ["first", "second", "urgent", "idle"], priorities=[0, 0, 5, -5])
    async with connection.transaction():
        assert await _claim(connection, 3) == [nos[2], nos[0], nos[1]]


async def test_the_rank_of_two_orders_never_changes(connection: asyncpg.Connection) -> None:
    urgent, later = await make_orders(connection, ["u", "l"], priorities=[-1, 0])
    rows = await connection.fetch("select no, rank from orders")
    ranks: dict[int, int] = {row["no"]: row["rank"] for row in rows}
    assert 9_000_000 < ranks[urgent] - ranks[later] <= 10_000_000, "one point is worth ten seconds"


async def test_an_order_is_not_claimed_before_its_time(connection: asyncpg.Connection) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    await make_orders(connection, ["later"], not_before=soon)
    (due,) = await make_orders(connection, ["due"], not_before=soon - timedelta(hours=2))
    async with connection.transaction():
        assert await _claim(connection) == [due]


async def test_what_is_locked_held_or_ended_is_not_claimed(connection: asyncpg.Connection) -> None:
    locked, held, ended, undone, waiting = await make_orders(connection, list("abcde"))
    await lock(connection, locked)
    await hold(connection, [held], "agent:ghost")
    await connection.execute("update orders set state = 'cancelled', ended_at = now() where no = $1", ended)
    await connection.execute("update orders set state = 'compensating' where no = $1", undone)
    async with connection.transaction():
        assert sorted(await _claim(connection)) == sorted([undone, waiting])


async def test_two_schedulers_never_claim_one_order(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    nos = await make_orders(connection, [f"o{n}" for n in range(10)])
    async with connection.transaction(), other.transaction():
        first = await _claim(connection, 4)
        second = await _claim(other, 100)
        assert len(first) == 4
        assert set(first) | set(second) == set(nos)
        assert set(first) & set(second) == set()


async def test_two_timers_never_send_one_request_twice(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    nos = await make_orders(connection, ["a", "b"])
    for no in nos:
        await lock(connection, no)
    await connection.execute("update orders set wake_at = clock_timestamp() - interval '1 s'")
    async with connection.transaction(), other.transaction():
        first = await statement("due_timers").rows(connection, most=1)
        second = await statement("due_timers").rows(other, most=10)
        assert {row["no"] for row in first} | {row["no"] for row in second} == set(nos)
        assert len(second) == 1


async def test_the_next_timer_is_told_in_seconds(connection: asyncpg.Connection) -> None:
    assert await statement("next_timer").value(connection) is None
    (no,) = await make_orders(connection, ["a"])
    await lock(connection, no)
    await connection.execute("update orders set wake_at = clock_timestamp() + interval '500 s'")
    assert 400 < await statement("next_timer").value(connection) <= 500


async def test_a_hold_is_released_in_a_ramp_by_rank(connection: asyncpg.Connection) -> None:
    nos = await make_orders(connection, [f"o{n}" for n in range(5)])
    await hold(connection, nos[:4], "agent:lab")
    await hold(connection, nos[4:], "operation:lab/b")
    released = await statement("release_held").rows(connection, reason="agent:lab", most=3)
    assert [row["no"] for row in released] == nos[:3]
    left = await connection.fetch("select no from orders where held_by is not null order by no")
    assert [row["no"] for row in left] == nos[3:]


async def test_the_reasons_for_holds_are_told_once_each(connection: asyncpg.Connection) -> None:
    nos = await make_orders(connection, [f"o{n}" for n in range(4)])
    for no, reason in zip(nos, ("agent:a", "agent:b", "agent:a", "window:c"), strict=True):
        await hold(connection, [no], reason)
    rows = await statement("held_reasons").rows(connection)
    assert [row["held_by"] for row in rows] == ["agent:a", "agent:b", "window:c"]


async def test_only_instances_whose_lease_runs_are_live(connection: asyncpg.Connection) -> None:
    live = await live_instance(connection, operations=("lab/a",), slots=3)
    await live_instance(connection, seconds=-1, operations=("lab/b",))
    rows = await statement("live_instances").rows(connection)
    assert [(row["id"], row["operations"], row["slots"]) for row in rows] == [(live, ["lab/a"], 3)]


async def test_an_instance_that_fell_silent_is_removed_after_its_grace(
    connection: asyncpg.Connection,
) -> None:
    gone = await live_instance(connection, seconds=-1000)
    recent = await live_instance(connection, seconds=-1)
    await connection.execute("update instances set revived = true")
    removed = await statement("remove_lapsed_instances").rows(
        connection, grace_seconds=500.0, unrevived_seconds=5000.0
    )
    assert [row["id"] for row in removed] == [gone]
    assert await connection.fetchval("select id from instances") == recent


async def test_an_instance_whose_orders_nobody_revived_yet_stays_but_not_for_ever(
    connection: asyncpg.Connection,
) -> None:
    unrevived = await live_instance(connection, seconds=-1000)
    forgotten = await live_instance(connection, seconds=-9000)
    removed = await statement("remove_lapsed_instances").rows(
        connection, grace_seconds=500.0, unrevived_seconds=5000.0
    )
    assert [row["id"] for row in removed] == [forgotten]
    assert await connection.fetchval("select id from instances") == unrevived


async def test_orders_that_were_begun_are_found_among_new_ones_when_they_are_due(
    connection: asyncpg.Connection,
) -> None:
    await make_orders(connection, [f"new-{n}" for n in range(20)])
    later = datetime.now(UTC) + timedelta(hours=1)
    due, held, undoing = await make_orders(connection, ["due", "held", "undoing"])
    (early,) = await make_orders(connection, ["early"], not_before=later)
    assert not await statement("begun_waits").value(connection)
    await connection.execute("update orders set attempt = 1 where no = any($1)", [due, held, early, undoing])
    await connection.execute("update orders set state = 'compensating' where no = $1", undoing)
    await hold(connection, [held], "window:lab")
    assert await statement("begun_waits").value(connection)
    rows = await statement("begun_candidates").rows(connection, most=100)
    assert {row["no"] for row in rows} == {due, undoing}
