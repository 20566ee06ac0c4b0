"""A service without broker or database, to see what the chassis does: ``python specimen.py KIND``."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from triumvir.runtime import drain
from triumvir.runtime.chassis import Chassis
from triumvir.runtime.gather import Gatherer
from triumvir.runtime.loops import Loop
from triumvir.runtime.service import run_service
from triumvir.telemetry import logs, tracing

log = logs.get_logger("specimen")
MINUTE = timedelta(minutes=1)


def say(what: str) -> None:
    log.info(what)


@asynccontextmanager
async def resource(name: str) -> AsyncIterator[None]:
    say(f"{name} opened")
    yield
    say(f"{name} closed")


async def idle_step() -> bool:
    return False


async def orderly(chassis: Chassis) -> None:
    """Everything a service has, each saying when it stops."""

    async def handle(items: list[int]) -> list[int]:
        return items

    async def told(what: str) -> None:
        say(what)

    async def until_cancelled() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            say("task cancelled")

    await chassis.enter(resource("pool"))
    await chassis.enter(resource("broker"))
    chassis.add_loop(Loop("claims", idle_step, MINUTE))
    chassis.add_gatherer(Gatherer(handle, 10, "replies"))
    chassis.add_task("consumer", until_cancelled)
    chassis.add_task("once", lambda: told("once done"), forever=False)
    chassis.on_drain("lease", lambda: told("lease released"), order=drain.RELEASE)
    chassis.on_drain("taking", lambda: told("taking stopped"), order=drain.TAKING)


async def not_ready(chassis: Chassis) -> None:
    async def database() -> str | None:
        raise ConnectionError(f"cannot reach {chassis.settings.database_url}")

    async def consumer() -> str | None:
        return "not subscribed"

    async def slow() -> str | None:
        await asyncio.Event().wait()
        return None

    async def fine() -> str | None:
        return None

    chassis.add_readiness("database", database)
    chassis.add_readiness("consumer", consumer)
    chassis.add_readiness("slow", slow)
    chassis.add_readiness("fine", fine)


async def dying_task(chassis: Chassis) -> None:
    async def die() -> None:
        raise ConnectionError(f"lost {chassis.settings.broker_url}")

    await orderly(chassis)
    chassis.add_task("consume", die)


async def ending_task(chassis: Chassis) -> None:
    async def end() -> None:
        return

    chassis.add_task("consume", end)


async def failing_start(chassis: Chassis) -> None:
    await chassis.enter(resource("pool"))
    raise ConnectionError("no broker")


async def endless_start(chassis: Chassis) -> None:
    await chassis.enter(resource("pool"))
    say("starting")
    await asyncio.Event().wait()


async def stubborn(chassis: Chassis) -> None:
    async def never() -> None:
        say("never ending")
        await asyncio.Event().wait()

    await chassis.enter(resource("pool"))
    chassis.on_drain("stubborn", never, order=drain.FLUSH)


async def hung_thread(chassis: Chassis) -> None:
    hung = threading.Event()
    chassis.add_task("thread", lambda: asyncio.to_thread(hung.wait))


async def blocked(chassis: Chassis) -> None:
    async def block() -> bool:
        threading.Event().wait(600)  # blocking the event loop is what this is for
        return True

    chassis.add_loop(Loop("blocking", block, MINUTE))


async def stalled(chassis: Chassis) -> None:
    async def wait_for_ever() -> bool:
        await asyncio.Event().wait()
        return True

    chassis.add_loop(Loop("waiting", wait_for_ever, MINUTE))


async def tracer(chassis: Chassis) -> None:
    """Many spans, then told to stop by itself."""

    async def trace() -> None:
        for number in range(500):
            with tracing.process("orders", f"m-{number}", f"shop-a/{number}", None):
                pass
        say("traced")
        chassis.request_drain()

    chassis.add_task("trace", trace, forever=False)


KINDS = {
    serve.__name__: serve
    for serve in (
        orderly,
        not_ready,
        dying_task,
        ending_task,
        failing_start,
        endless_start,
        stubborn,
        hung_thread,
        blocked,
        stalled,
        tracer,
    )
}

if __name__ == "__main__":
    run_service("specimen", KINDS[sys.argv[1]])
