"""What an audit is given from outside the store: effects, calls, statuses, submissions, alerts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from triumvir.contracts.messages import Status
from triumvir.contracts.names import Direction


@dataclass(frozen=True, slots=True)
class Effect:
    """One change that really happened at a remote service: ``do`` made it, ``undo`` took it back.

    ``order`` is ``client/order_id``; ``key`` the idempotency key under which it happened.
    """

    order: str
    step: str
    direction: Direction
    key: str


@dataclass(frozen=True, slots=True)
class Call:
    """One call that reached a remote service, whatever came of it."""

    order: str
    step: str
    direction: Direction
    key: str
    fence: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """What remote services wrote down, in the order in which it happened.

    ``steps``: the names of the steps whose effects it holds; the others are not compared.
    """

    effects: Sequence[Effect] = ()
    calls: Sequence[Call] = ()
    steps: Collection[str] | None = None

    def covers(self, step: str) -> bool:
        return self.steps is None or step in self.steps


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything from outside. What is None was not watched and is not compared.

    ``accepted``: keys of orders whose submission was confirmed. ``statuses``: what each client's queue gave, by
    order, doubled and out of order as it came. ``alerts``: keys of orders for which an alert was raised.
    ``expected_dead``: message ids that were meant to be refused.
    """

    ledger: Ledger | None = None
    accepted: Collection[str] = ()
    statuses: Mapping[str, Sequence[Status]] | None = None
    alerts: Collection[str] | None = None
    expected_dead: Collection[str] | None = field(default=())
