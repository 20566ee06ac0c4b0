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

from triumvir.broker import Outcome, OutMessage, Publisher

LATEST = 0.6
"""Seconds by which a copy may be late."""

Publish = Callable[[Publisher, Sequence[OutMessage]], Awaitable[list[Outcome]]]


def doubled(genuine: Publish, chance: random.Random, told: Callable[[str], None]) -> Publish:
    """``Publisher.publish`` that sends copies, too."""
    late: set[asyncio.Future[list[Outcome]]] = set()

    async def publish(publisher: Publisher, messages: Sequence[OutMessage]) -> list[Outcome]:
        order = chance.sample(range(len(messages)), len(messages))
        outcomes = await genuine(publisher, [messages[place] for place in order])
        copies = [message for message in messages for _ in range(chance.randint(0, 2))]
        chance.shuffle(copies)
        for copy in copies:
            told(copy.message_id)
            send = partial(_start, late, genuine, publisher, copy)
            asyncio.get_running_loop().call_later(chance.uniform(0, LATEST), send)
        return [outcome for _, outcome in sorted(zip(order, outcomes, strict=True), key=lambda pair: pair[0])]

    return publish


def _start(
    late: set[asyncio.Future[list[Outcome]]], genuine: Publish, publisher: Publisher, copy: OutMessage
) -> None:
    late.add(asyncio.ensure_future(genuine(publisher, [copy])))


def install() -> None:
    """Double everything that this process publishes from now on."""
    log = os.open(os.environ["FAULTS_TAP_LOG"], os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def told(message_id: str) -> None:
        os.write(log, f"{message_id}\n".encode())

    seed = int(os.environ.get("FAULT_SEED", "1"))
    setattr(Publisher, "publish", doubled(Publisher.publish, random.Random(seed), told))  # noqa: B010


if __name__ == "__main__":
    install()
    importlib.import_module(f"triumvir_{sys.argv[1]}.main").main(sys.argv[2:])
