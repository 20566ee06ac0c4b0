"""Inventory: sets pieces aside for an order, and gives them back."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, Field

from shop.services.app import Body, Call, Endpoint
from shop.services.chance import is_unlucky
from shop.services.ledger import Ledger
from shop.services.once import Effect, Refusal, do_once, undo_once

STOCK_OF_EACH: Final = 2000
OUT_OF_STOCK_SHARE: Final = 0.015


class Wanted(BaseModel):
    sku: str
    quantity: int


class Reserve(Body):
    lines: list[Wanted] = Field(min_length=1)


def endpoints(ledger: Ledger, seed: int) -> list[Endpoint[Any]]:
    """POST /reservations and /releases, both once per key."""

    def consider(call: Call[Reserve]) -> Effect | Refusal:
        for line in call.body.lines:
            if line.quantity > STOCK_OF_EACH:
                return Refusal(409, f"{line.quantity} of {line.sku} wanted, {STOCK_OF_EACH} in stock")
        if is_unlucky(seed, call.key, OUT_OF_STOCK_SHARE):
            return Refusal(409, f"{call.body.lines[0].sku} is out of stock")
        units = sum(line.quantity for line in call.body.lines)
        return Effect(str(units), {"reservation": f"R-{call.body.order}", "units": units})

    return [
        Endpoint("/reservations", "do", Reserve, do_once(ledger, consider)),
        Endpoint("/releases", "undo", Body, undo_once(ledger)),
    ]
