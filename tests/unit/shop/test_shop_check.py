from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import cast

import pytest

from shop.agents import check_order
from shop.models import Line, Order
from triumvir.agent import Context, Permanent

NO_CONTEXT = cast(Context, None)  # the check looks at the order only


def order(order_id: str = "1", lines: Sequence[tuple[int, str]] = ((2, "1.50"),)) -> Order:
    made = [
        Line(sku=f"GL-{quantity}", quantity=quantity, unit_price=Decimal(price)) for quantity, price in lines
    ]
    return Order(order_id=order_id, placed_at="2024-06-11T08:00:00Z", country="Ireland", lines=made)


def test_an_order_fit_to_be_sold_is_added_up() -> None:
    checked = check_order(NO_CONTEXT, order(lines=[(2, "1.50"), (3, "0.10")]))
    assert checked.model_dump() == {"units": 5, "total": "3.30"}


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (order("C17", [(-2, "1.50")]), "C17 is a cancellation"),
        (order("17", [(2, "0.00")]), "GL-2 is priced 0.00"),
        (order("17", [(1, "1.00"), (2, "-3.00")]), "GL-2 is priced -3.00"),
        (order("17", [(-14, "0.00")]), "GL--14 is priced 0.00"),
        (order("17", [(-14, "2.00")]), "-14 pieces of GL--14: a return is not an order"),
        (order("17", []), "the order has no lines"),
    ],
)
def test_what_cannot_be_sold_is_refused_in_words_and_without_effect(refused: Order, words: str) -> None:
    with pytest.raises(Permanent) as raised:
        check_order(NO_CONTEXT, refused)
    assert words in str(raised.value)
    assert raised.value.effect == "none"
