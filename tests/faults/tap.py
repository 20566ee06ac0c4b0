"""A service whose messages are doubled and shuffled on their way: ``python -m tests.faults.tap scheduler``.

Each message leaves one to three times, in any order; some copies only after a while. ``FAULTS_TAP_LOG`` gets a
line for each copy.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import random
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from triumvir.broker import Outcome, OutMessage, Publisher, Publishing

LATEST = 0.6
"""Seconds by which a copy may be late."""

Publish = Callable[[Publisher, Sequence[OutMessage]], Awaitable[list[Outcome]]]
Start = Callable[[Publisher, Sequence[OutMessage]], Publishing]


class Tap:
    """Sends copies of messages late, by the ``genuine`` way to publish. ``told`` hears the id of each."""

    def __init__(self, genuine: Publish, chance: random.Random, told: Callable[[str], None]) -> None:
        self.genuine = genuine
        self._chance = chance
        self._told = told
        self._late: set[asyncio.Future[list[Outcome]]] = set()

    def shuffled(self, messages: Sequence[OutMessage]) -> list[int]:
        """The places of these messages in the order in which they leave."""
        return self._chance.sample(range(len(messages)), len(messages))

    def copy(self, publisher: Publisher, messages: Sequence[OutMessage]) -> None:
        """Up to two copies of each, late."""
        copies = [message for message in messages for _ in range(self._chance.randint(0, 2))]
        self._chance.shuffle(copies)
        for copy in copies:
            self._told(copy.message_id)
            send = partial(self._send, publisher, copy)
            asyncio.get_running_loop().call_later(self._chance.uniform(0, LATEST), send)

    def _send(self, publisher: Publisher, copy: OutMessage) -> None:
        self._late.add(asyncio.ensure_future(self.genuine(publisher, [copy])))


def doubled(genuine: Publish, chance: random.Random, told: Callable[[str], None]) -> Publish:
    """``Publisher.publish`` that sends copies, too."""
    tap = Tap(genuine, chance, told)

    async def publish(publisher: Publisher, messages: Sequence[OutMessage]) -> list[Outcome]:
        order = tap.shuffled(messages)
        outcomes = await genuine(publisher, [messages[place] for place in order])
        tap.copy(publisher, messages)
        return [outcome for _, outcome in sorted(zip(order, outcomes, strict=True), key=lambda pair: pair[0])]

    return publish


def doubled_start(genuine: Start, tap: Tap) -> Start:
    """``Publisher.start`` that sends copies, too; what it returns has the messages in the order in which they left."""

    def start(publisher: Publisher, messages: Sequence[OutMessage]) -> Publishing:
        tap.copy(publisher, messages)
        return genuine(publisher, [messages[place] for place in tap.shuffled(messages)])

    return start


def install() -> None:
    """Double everything that this process publishes from now on."""
    log = os.open(os.environ["FAULTS_TAP_LOG"], os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    start, chance = Publisher.start, random.Random(int(os.environ.get("FAULT_SEED", "1")))

    def told(message_id: str) -> None:
        os.write(log, f"{message_id}\n".encode())

    async def publish(publisher: Publisher, messages: Sequence[OutMessage]) -> list[Outcome]:
        return await publisher.finish(start(publisher, messages))

    setattr(Publisher, "publish", doubled(publish, chance, told))  # noqa: B010
    setattr(Publisher, "start", doubled_start(start, Tap(publish, chance, told)))  # noqa: B010


if __name__ == "__main__":
    install()
    importlib.import_module(f"triumvir_{sys.argv[1]}.main").main(sys.argv[2:])
