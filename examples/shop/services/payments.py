"""Payments: charges a card, and refunds what was charged."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from shop.services.app import Body, Call, Endpoint
from shop.services.chance import is_unlucky
from shop.services.ledger import Ledger
from shop.services.once import Effect, Refusal, do_once, undo_once

CARD_LIMIT: Final = Decimal(10_000)
DECLINED_SHARE: Final = 0.03


class Charge(Body):
    customer: str | None
    amount: Decimal


def endpoints(ledger: Ledger, seed: int) -> list[Endpoint[Any]]:
    """POST /charges and /refunds, both once per key."""

    def consider(call: Call[Charge]) -> Effect | Refusal:
        amount = f"{call.body.amount:.2f}"
        if call.body.amount > CARD_LIMIT:
            return Refusal(402, f"card declined: {amount} is over the limit of {CARD_LIMIT}")
        if is_unlucky(seed, call.key, DECLINED_SHARE):
            return Refusal(402, f"card of customer {call.body.customer or '(guest)'} declined")
        return Effect(amount, {"receipt": f"P-{call.body.order}", "amount": amount})

    return [
        Endpoint("/charges", "do", Charge, do_once(ledger, consider)),
        Endpoint("/refunds", "undo", Body, undo_once(ledger)),
    ]
