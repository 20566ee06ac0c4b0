"""Replays: dead letters of ``orders`` that operators had handled again, as if they had just come.

The wish stands in the letter's row. A submitter takes it under a lease, and what the letter asks for is done in
the commit that settles it: whoever dies in between, and however many submitters are at it, it is done once. A
replay that ends its submitter time and again is given up, and the submitter lives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from triumvir.contracts.messages import OrderCancel, OrderSignal, OrderSubmit
from triumvir.contracts.names import order_key
from triumvir.runtime import letters
from triumvir.runtime.batches import run_batch
from triumvir.runtime.crash import crash_point
from triumvir.runtime.outgoing import DeadLetter
from triumvir.runtime.refs import Ref, StatusRef
from triumvir.runtime.relay import Relay
from triumvir.settings import Settings
from triumvir.store.session import Session
from triumvir.store.statements import Connection, statement
from triumvir.telemetry import events, metrics
from triumvir.telemetry.logs import get_logger
from triumvir_submitter.admission import Received
from triumvir_submitter.batch import Item, Refused
from triumvir_submitter.door import Done, Door

MOST_TRIES: Final = 3
"""A replay that was begun so often and never answered is given up."""
log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Replay:
    """A letter that is to be handled again; ``lease`` tells this try from every other."""

    letter: DeadLetter
    lease: datetime
    tries: int


class Replays:
    """The replay loop's step. ``door``: one of its own, on the same session."""

    def __init__(self, door: Door, session: Session, relay: Relay, settings: Settings) -> None:
        self._door = door
        self._session = session
        self._relay = relay
        self._lease_seconds = settings.outbox_lease / timedelta(seconds=1)
        self._failed: Replay | None = None

    async def step(self) -> bool:
        """Takes one; whether there was one. One that fails keeps its try and comes again when its lease is over: an
        outage makes no letter poison, and none keeps the others waiting.
        """
        if self._failed is not None:
            await self._give_back(self._failed)
            self._failed = None
        replay = await self._claim()
        if replay is None:
            return False
        try:
            await self._handle(replay)
        except Exception:
            self._failed = replay
            raise
        return True

    async def _handle(self, replay: Replay) -> None:
        if replay.tries > MOST_TRIES:
            await self._refuse(replay, "quarantined", f"replayed {MOST_TRIES} times without an answer")
        else:
            await run_batch("replays", [replay], self._take, self._set_aside)

    async def _give_back(self, failed: Replay) -> None:
        async with self._session.connection() as connection:
            await statement("give_back_replay").rows(connection, id=failed.letter.id, lease=failed.lease)

    async def _claim(self) -> Replay | None:
        async with self._session.connection() as connection:
            row = await statement("claim_replay").row(connection, lease_seconds=self._lease_seconds)
        if row is None:
            return None
        members = dict(row)
        tries, lease = members.pop("replay_tries"), members.pop("replay_lease")
        return Replay(DeadLetter(**members), lease, tries)

    async def _take(self, replays: Sequence[Replay]) -> None:
        (taken,) = replays
        item = self._door.read(letters.delivery_of(taken.letter))
        prepared = await self._door.prepare([item])
        async with self._relay.transaction(self._session) as ride:
            if not await self._is_ours(ride.connection, taken):
                return
            done = await self._door.act(ride.connection, [item], prepared)
            await self._answer(ride.connection, taken, item, done)
            outbox_id = await self._door.to_outbox(ride, _refs(done))
            crash_point("submitter.replay.before_commit")
        crash_point("submitter.replay.after_commit")
        _report(taken, done.refused)
        # Its sender was told when it was refused first; that it was refused again is the operator's affair.
        await self._door.tell(replace(done, refused=[]), outbox_id, "submitter.replay.after_publish")

    async def _is_ours(self, connection: Connection, taken: Replay) -> bool:
        """Whether the try is still this one, and the letter locked. No: its lease lapsed and another took it."""
        found = await statement("lock_replay").value(connection, id=taken.letter.id, lease=taken.lease)
        if found is None:
            log.warning(events.REPLAY_LOST, dead_letter=str(taken.letter.id))
        return found is not None

    async def _answer(self, connection: Connection, taken: Replay, item: Item, done: Done) -> None:
        if done.refused or isinstance(item, Refused):
            (now,) = done.refused
            await self._keep(connection, taken, now.reason, now.detail)
            return
        await statement("settle_replay").rows(
            connection, id=taken.letter.id, who=self._door.who, note=_outcome(item, done)
        )

    async def _keep(self, connection: Connection, taken: Replay, reason: str, detail: str) -> None:
        note = f"{reason}: {detail}"
        before = f"{taken.letter.reason}: {taken.letter.detail}"
        if before != note:
            note += f" (before: {before})"
        await statement("refuse_replay").rows(
            connection, id=taken.letter.id, who=self._door.who, reason=reason, detail=detail, note=note
        )

    async def _refuse(self, taken: Replay, reason: str, detail: str) -> None:
        async with self._session.transaction() as connection:
            if not await self._is_ours(connection, taken):
                return
            await self._keep(connection, taken, reason, detail)
        _report(taken, [replace(taken.letter, reason=reason, detail=detail)])

    async def _set_aside(self, taken: Replay, error: Exception) -> None:
        refused = letters.letter_of(
            letters.delivery_of(taken.letter), "refused_by_store", f"{type(error).__name__}: {error}"
        )
        await self._refuse(taken, refused.reason, refused.detail)


def _refs(done: Done) -> list[Ref]:
    """An equal order's status, too: nobody delivers a replay again if this process dies before it is told."""
    again = [StatusRef(fact.no, fact.n) for fact in done.accepted.again]
    return [*done.accepted.refs, *again]


def _outcome(item: Received, done: Done) -> str:
    """What came of it, for the operator."""
    key = order_key(item.client, item.message.order_id)
    if isinstance(item.message, OrderSubmit):
        return (
            f"accepted as {key}" if done.accepted.new else f"{key} was accepted before, with the same content"
        )
    if isinstance(item.message, OrderCancel):
        return f"the cancel of {key} was taken down"
    if isinstance(item.message, OrderSignal):
        return f"signal {item.message.name} of {key} was taken down"
    return f"the question about {key} was answered"


def _report(taken: Replay, refused: Sequence[DeadLetter]) -> None:
    metrics.REPLAYS.add(1, "refused" if refused else "accepted")
    if not refused:
        log.info(events.LETTER_REPLAYED, dead_letter=str(taken.letter.id), client=taken.letter.client)
    for letter in refused:
        log.warning(
            events.LETTER_REFUSED_AGAIN,
            dead_letter=str(taken.letter.id),
            reason=letter.reason,
            detail=letter.detail,
        )
