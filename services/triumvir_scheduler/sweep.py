"""The sweep of the outbox: what a dead or cut-off process committed but did not publish is sent from the rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from triumvir.broker import OutMessage
from triumvir.contracts.json_text import JsonText
from triumvir.errors import DocumentsAway, StoreError, TriumvirError
from triumvir.lifecycle import OrderRecord, SendRequest, argument
from triumvir.runtime import accounts, letters, outgoing, refs
from triumvir.runtime.definitions import Definitions
from triumvir.runtime.outgoing import StatusFact
from triumvir.runtime.payloads import Payloads
from triumvir.runtime.refs import AlertRef, LetterRef, Ref, RequestRef, StatusRef
from triumvir.runtime.relay import Relay
from triumvir.settings import Settings
from triumvir.store import orders
from triumvir.store.session import Session
from triumvir.store.statements import Connection, Row, statement
from triumvir.telemetry import events, metrics
from triumvir.telemetry.logs import get_logger

_R = TypeVar("_R", bound=Ref)
_MOST_ROWS = 50
_PUT_OFF_SECONDS = 60.0
"""A row that this release cannot read is looked at again after this: by then another release may run."""
log = get_logger(__name__)


class Sweep:
    """The sweep loop's step. Rows are leased, so that two sweeps share the work."""

    def __init__(
        self,
        session: Session,
        relay: Relay,
        definitions: Definitions,
        settings: Settings,
        payloads: Payloads,
    ) -> None:
        self._session = session
        self._relay = relay
        self._definitions = definitions
        self._settings = settings
        self._payloads = payloads
        self._unreadable: set[int] = set()

    async def step(self) -> bool:
        """Sends the messages of some lapsed rows; whether there may be more."""
        lease = self._settings.outbox_lease / timedelta(seconds=1)
        async with self._session.connection() as connection:
            rows = await statement("lease_outbox").rows(connection, most=_MOST_ROWS, lease_seconds=lease)
            built = [(row["id"], await self._build(connection, row)) for row in rows]
        for outbox_id, messages in built:
            if messages is not None:
                log.info(events.OUTBOX_SWEPT, outbox=outbox_id, messages=len(messages))
                await self._relay.send_or_delete(messages, outbox_id, "outbox.after_sweep_publish")
        metrics.OUTBOX_SWEPT.add(len(rows))
        return len(rows) == _MOST_ROWS

    async def _build(self, connection: Connection, row: Row) -> list[OutMessage] | None:
        """The messages of a row; None if it cannot be read, which must not keep its neighbours back. It stays:
        another release may know what it says.
        """
        try:
            return await self._messages(connection, refs.read(row["refs"]))
        except DocumentsAway as error:
            log.warning(events.OUTBOX_KEPT, rows=1, outbox=row["id"], error=str(error))
            return None
        except (LookupError, ValueError, TriumvirError) as error:
            await self._put_off(connection, row["id"], error)
            return None

    async def _put_off(self, connection: Connection, outbox_id: int, error: Exception) -> None:
        """Not swept with every lease. Logged and alerted once by each scheduler, who forgets it when it ends."""
        await statement("put_off_outbox").rows(connection, id=outbox_id, seconds=_PUT_OFF_SECONDS)
        if outbox_id in self._unreadable:
            return
        self._unreadable.add(outbox_id)
        log.error(events.OUTBOX_KEPT, rows=1, outbox=outbox_id, exc_info=error)
        metrics.ALERTS.add(1, "outbox-unreadable")
        problem = f"{type(error).__name__}: {error}"
        await self._relay.send([outgoing.outbox_alert(outbox_id, problem, datetime.now(UTC))], None)

    async def _messages(self, connection: Connection, found: Sequence[Ref]) -> list[OutMessage]:
        return [
            *await self._requests(connection, _of(RequestRef, found)),
            *await self._told(connection, _of(StatusRef, found), _of(AlertRef, found)),
            *await self._letters(connection, _of(LetterRef, found)),
        ]

    async def _requests(self, connection: Connection, wanted: Sequence[RequestRef]) -> list[OutMessage]:
        if not wanted:
            return []
        found = await orders.read(connection, [ref.no for ref in wanted])
        if found is None:
            raise StoreError(f"of the orders {[ref.no for ref in wanted][:5]} none exists")
        now, records = found.now, found.records
        await self._definitions.load(connection, {(r.workflow, r.version) for r in records.values()})
        live = [ref for ref in wanted if _still_wanted(ref, records.get(ref.no), now)]
        nos = {ref.no for ref in live}
        await self._payloads.fetch(connection, self._payloads.to_fetch(nos))
        payloads = await self._payloads.of(connection, [records[no] for no in nos])
        if any(no not in payloads and not self._payloads.is_absent(no) for no in nos):
            raise DocumentsAway("the documents of its requests cannot be read")
        return [self._request(records[ref.no], ref, payloads[ref.no], now) for ref in live]

    def _request(self, record: OrderRecord, ref: RequestRef, payload: str, now: datetime) -> OutMessage:
        workflow = self._definitions.get(record.workflow, record.version)
        selected = argument(record, workflow, ref.step_no, JsonText(text=payload))
        out = record.request_under_way(ref.step_no, ref.direction)
        retry = max(1, out.retries) if out else 1
        send = SendRequest(ref.step_no, ref.direction, ref.fence, retry, selected)
        return outgoing.request(record, workflow, send, payload, now, self._settings.calls_per_request)

    async def _told(
        self, connection: Connection, statuses: Sequence[StatusRef], alerts: Sequence[AlertRef]
    ) -> list[OutMessage]:
        told: list[StatusRef | AlertRef] = [*statuses, *alerts]
        keys = sorted({(ref.no, ref.n) for ref in told})
        if not keys:
            return []
        rows = await statement("read_transitions").rows(
            connection, nos=[no for no, _ in keys], ns=[n for _, n in keys]
        )
        facts = {(row["no"], row["n"]): StatusFact(**dict(row)) for row in rows}
        await self._definitions.load(connection, {(fact.workflow, fact.version) for fact in facts.values()})
        return [
            *(self._status(facts[ref.no, ref.n]) for ref in statuses),
            *await self._alerts(connection, [(ref.kind, facts[ref.no, ref.n]) for ref in alerts]),
        ]

    async def _alerts(
        self, connection: Connection, raised: Sequence[tuple[str, StatusFact]]
    ) -> list[OutMessage]:
        """What was undone is told as it was; the data as it is: that of a completed step never changes."""
        nos = sorted({fact.no for _, fact in raised if fact.account is not None})
        found = await orders.read(connection, nos) if nos else None
        records = found.records if found else {}
        payloads = await self._payloads.of(connection, list(records.values()))
        return [
            outgoing.order_alert(
                kind,
                fact,
                accounts.for_operators(
                    fact.account,
                    records.get(fact.no),
                    self._definitions.find(fact.workflow, fact.version),
                    payloads.get(fact.no),
                ),
            )
            for kind, fact in raised
        ]

    def _status(self, fact: StatusFact) -> OutMessage:
        step = self._definitions.step_name(fact.workflow, fact.version, fact.step_no)
        return outgoing.status(fact, step, first=False)

    async def _letters(self, connection: Connection, found: Sequence[LetterRef]) -> list[OutMessage]:
        if not found:
            return []
        rows = await statement("read_dead_letters").rows(connection, ids=[ref.id for ref in found])
        return [message for row in rows for message in letters.messages(letters.of_row(row))]


def _of(kind: type[_R], found: Iterable[Ref]) -> list[_R]:
    return [ref for ref in found if isinstance(ref, kind)]


def _still_wanted(ref: RequestRef, record: OrderRecord | None, now: datetime) -> bool:
    """Only the attempt that the row speaks of, and only while it can be answered in time."""
    if record is None or record.fence != ref.fence:
        return False
    out = record.request_under_way(ref.step_no, ref.direction)
    return out is not None and out.complete_by > now
