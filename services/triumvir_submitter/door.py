"""One batch at the door: every delivery ends accepted, taken down, answered or refused, in one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never
from uuid import UUID

from triumvir.broker import Delivery, OutMessage
from triumvir.contracts.messages import OrderCancel, OrderQuery, OrderSignal, OrderSubmit
from triumvir.errors import ContractError
from triumvir.runtime import hints, letters, outgoing, refs
from triumvir.runtime.batches import FEW, run_batch
from triumvir.runtime.crash import CrashPoint, crash_point
from triumvir.runtime.definitions import Definitions
from triumvir.runtime.letters import letter_of, refused
from triumvir.runtime.outgoing import DeadLetter, StatusFact
from triumvir.runtime.refs import LetterRef, Ref
from triumvir.runtime.relay import Relay, Ride
from triumvir.runtime.undeliverable import Undeliverable
from triumvir.settings import Settings
from triumvir.store.acceptance import AtOnce, Desk, Key
from triumvir.store.documents import OrdersDatabase
from triumvir.store.faults import Fault, fault
from triumvir.store.session import Session
from triumvir.store.statements import Connection, statement
from triumvir.telemetry import events, metrics
from triumvir.telemetry.logs import get_logger
from triumvir_submitter import admission
from triumvir_submitter.accept import (
    Accepted,
    Catalogue,
    accept,
    accept_at_once,
    digests,
    submission,
)
from triumvir_submitter.admission import Received
from triumvir_submitter.asked import asked_for, take_down, unknown
from triumvir_submitter.batch import Item, Refused, Sorted, distinct, submits

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A sorted batch, with the digests of the documents that are in another database by now (None: in this one), and
    which of them were written for it.
    """

    found: Sorted
    deposited: Mapping[Key, bytes] | None
    written: frozenset[Key] = frozenset()


@dataclass(slots=True)
class Done:
    """What one transaction did with a batch, and what is to be told of it."""

    accepted: Accepted
    commands: int
    refused: list[DeadLetter]
    messages: list[OutMessage]

    @property
    def refs(self) -> list[Ref]:
        """What must be told even if this process dies."""
        return [*self.accepted.refs, *(LetterRef(letter.id) for letter in self.refused)]


class Door:
    """Handles deliveries of the queue ``orders``."""

    def __init__(
        self,
        session: Session,
        relay: Relay,
        undeliverable: Undeliverable,
        settings: Settings,
        instance: UUID,
        documents: OrdersDatabase | None = None,
    ) -> None:
        """``documents``: where documents go first, if not with the state records."""
        self._documents = documents
        self._session = session
        self._relay = relay
        self._undeliverable = undeliverable
        self._settings = settings
        self.who = f"submitter:{str(instance)[:8]}"
        self._desk = Desk(instance, self.who, settings.max_open_orders)
        self._catalogue = Catalogue()
        self._definitions = Definitions()

    async def handle(self, deliveries: Sequence[Delivery]) -> None:
        """Returns once every delivery is committed. Submissions of one key are taken one after another."""
        left = [self.read(delivery) for delivery in deliveries]
        while left:
            batch, left = distinct(left)
            await run_batch("orders", batch, self._take, self._set_aside)

    def read(self, delivery: Delivery) -> Item:
        """What a delivery asks for, or why it cannot be acted on."""
        client = None
        try:
            client = admission.identity(delivery)
            return admission.read(delivery, client, self._settings)
        except ContractError as error:
            return Refused(delivery, refused(delivery, error, client=client))

    async def _take(self, items: Sequence[Item]) -> None:
        if self._documents is None and len(items) <= FEW and all(map(submits, items)):
            if self._catalogue.is_old:
                await self._look()
            found = self._sort(items)
            if not await self._take_new(found):
                await self._take_any(items, Prepared(await self._look_again(items, found), None))
        else:
            await self._take_any(items, await self.prepare(items))

    async def _look(self) -> None:
        async with self._session.connection() as connection:
            await self._catalogue.read(connection)

    async def _look_again(self, items: Sequence[Item], found: Sorted) -> Sorted:
        """The batch by what can be ordered now: ``found`` unless that has changed."""
        workflows = {submission.message.workflow for submission in found.submissions}
        before = self._catalogue.newest(workflows)
        await self._look()
        is_so = not found.refused and self._catalogue.newest(workflows) == before
        return found if is_so else self._sort(items)

    async def _take_new(self, found: Sorted) -> bool:
        """Accepts a few orders if all of them are new, as most are. False: nothing was done."""
        if found.refused or self._catalogue.open_orders >= self._settings.max_open_orders:
            return False
        newest = self._catalogue.newest({submission.message.workflow for submission in found.submissions})
        seconds = self._settings.outbox_lease.total_seconds()
        try:
            async with self._relay.statement(self._session) as ride:
                crash_point("submitter.before_commit")
                at_once = AtOnce(newest, seconds, ride.take())
                accepted, outbox_id = await accept_at_once(
                    ride.connection, found.submissions, self._desk, at_once
                )
                messages = await self._statuses(ride.connection, accepted.new)
        except Exception as error:
            if fault(error) is not Fault.AGAIN:
                raise
            return False
        crash_point("submitter.after_commit")
        await self.tell(Done(accepted, 0, [], messages), outbox_id, "submitter.after_publish")
        return True

    async def _take_any(self, items: Sequence[Item], prepared: Prepared | None) -> None:
        async with self._relay.transaction(self._session) as ride:
            done = await self.act(ride.connection, items, prepared)
            await letters.insert(ride.connection, done.refused)
            outbox_id = await self.to_outbox(ride, done.refs)
            crash_point("submitter.before_commit")
        crash_point("submitter.after_commit")
        await self.tell(done, outbox_id, "submitter.after_publish")

    async def prepare(self, items: Sequence[Item]) -> Prepared | None:
        """What goes before the transaction: with two databases, the documents; each once, however often. With one,
        nothing.
        """
        return None if self._documents is None else await self._deposit(self._documents, items)

    async def _deposit(self, documents: OrdersDatabase, items: Sequence[Item]) -> Prepared:
        """The documents first. What was found on either side is told by its digest."""
        async with self._session.connection() as connection:
            await self._catalogue.read(connection)
            found = self._sort(items)
            if not found.submissions:
                return Prepared(found, {})
            known = await digests(connection, found.submissions)
        room = self._catalogue.open_orders < self._settings.max_open_orders
        deposited = await documents.deposit(
            [
                (submission.acceptance, submission.message.payload.text)
                for submission in found.submissions
                if (known[submission.key] == submission.digest if submission.key in known else room)
            ],
            [submission.key for submission in found.submissions],
        )
        crash_point("submitter.documents.after_commit")
        return Prepared(found, {**deposited.digests, **known}, deposited.new)

    async def _deposit_again(self, accepted: Accepted, prepared: Prepared) -> None:
        """Of orders made just now, documents that were there before: what was purged may have been forgotten since."""
        made = {(fact.client, fact.order_id) for fact in accepted.new} - prepared.written
        again = [(s.acceptance, s.message.payload.text) for s in prepared.found.submissions if s.key in made]
        if again and self._documents is not None:
            await self._documents.deposit(again, [])

    async def act(self, connection: Connection, items: Sequence[Item], prepared: Prepared | None) -> Done:
        """Does what a batch asks for, in the caller's transaction; what is refused is left to the caller to keep."""
        accepted = Accepted()
        if prepared is None:
            await self._catalogue.read(connection)
            prepared = Prepared(self._sort(items), None)
        found = prepared.found
        if found.submissions:
            accepted = await accept(
                connection, found.submissions, self._catalogue.open_orders, self._desk, prepared.deposited
            )
            await self._deposit_again(accepted, prepared)
        repeated = await take_down(connection, found.commands)
        messages = [
            *await self._statuses(connection, accepted.new),
            *await self._statuses(connection, accepted.again, first=False),
            *await self._answers(connection, found.queries),
            *await self._answers(connection, repeated),
        ]
        return Done(accepted, len(found.commands), [*found.refused, *accepted.refused], messages)

    async def tell(self, done: Done, outbox_id: int | None, after: CrashPoint) -> None:
        """After the commit: statuses and answers, and what belongs to each refusal."""
        if done.accepted.new or done.commands:
            new = [fact.no for fact in done.accepted.new]
            await self._relay.send([hints.wake(commands=bool(done.commands), orders=new)], None)
        about = [message for letter in done.refused for message in letters.messages(letter)]
        await self._relay.send([*done.messages, *about], outbox_id, after)
        for fact in done.accepted.new:
            metrics.ORDERS_ACCEPTED.add(1, fact.workflow)
            metrics.STATUSES.add(1, "received")
            log.debug(events.ORDER_ACCEPTED, order=fact.key, trace=(fact.trace or "")[3:35])
        for letter in done.refused:
            metrics.ORDERS_REFUSED.add(1, letter.reason)
        letters.report(done.refused)

    def _sort(self, items: Sequence[Item]) -> Sorted:
        found = Sorted()
        for item in items:
            if isinstance(item, Refused):
                found.refused.append(item.letter)
                continue
            match item.message:
                case OrderSubmit() as message:
                    self._pin(item, message, found)
                case OrderCancel() | OrderSignal():
                    found.commands.append(item)
                case OrderQuery():
                    found.queries.append(item)
                case _:
                    assert_never(item.message)
        return found

    def _pin(self, received: Received, message: OrderSubmit, found: Sorted) -> None:
        try:
            found.submissions.append(submission(received, message, self._catalogue))
        except ContractError as error:
            found.refused.append(refused(received.delivery, error, client=received.client))

    async def to_outbox(self, ride: Ride, wanted: Sequence[Ref]) -> int | None:
        """The outbox row that says what to tell; None if there is nothing."""
        if not wanted:
            return None
        seconds = self._settings.outbox_lease.total_seconds()
        outbox_id: int = await statement("add_to_outbox").value(
            ride.connection, lease_seconds=seconds, refs=refs.write(wanted), confirmed=list(ride.take())
        )
        return outbox_id

    async def _statuses(
        self, connection: Connection, facts: Sequence[StatusFact], *, first: bool = True
    ) -> list[OutMessage]:
        await self._definitions.load(
            connection, {(fact.workflow, fact.version) for fact in facts if fact.step_no is not None}
        )
        return [
            outgoing.status(
                fact, self._definitions.step_name(fact.workflow, fact.version, fact.step_no), first=first
            )
            for fact in facts
        ]

    async def _answers(self, connection: Connection, queries: Sequence[Received]) -> list[OutMessage]:
        """The statuses that are asked for. A repeated cancel or signal is a question for the present one; if its
        order has yet to come, so has its answer.
        """
        messages: list[OutMessage] = []
        for received in queries:
            facts = await asked_for(connection, received)
            if not facts and isinstance(received.message, OrderQuery):
                messages.append(unknown(received))
            messages += await self._statuses(connection, facts, first=False)
        return messages

    async def _set_aside(self, item: Item, error: Exception) -> None:
        detail = f"{type(error).__name__}: {error}"
        client = item.client if isinstance(item, Received) else item.letter.client
        await self._undeliverable.keep([letter_of(item.delivery, "refused_by_store", detail, client=client)])
