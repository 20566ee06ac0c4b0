"""Effects that happen once per idempotency key, as payment providers do it, and can be undone by order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shop.services.app import Answer, B, Body, Call
from shop.services.ledger import Entry, Ledger


@dataclass(frozen=True)
class Refusal:
    """Why an order is refused: a 4xx ``status`` and ``words`` for a person."""

    status: int
    words: str


@dataclass(frozen=True)
class Effect:
    """What would be done: ``amount`` for the ledger, ``answer`` for the caller."""

    amount: str
    answer: dict[str, Any]


def do_once(ledger: Ledger, consider: Callable[[Call[B]], Effect | Refusal]) -> Callable[[Call[B]], Answer]:
    """Does what ``consider`` says once per key. The same key again gets the same answer, with another body a 422.

    A call for an order that was undone already came late, and is refused: its effect would never be undone.
    """

    def decide(call: Call[B]) -> Answer:
        settled = ledger.settled(call.key)
        if settled is not None:
            return _repeated(settled, call)
        if ledger.is_undone(call.body.order):
            return _refuse(
                ledger, call, Refusal(410, f"{call.body.order} was undone; it cannot be done any more")
            )
        considered = consider(call)
        if isinstance(considered, Refusal):
            return _refuse(ledger, call, considered)
        return _settle(ledger, call, "effect", Answer(201, considered.answer), considered.amount)

    return decide


def undo_once(ledger: Ledger) -> Callable[[Call[Body]], Answer]:
    """Undoes what is in force for the order; finding nothing is fine, and is remembered like an undo."""

    def decide(call: Call[Body]) -> Answer:
        settled = ledger.settled(call.key)
        if settled is not None:
            return _repeated(settled, call)
        done = ledger.in_force(call.body.order)
        if done is None:
            return _settle(ledger, call, "nothing", Answer(200, {"undone": "0"}))
        return _settle(ledger, call, "effect", Answer(200, {"undone": done.amount}), done.amount)

    return decide


def _repeated(settled: Entry, call: Call[B]) -> Answer:
    if settled.body != call.body.digest():
        return Answer(422, {"refused": f"{call.key} stands for another body; use a key of its own"})
    return Answer(settled.status, settled.answer)


def _refuse(ledger: Ledger, call: Call[B], refusal: Refusal) -> Answer:
    return _settle(ledger, call, "refused", Answer(refusal.status, {"refused": refusal.words}))


def _settle(ledger: Ledger, call: Call[B], kind: str, answer: Answer, amount: str = "0") -> Answer:
    ledger.append(
        call.entry(kind, amount=amount, body=call.body.digest(), status=answer.status, answer=answer.content)
    )
    return answer
