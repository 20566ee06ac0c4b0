from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

from shop.models import Order
from shop.services.inventory import STOCK_OF_EACH
from shop.services.payments import CARD_LIMIT
from shop.services.shipping import NOT_SERVED

FILE = Path(__file__).parents[3] / "examples" / "shop" / "orders.ndjson"
ORDERS = [Order.model_validate_json(line) for line in FILE.read_text().splitlines()]


def refused_by_check(order: Order) -> bool:
    return order.order_id.startswith("C") or any(
        line.unit_price <= 0 or line.quantity <= 0 for line in order.lines
    )


def test_every_order_of_the_shipped_file_has_an_id_of_its_own() -> None:
    assert len({order.order_id for order in ORDERS}) == len(ORDERS) == 60


def test_the_shipped_file_holds_cancellations_and_lines_without_a_price() -> None:
    cancelled = [order for order in ORDERS if order.order_id.startswith("C")]
    unpriced = [order for order in ORDERS if any(line.unit_price <= 0 for line in order.lines)]
    assert (len(cancelled), len(unpriced)) == (5, 4)
    assert sum(refused_by_check(order) for order in ORDERS) == 9


def test_the_shipped_file_has_orders_that_must_be_undone_whatever_the_seed() -> None:
    fit = [order for order in ORDERS if not refused_by_check(order)]
    assert [order.order_id for order in fit if order.total > CARD_LIMIT]
    assert [order.order_id for order in fit if order.country in NOT_SERVED]
    assert [order.order_id for order in fit if any(line.quantity > STOCK_OF_EACH for line in order.lines)]


def test_money_goes_over_the_wire_as_text() -> None:
    prices = [
        line["unit_price"] for text in FILE.read_text().splitlines() for line in json.loads(text)["lines"]
    ]
    assert all(isinstance(price, str) and Decimal(price).is_finite() for price in prices)
