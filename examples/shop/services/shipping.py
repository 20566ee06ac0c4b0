"""Shipping: quotes what a courier asks for. A quote changes nothing and is not remembered by its key.

The booking itself is a row that the agent writes (``shop/bookings.py``).
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from shop.services.app import Answer, Body, Call, Endpoint
from shop.services.chance import is_unlucky
from shop.services.ledger import Ledger

HOME: Final = "United Kingdom"
NOT_SERVED: Final = frozenset({"Antarctica", "Pitcairn Islands", "Saint Helena"})
UNDELIVERABLE_SHARE: Final = 0.02


class Parcel(Body):
    country: str
    units: int


def endpoints(ledger: Ledger, seed: int) -> list[Endpoint[Any]]:
    """POST /quotes."""

    def quote(call: Call[Parcel]) -> Answer:
        country = call.body.country
        if country in NOT_SERVED:
            return Answer(422, {"refused": f"no courier goes to {country}"})
        if is_unlucky(seed, call.key, UNDELIVERABLE_SHARE):
            return Answer(
                422, {"refused": f"no courier takes {call.body.units} pieces to {country} at this postcode"}
            )
        courier, base = ("Shire Carriers", "3.20") if country == HOME else ("Far and Wide", "9.80")
        return Answer(
            200, {"courier": courier, "price": f"{Decimal(base) + call.body.units * Decimal('0.02'):.2f}"}
        )

    return [Endpoint("/quotes", "do", Parcel, quote)]
