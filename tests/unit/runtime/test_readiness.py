"""What the readiness page asks, and when."""

from __future__ import annotations

from triumvir.runtime.health import Health
from triumvir.runtime.watchdog import Watchdog
from triumvir.settings import Settings


async def test_a_check_that_is_added_while_others_are_asked_is_asked_the_next_time() -> None:
    settings = Settings()
    health = Health(settings, Watchdog(settings.watchdog_timeout), "specimen", "1")
    health.started = True

    async def late() -> str | None:
        return "not subscribed"

    async def slow() -> str | None:
        health.add_readiness("late", late)
        return None

    health.add_readiness("slow", slow)
    assert await health.readiness() == {}
    assert await health.readiness() == {"late": "not subscribed"}
