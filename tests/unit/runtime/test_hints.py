"""Hints: what they say is read back, and nothing that another release might say is taken for an order."""

from __future__ import annotations

import pytest

from triumvir.runtime.batches import FEW
from triumvir.runtime.hints import COMMANDS_HEADER, ORDERS_HEADER, named_orders, wake


def test_a_hint_names_a_few_new_orders() -> None:
    message = wake(orders=[7, 12])
    assert named_orders(message.headers) == [7, 12]
    assert COMMANDS_HEADER not in message.headers


def test_a_hint_of_many_orders_names_none() -> None:
    assert named_orders(wake(orders=range(FEW + 1)).headers) == []
    assert len(named_orders(wake(orders=range(FEW)).headers)) == FEW


@pytest.mark.parametrize("text", [None, "", "x", "1,", ",1", "-1", "1;2", "9" * 19, 7, b"7"])
def test_what_is_no_list_of_numbers_names_nothing(text: object) -> None:
    assert named_orders({ORDERS_HEADER: text}) == []
