"""Admission, commands, outbox, dead letters and marks: each row once, whoever writes it."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import asyncpg

from tests.integration.store.rows import live_instance, make_orders
from triumvir.store.statements import Connection, statement


async def _open(connection: Connection) -> int:
    await connection.execute(
        "insert into workflows (name, version, definition, digest) values ('a', 1, '', $1) on conflict do nothing",
        bytes(32),
    )
    row = await statement("look_at_the_door").row(connection)
    assert row is not None
    total: int = row["open_orders"]
    return total


async def _count(connection: Connection, instance: UUID, delta: int) -> None:
    await connection.execute(
        "insert into admission as a (scope, instance, open) values ('orders', $1, $2)"
        " on conflict (scope, instance) do update set open = a.open + excluded.open",
        instance,
        delta,
    )


async def test_open_orders_are_the_sum_of_what_every_process_counted(connection: asyncpg.Connection) -> None:
    assert await _open(connection) == 0
    submitter, scheduler = await live_instance(connection), await live_instance(connection)
    await _count(connection, submitter, 5)
    await _count(connection, submitter, 2)
    await _count(connection, scheduler, -3)
    assert await _open(connection) == 4


async def test_the_counts_of_processes_that_are_gone_are_kept_by_one_that_lives(
    connection: asyncpg.Connection,
) -> None:
    gone, keeper, lapsed = (
        uuid4(),
        await live_instance(connection),
        await live_instance(connection, seconds=-1),
    )
    for instance, delta in ((gone, 7), (keeper, -2), (lapsed, 1)):
        await _count(connection, instance, delta)
    for _ in range(2):
        await statement("fold_admission").rows(connection, instance=keeper)
        assert await _open(connection) == 6
    rows = await connection.fetch("select instance, open from admission")
    assert {row["instance"]: row["open"] for row in rows} == {keeper: 5, lapsed: 1}, (
        "a row is folded once its instance is removed"
    )


async def _ask(connection: Connection, order_id: str, message_id: str) -> None:
    await statement("insert_commands").rows(
        connection,
        clients=["shop-a"],
        order_ids=[order_id],
        message_ids=[message_id],
        kinds=["cancel"],
        data=[None],
    )


async def _with_commands(connection: Connection) -> list[int]:
    rows = await statement("orders_with_commands").rows(connection, after=0, most=10)
    return [row["no"] for row in rows if row["no"] is not None]


async def test_a_command_that_comes_before_its_order_waits_for_it(connection: asyncpg.Connection) -> None:
    await _ask(connection, "one", "cancel-1")
    assert await _with_commands(connection) == []
    (no,) = await make_orders(connection, ["one"])
    assert await _with_commands(connection) == [no]
    (found,) = await statement("read_commands").rows(connection, nos=[no])
    assert found["kind"] == "cancel"


async def test_a_command_is_taken_down_once_and_taken_once(connection: asyncpg.Connection) -> None:
    (no,) = await make_orders(connection, ["one"])
    await make_orders(connection, ["one"], client="shop-b")
    for message_id in ("cancel-1", "cancel-1", "cancel-2"):
        await _ask(connection, "one", message_id)
    found = await statement("read_commands").rows(connection, nos=[no])
    assert len(found) == 2
    await statement("take_commands").rows(connection, ids=[row["id"] for row in found])
    await _ask(connection, "one", "cancel-1")
    assert await statement("read_commands").rows(connection, nos=[no]) == []


async def test_one_message_id_for_two_orders_is_two_commands_shown_as_sent(
    connection: asyncpg.Connection,
) -> None:
    nos = await make_orders(connection, ["one", "two"])
    for order_id in ("one", "two"):
        await _ask(connection, order_id, "cancel-1")
    assert len(await statement("read_commands").rows(connection, nos=nos)) == 2
    (shown,) = await statement("show_commands").rows(connection, client="shop-a", order_id="two")
    assert shown["message_id"] == "cancel-1"


async def test_a_release_before_this_one_still_writes_commands_down(connection: asyncpg.Connection) -> None:
    (no,) = await make_orders(connection, ["one"])
    for _ in range(2):
        await connection.execute(
            "insert into commands (client, order_id, message_id, kind) values ('shop-a', 'one', 'old', 'cancel')"
            " on conflict (client, message_id) do nothing"
        )
    assert len(await statement("read_commands").rows(connection, nos=[no])) == 1
    (shown,) = await statement("show_commands").rows(connection, client="shop-a", order_id="one")
    assert shown["message_id"] == "old"


async def test_commands_are_forgotten_after_a_day_unless_their_order_has_yet_to_take_them(
    connection: asyncpg.Connection,
) -> None:
    await make_orders(connection, ["waiting", "taken"])
    for order_id in ("waiting", "taken", "never-came"):
        await _ask(connection, order_id, f"cancel-{order_id}")
    await connection.execute(
        "update commands set at = at - interval '25 h',"
        " taken_at = case when order_id = 'taken' then now() end"
    )
    await _ask(connection, "recent", "cancel-recent")
    await statement("forget_commands").rows(connection)
    rows = await connection.fetch("select order_id from commands order by order_id")
    assert [row["order_id"] for row in rows] == ["recent", "waiting"]


async def test_an_outbox_row_is_leased_to_one_sweep_at_a_time(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    for seconds in (-1.0, -1.0, 60.0):
        await statement("add_to_outbox").value(connection, confirmed=[], lease_seconds=seconds, refs="[]")
    async with connection.transaction(), other.transaction():
        first = await statement("lease_outbox").rows(connection, most=1, lease_seconds=600.0)
        second = await statement("lease_outbox").rows(other, most=10, lease_seconds=600.0)
    assert len(first) == len(second) == 1
    assert first[0]["id"] != second[0]["id"]
    assert await statement("lease_outbox").rows(connection, most=10, lease_seconds=600.0) == []


def _letter(letter_id: UUID, **changed: Any) -> dict[str, list[Any]]:
    members = {
        "ids": letter_id,
        "queues": "orders",
        "reasons": "invalid",
        "details": "because",
        "clients": None,
        "message_ids": None,
        "types": None,
        "correlation_ids": None,
        "reply_to": None,
        "content_types": "application/json",
        "headers": "{}",
        "bodies": b"\x00\xff",
        **changed,
    }
    return {name: [value] for name, value in members.items()}


async def test_a_dead_letter_is_kept_once_as_it_first_came(connection: asyncpg.Connection) -> None:
    letter_id = uuid4()
    await statement("insert_dead_letters").rows(connection, **_letter(letter_id))
    await statement("insert_dead_letters").rows(connection, **_letter(letter_id, details="another time"))
    (kept,) = await statement("read_dead_letters").rows(connection, ids=[letter_id, uuid4()])
    assert (kept["detail"], kept["body"]) == ("because", b"\x00\xff")
    known = await statement("known_dead_letters").rows(connection, ids=[letter_id, uuid4()])
    assert [row["id"] for row in known] == [letter_id]


async def test_a_delivery_is_marked_once_more_each_time_and_not_for_another_queue(
    connection: asyncpg.Connection,
) -> None:
    async def mark(queue: str) -> int:
        marks: int = await statement("mark_delivery").value(connection, queue=queue, hash=b"h")
        return marks

    assert [await mark("orders"), await mark("orders"), await mark("agent.lab")] == [1, 2, 1]
    await statement("unmark_delivery").rows(connection, queue="orders", hash=b"h")
    assert await mark("orders") == 1
