"""What a transaction decided, and the counting and logging of it once it is committed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeAlias

from triumvir.broker import OutMessage
from triumvir.lifecycle import LIVE, RESTING, Decision, OrderRecord, SendAlert, SendRequest
from triumvir.telemetry import events as log_events
from triumvir.telemetry import metrics
from triumvir.telemetry.logs import get_logger

log = get_logger(__name__)

Pair: TypeAlias = tuple[OrderRecord, Decision]
"""An order as it was, and what was decided of it."""


@dataclass(slots=True)
class Applied:
    """What one transaction decided, one event of every order in each round: to be published, and counted, once it is
    committed.
    """

    rounds: list[list[Pair]]
    messages: list[OutMessage] = field(default_factory=list)
    outbox_id: int | None = None

    @property
    def decisions(self) -> Iterator[Pair]:
        return chain.from_iterable(self.rounds)

    @property
    def sent_requests(self) -> list[tuple[OrderRecord, SendRequest]]:
        return [
            (decision.record, send)
            for _, decision in self.decisions
            for send in decision.sends
            if isinstance(send, SendRequest)
        ]

    @property
    def accounted(self) -> list[OrderRecord]:
        """The orders whose alerts carry their data."""
        return [decision.record for _, decision in self.decisions if any(row.account for row in decision.log)]


def report(applied: Applied, *, of_replies: bool = False) -> None:
    """Counts and logs what a committed transaction did. ``of_replies``: it folded replies of agents."""
    for before, decision in applied.decisions:
        record = decision.record
        if decision.late:
            metrics.STEP_REPLIES.add(1, "late")
        elif of_replies:
            metrics.STEP_REPLIES.add(1, "applied")
        _report_told(decision)
        if record.state != before.state and record.state not in LIVE:
            metrics.ORDERS_ENDED.add(1, record.workflow, record.state)
            level = log.warning if record.state in RESTING else log.debug
            level(
                log_events.ORDER_ENDED,
                order=record.key,
                trace=record.trace and record.trace[3:35],
                state=record.state,
                why=decision.log[-1].why,
            )
    for _, send in applied.sent_requests:
        metrics.REQUESTS_SENT.add(1, send.direction, "first" if send.retry == 0 else "again")


def _report_told(decision: Decision) -> None:
    for row in decision.log:
        if row.status is not None:
            metrics.STATUSES.add(1, row.status)
    for send in decision.sends:
        if isinstance(send, SendAlert):
            metrics.ALERTS.add(1, send.kind)
            log.warning(log_events.ALERT_RAISED, order=decision.record.key, kind=send.kind)
