"""Cancels as clients send them that set no message id: told apart by what they say."""

from __future__ import annotations

import json

import asyncpg

from tests.integration.store.rows import make_orders
from triumvir.broker import Delivery
from triumvir.settings import Settings
from triumvir.store.statements import statement
from triumvir_submitter.admission import Received, read
from triumvir_submitter.asked import take_down


def _cancel(order_id: str, reason: str | None = None) -> Received:
    body = json.dumps({"order_id": order_id, "reason": reason}).encode()
    delivery = Delivery(
        "orders", body, None, "order.cancel.v1", None, "shop-a", None, None, {}, False, None, 1, None
    )
    return read(delivery, "shop-a", Settings())


async def test_a_cancel_without_a_message_id_is_one_command_however_often_it_is_delivered(
    connection: asyncpg.Connection,
) -> None:
    nos = await make_orders(connection, ["one", "two"])
    first = [_cancel("one"), _cancel("two")]
    assert await take_down(connection, first) == []
    assert await take_down(connection, first) == first, "to be answered: they were written down before"
    assert await take_down(connection, [_cancel("one", "really"), first[0]]) == [first[0]]
    assert len(await statement("read_commands").rows(connection, nos=nos)) == 3
