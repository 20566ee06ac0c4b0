"""From events to a committed decision: read what was locked, let the heart decide, write it, say what to send."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, assert_never
from uuid import UUID, uuid4

from triumvir.broker import OutMessage
from triumvir.contracts.json_text import JsonText
from triumvir.errors import ConfigurationError, StoreError
from triumvir.lifecycle import (
    ANY,
    END,
    Broken,
    Decision,
    Event,
    HoldReason,
    Moment,
    OrderRecord,
    Policy,
    Send,
    SendAlert,
    SendRequest,
    SendStatus,
    decide,
    set_aside,
)
from triumvir.runtime import accounts, outgoing
from triumvir.runtime.applied import Applied, Pair
from triumvir.runtime.definitions import Definitions
from triumvir.runtime.outgoing import StatusFact
from triumvir.runtime.payloads import Payloads
from triumvir.runtime.policy_file import read_policies
from triumvir.runtime.recent import Recent
from triumvir.runtime.refs import AlertRef, Ref, RequestRef, StatusRef, write
from triumvir.settings import Settings
from triumvir.store import orders
from triumvir.store.documents import AWAY
from triumvir.store.orders import Found, Locked, Riders
from triumvir.store.statements import Connection
from triumvir.telemetry import events as log_events
from triumvir.telemetry.logs import get_logger

log = get_logger(__name__)
NO_HOLDS: Final[HoldReason] = lambda agent, operation: None  # noqa: E731 - the value of a callable constant


def policy_of(settings: Settings) -> Policy:
    """The recovery policy that the settings say, with the lines of the policy file. Raises ConfigurationError."""
    return Policy(
        step_timeout=settings.step_timeout,
        retry_interval=settings.retry_interval,
        max_retries=settings.max_retries,
        jitter_factor=settings.jitter_factor,
        max_failures=settings.max_failures,
        reopen_backoff=settings.reopen_backoff,
        reopen_backoff_max=settings.reopen_backoff_max,
        cool_offs=settings.cool_offs,
        calls_per_request=settings.calls_per_request,
        retry_budget=settings.retry_budget,
        undo_retry_budget=settings.undo_retry_budget,
        action_recovery_delay=settings.action_recovery_delay,
        lines=read_policies(settings.policy_file) if settings.policy_file else (),
        most_argument_bytes=settings.max_payload_bytes,
        most_argument_depth=settings.max_json_depth,
    )


def sensible_policy(settings: Settings) -> Policy:
    """The same, for a service that starts. Raises ConfigurationError for a retry that could never be sent."""
    policy = policy_of(settings)
    for pattern in dict.fromkeys([(ANY, ANY, ANY), *(line.pattern for line in policy.lines)]):
        bound = policy.resolve(*pattern)
        interval, timeout = bound["initial-retry-interval"], bound["timeout-duration"]
        retries = bound["max-retries"].value and "custom-backoffs" not in bound
        if retries and interval.value >= timeout.value:  # type: ignore[operator]
            raise ConfigurationError(
                f"{interval.source}: initial-retry-interval is not shorter than timeout-duration ({timeout.source}), "
                f"so no retry is ever sent for {'.'.join(pattern)}; shorten it, or set max-retries to 0"
            )
    return policy


class Decider:
    """Applies events to orders for one process. ``who`` signs the history."""

    def __init__(
        self,
        service: str,
        instance: UUID,
        settings: Settings,
        definitions: Definitions,
        payloads: Payloads | None = None,
        recent: Recent | None = None,
    ) -> None:
        self.who = f"{service}:{str(instance)[:8]}"
        self._instance = instance
        self._settings = settings
        self._policy = policy_of(settings)
        self._definitions = definitions
        self.payloads = payloads or Payloads()
        self.recent = recent or Recent(lambda: 0)
        self.paused: Callable[[str, int], str | None] = lambda workflow, version: None
        """What holds the orders of a workflow's version; for who dispatches, which supervisors do not."""

    async def apply(
        self,
        connection: Connection,
        events: Mapping[int, Sequence[Event]],
        hold_reason: HoldReason = NO_HOLDS,
        *,
        confirmed: Sequence[int] = (),
        locked: Locked | None = None,
    ) -> Applied:
        """Applies each order's events in order of arrival, in the caller's transaction and under its locks.

        ``confirmed``: outbox rows that are deleted in the same write. ``locked``: what locking them told, if it did.
        """
        found = await self._found(connection, list(events), locked)
        applied = await self.decide(connection, found, events, hold_reason)
        await self.write(connection, applied, confirmed=confirmed)
        return applied

    async def _found(self, connection: Connection, nos: Sequence[int], locked: Locked | None) -> Found:
        """What these locked orders are: remembered, if they are as this process left them, or else read."""
        known = {} if locked is None else self.recent.still({no: locked.histories[no] for no in nos})
        if locked is not None and locked.now is not None and len(known) == len(nos):
            return Found(locked.now, known, {}, frozenset())
        found = await orders.read(connection, [no for no in nos if no not in known])
        if found is None:
            raise StoreError(f"orders {list(nos)[:5]} are gone although they are locked")
        return Found(found.now, {**known, **found.records}, found.payloads, found.asked) if known else found

    async def decide(
        self,
        connection: Connection,
        found: Found,
        events: Mapping[int, Sequence[Event]],
        hold_reason: HoldReason = NO_HOLDS,
    ) -> Applied:
        """What the events mean for orders that were read. Nothing is written yet.

        Each round takes one event of every order, so that each arrow of the lifecycle is written by itself.
        """
        now, records = found.now, found.records
        self.recent.note(now)
        self.payloads.keep(found.payloads)
        await self._definitions.load(connection, {(r.workflow, r.version) for r in records.values()})
        looking = [record for record in records.values() if self._looks_at_data(record)]
        seen = await self.payloads.of(connection, looking) if looking else {}
        away = set(records) if self.payloads.away else self.payloads.unread(looking, seen)
        applied = Applied(self._rounds(records, events, now, hold_reason, seen, away))
        payloads = await self.payloads.of(connection, [record for record, _ in applied.sent_requests])
        lost = {record.no for record, _ in applied.sent_requests if record.no not in payloads}
        if lost:
            absent = {no for no in lost if self.payloads.is_absent(no)}
            broken = {no: [Broken("the order's document is missing")] for no in absent}
            away |= lost - absent
            applied = Applied(self._rounds(records, {**events, **broken}, now, hold_reason, seen, away))
        payloads |= await self.payloads.of(connection, applied.accounted)
        applied.messages = self._messages(applied, payloads, now)
        return applied

    async def write(self, connection: Connection, applied: Applied, *, confirmed: Sequence[int] = ()) -> None:
        """Writes what was decided, a statement for each round."""
        for place, pairs in enumerate(applied.rounds, start=1):
            before = {record.no: record for record, _ in pairs}
            decisions = {decision.record.no: decision for _, decision in pairs}
            riders = self._riders(applied, confirmed) if place == len(applied.rounds) else Riders()
            applied.outbox_id = await orders.write(
                connection, before, decisions, riders, who=self.who, instance=self._instance
            )

    def _rounds(
        self,
        records: Mapping[int, OrderRecord],
        events: Mapping[int, Sequence[Event]],
        now: datetime,
        hold_reason: HoldReason,
        payloads: Mapping[int, str],
        away: Collection[int],
    ) -> list[list[Pair]]:
        present = dict(records)
        seen = {no: JsonText(text=text) for no, text in payloads.items()}
        rounds = []
        for place in range(max(map(len, events.values()))):
            pairs = []
            for no, record in present.items():
                if place < len(events[no]):
                    withheld = AWAY if no in away else None
                    paused = self.paused(record.workflow, record.version)
                    moment = Moment(
                        now, uuid4(), random.random(), hold_reason, seen.get(no), withheld, paused
                    )
                    pairs.append((record, self._decide(record, events[no][place], moment)))
            present.update((decision.record.no, decision.record) for _, decision in pairs)
            rounds.append(pairs)
        return rounds

    def _riders(self, applied: Applied, confirmed: Sequence[int]) -> Riders:
        refs = [ref for _, decision in applied.decisions for ref in _refs(decision)]
        return Riders(
            refs=write(refs) if refs else None,
            lease_seconds=self._settings.outbox_lease / timedelta(seconds=1),
            opened=sum(_opened(before, decision) for before, decision in applied.decisions),
            confirmed=confirmed,
        )

    def _looks_at_data(self, record: OrderRecord) -> bool:
        workflow = self._definitions.find(record.workflow, record.version)
        return workflow is not None and workflow.looks_at_data

    def _decide(self, record: OrderRecord, event: Event, moment: Moment) -> Decision:
        try:
            definition = self._definitions.get(record.workflow, record.version)
            return decide(record, definition, event, moment, self._policy)
        except Exception as error:  # noqa: BLE001 - one order's fault must not touch its neighbours
            problem = self._report(record, event, error)
            return set_aside(record, problem, moment, self._policy)

    def _report(self, record: OrderRecord, event: Event, error: Exception) -> str:
        """Logs why deciding failed; that in words. Of a confidential order only the kind of error is told."""
        workflow = self._definitions.find(record.workflow, record.version)
        secret = workflow is not None and workflow.is_confidential
        cause, said = type(event).__name__, type(error).__name__ + ("" if secret else f": {error}")
        log.error(
            log_events.DECISION_FAILED,
            order=record.key,
            cause=cause,
            error=said,
            exc_info=None if secret else error,
        )
        return f"deciding on {cause} failed: {said}".replace("\x00", "\\0")

    def _messages(self, applied: Applied, payloads: Mapping[int, str], now: datetime) -> list[OutMessage]:
        return [
            self._message(decision, send, payloads, now)
            for _, decision in applied.decisions
            for send in decision.sends
        ]

    def _message(
        self, decision: Decision, send: Send, payloads: Mapping[int, str], now: datetime
    ) -> OutMessage:
        record = decision.record
        match send:
            case SendRequest():
                workflow = self._definitions.get(record.workflow, record.version)
                calls = self._settings.calls_per_request
                return outgoing.request(record, workflow, send, payloads[record.no], now, calls)
            case SendStatus(n):
                fact = _fact(decision, n)
                step = self._definitions.step_name(fact.workflow, fact.version, fact.step_no)
                return outgoing.status(fact, step)
            case SendAlert(kind, n):
                fact = _fact(decision, n)
                found = self._definitions.find(record.workflow, record.version)
                account = accounts.for_operators(fact.account, record, found, payloads.get(record.no))
                return outgoing.order_alert(kind, fact, account)
            case _:
                assert_never(send)


def _fact(decision: Decision, n: int) -> StatusFact:
    row = next(row for row in decision.log if row.n == n)
    return StatusFact.of(decision.record, row)


def _refs(decision: Decision) -> Iterable[Ref]:
    no = decision.record.no
    for send in decision.sends:
        match send:
            case SendRequest(step_no, direction, fence):
                yield RequestRef(no, step_no, direction, fence)
            case SendStatus(n):
                yield StatusRef(no, n)
            case SendAlert(kind, n):
                yield AlertRef(kind, no, n)
            case _:
                assert_never(send)


def _opened(before: OrderRecord, decision: Decision) -> int:
    """How the number of open orders changes: -1 for one that ended, +1 for one that an end is taken back of."""
    return (before.state in END) - (decision.record.state in END)
