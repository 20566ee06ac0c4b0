"""Keeping what could not be accepted: the row, its outbox entry, then the copy, the alert and the answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from triumvir.runtime import letters, refs
from triumvir.runtime.outgoing import DeadLetter
from triumvir.runtime.refs import LetterRef
from triumvir.runtime.relay import Relay
from triumvir.settings import Settings
from triumvir.store.session import Session
from triumvir.store.statements import Connection, statement


class Undeliverable:
    """Stores dead letters in a transaction of their own, or in the caller's."""

    def __init__(self, session: Session, relay: Relay, settings: Settings) -> None:
        self._session = session
        self._relay = relay
        self._lease_seconds = settings.outbox_lease / timedelta(seconds=1)

    async def keep(self, kept: Sequence[DeadLetter]) -> None:
        """Commits them, then sends what belongs to them."""
        async with self._relay.transaction(self._session) as ride:
            outbox_id = await self.insert(ride.connection, kept)
        await self.tell(kept, outbox_id)

    async def quarantine(self, letter: DeadLetter) -> None:
        """Keeps one that ended the process too often."""
        await self.keep([letter])

    async def insert(self, connection: Connection, kept: Sequence[DeadLetter]) -> int:
        """Stores them in the caller's transaction; returns the outbox row that says what to send."""
        await letters.insert(connection, kept)
        outbox_id: int = await statement("add_to_outbox").value(
            connection,
            lease_seconds=self._lease_seconds,
            refs=refs.write([LetterRef(letter.id) for letter in kept]),
            confirmed=[],
        )
        return outbox_id

    async def tell(self, kept: Sequence[DeadLetter], outbox_id: int) -> None:
        """After the commit: the copies, the alerts and the answers."""
        letters.report(kept)
        await self._relay.send(
            [message for letter in kept for message in letters.messages(letter)], outbox_id
        )
