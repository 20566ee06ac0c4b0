"""A follower that is closed ends, whatever its tasks are in the middle of."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from triumvir.broker import Consumer
from triumvir.client import follower
from triumvir.client.follower import Follower


class Deaf:
    """A consumer that takes a cancel of its caller for a lost channel."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.lost = 0

    async def ensure_subscribed(self) -> bool:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.lost += 1
        return False


async def test_a_cancel_that_is_lost_in_a_question_to_the_broker_keeps_no_client_from_closing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(follower, "WATCH_SECONDS", 0)
    deaf = Deaf()
    closing = Follower("amqp://nowhere", "test", "status.shop", print, print, print)
    watch = asyncio.create_task(closing._watch(cast(Consumer, deaf)))
    closing._tasks = [watch]
    await deaf.asked.wait()
    async with asyncio.timeout(60):
        await closing.close()
    assert watch.done()
    assert deaf.lost == 1
