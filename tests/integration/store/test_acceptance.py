"""Creating orders: each once, whoever does it; at once, all of them or none."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from uuid import uuid4

import asyncpg
import pytest

from triumvir.runtime import refs
from triumvir.runtime.refs import StatusRef
from triumvir.store.acceptance import Acceptance, AtOnce, Desk, create_orders
from triumvir.store.faults import Fault, fault

DESK = Desk(uuid4(), "test", 100)
TABLES = ("orders", "order_documents", "transitions", "admission", "outbox")


def _acceptance(order_id: str) -> Acceptance:
    digest = sha256(order_id.encode()).digest()
    return Acceptance("shop", order_id, digest, "trio", 1, 0, None, False, "status.shop", None)


def _several(*order_ids: str) -> tuple[list[Acceptance], list[str]]:
    return [_acceptance(order_id) for order_id in order_ids], [f'{{"of": "{each}"}}' for each in order_ids]


async def _counts(connection: asyncpg.Connection) -> dict[str, int]:
    return {table: await connection.fetchval(f"select count(*) from {table}") for table in TABLES}


async def test_new_orders_come_with_document_history_count_and_outbox_row(
    connection: asyncpg.Connection,
) -> None:
    acceptances, payloads = _several("a", "b")
    created = await create_orders(connection, acceptances, DESK, payloads, AtOnce({}, 30))
    assert set(created.orders) == {("shop", "a"), ("shop", "b")}
    row = await connection.fetchrow("select id, refs, lease > now() + interval '20 s' as later from outbox")
    assert row is not None
    assert row["later"]
    assert row["id"] == created.outbox_id
    assert set(refs.read(row["refs"])) == {StatusRef(no, 1) for no, _ in created.orders.values()}
    documents = await connection.fetch("select order_id, payload, digest from order_documents order by 1")
    assert [tuple(row) for row in documents] == [
        (each.order_id, payload, each.digest) for each, payload in zip(acceptances, payloads, strict=True)
    ]
    assert await connection.fetchval("select sum(open) from admission") == 2
    told = await connection.fetch("select no, n, status, sequence from transitions order by no")
    assert [tuple(row) for row in told] == [
        (no, 1, "received", 1) for no, _ in sorted(created.orders.values())
    ]


async def test_at_once_nothing_is_created_if_one_is_there_already(connection: asyncpg.Connection) -> None:
    await create_orders(connection, *_with_desk("b"), AtOnce({}, 30))
    (sent,) = await connection.fetch("select id from outbox")
    before = await _counts(connection)
    with pytest.raises(asyncpg.SerializationError, match="1 of 3 orders are not") as raised:
        await create_orders(connection, *_with_desk("a", "b", "c"), AtOnce({}, 30, [sent["id"]]))
    assert fault(raised.value) is Fault.AGAIN
    assert await _counts(connection) == before


async def test_of_two_who_create_the_same_at_once_one_does(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    both = await asyncio.gather(
        create_orders(connection, *_with_desk("a", "b"), AtOnce({}, 30)),
        create_orders(other, *_with_desk("b", "c"), AtOnce({}, 30)),
        return_exceptions=True,
    )
    (refused,) = [each for each in both if isinstance(each, BaseException)]
    assert fault(refused) is Fault.AGAIN
    assert (await _counts(connection))["orders"] == 2


@pytest.mark.parametrize("newest", [{"trio": 1}, {"trio": 3}, {"gone": 1}])
async def test_at_once_nothing_is_created_by_a_version_that_is_not_the_newest(
    connection: asyncpg.Connection, newest: dict[str, int]
) -> None:
    await _apply(connection, "trio", 1, 2)
    before = await _counts(connection)
    with pytest.raises(asyncpg.SerializationError) as raised:
        await create_orders(connection, *_with_desk("a"), AtOnce({"trio": 2, **newest}, 30))
    assert fault(raised.value) is Fault.AGAIN
    assert await _counts(connection) == before
    await _apply(connection, "duo", 7)
    await create_orders(connection, *_with_desk("a"), AtOnce({"trio": 2, "duo": 7}, 30))
    assert (await _counts(connection))["orders"] == 1


async def test_at_once_nothing_is_created_without_room(connection: asyncpg.Connection) -> None:
    narrow = Desk(uuid4(), "another", 3)
    await create_orders(connection, *_with_desk("a", "b"), AtOnce({}, 30))
    await create_orders(connection, *_with_desk("c", desk=narrow), AtOnce({}, 30))
    before = await _counts(connection)
    with pytest.raises(asyncpg.SerializationError) as raised:
        await create_orders(connection, *_with_desk("d", desk=narrow), AtOnce({}, 30))
    assert fault(raised.value) is Fault.AGAIN
    assert await _counts(connection) == before


async def test_otherwise_those_that_are_there_are_left_alone_and_missing(
    connection: asyncpg.Connection,
) -> None:
    first = await create_orders(connection, *_with_desk("b"))
    acceptances, _ = _several("a", "b", "c")
    again = await create_orders(connection, acceptances, DESK, ["1", "2", "3"])
    assert set(again.orders) == {("shop", "a"), ("shop", "c")}
    assert again.outbox_id is None
    assert first.orders[("shop", "b")] not in again.orders.values()
    payloads = await connection.fetch("select payload from order_documents order by order_id")
    assert [row["payload"] for row in payloads] == ["1", '{"of": "b"}', "3"]


def _with_desk(*order_ids: str, desk: Desk = DESK) -> tuple[list[Acceptance], Desk, list[str]]:
    acceptances, payloads = _several(*order_ids)
    return acceptances, desk, payloads


async def _apply(connection: asyncpg.Connection, name: str, *versions: int) -> None:
    for version in versions:
        await connection.execute(
            "insert into workflows (name, version, definition, digest) values ($1, $2, '{}', $3)",
            name,
            version,
            bytes(32),
        )
