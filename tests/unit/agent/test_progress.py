"""Reports leave in order, the latest of them, once a second at most; from coroutines and from threads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from triumvir.agent.progress import LONGEST_REPORT, Reporter
from triumvir.testing import virtual_time

Heard = list[tuple[str, int, float]]
"""What was sent, its count, and when."""


def heard_of(operation: Callable[[Reporter], Awaitable[None]]) -> Heard:
    """What leaves while it runs, and a day later."""

    async def main() -> Heard:
        heard: Heard = []

        async def send(text: str, count: int) -> None:
            heard.append((text, count, asyncio.get_running_loop().time()))

        reporter = Reporter(send)
        await operation(reporter)
        reporter.close()
        await asyncio.sleep(86_400)
        return heard

    return virtual_time.run(main)


def test_the_first_report_leaves_at_once_and_of_many_the_latest_a_second_later() -> None:
    async def operation(reporter: Reporter) -> None:
        for n in range(1, 6):
            reporter.report(f"{n} of 5")
            await asyncio.sleep(0.3)

    assert heard_of(operation) == [("1 of 5", 1, 0.0), ("4 of 5", 2, 1.0)]


def test_one_that_comes_after_a_while_need_not_wait() -> None:
    async def operation(reporter: Reporter) -> None:
        reporter.report("begun")
        await asyncio.sleep(90)
        reporter.report("half")
        await asyncio.sleep(90)

    assert heard_of(operation) == [("begun", 1, 0.0), ("half", 2, 90.0)]


def test_what_was_not_out_when_the_operation_ended_stays_unsaid() -> None:
    async def operation(reporter: Reporter) -> None:
        reporter.report("begun")
        await asyncio.sleep(0.5)
        reporter.report("done")

    assert heard_of(operation) == [("begun", 1, 0.0)]


def test_a_thread_may_report() -> None:
    async def operation(reporter: Reporter) -> None:
        await asyncio.to_thread(reporter.report, "from a thread")
        await asyncio.sleep(0.1)

    assert [text for text, _, _ in heard_of(operation)] == ["from a thread"]


def test_who_goes_on_after_its_time_is_not_heard() -> None:
    async def operation(reporter: Reporter) -> None:
        reporter.close()
        reporter.report("still here")
        await asyncio.sleep(1)

    assert heard_of(operation) == []


@pytest.mark.parametrize(
    ("text", "sent"),
    [("a\x00b", "a\\0b"), ("\ud800", "\\ud800"), ("x" * 501, "x" * LONGEST_REPORT)],
    ids=["nul", "surrogate", "long"],
)
def test_what_cannot_be_kept_is_made_so_that_it_can(text: str, sent: str) -> None:
    async def operation(reporter: Reporter) -> None:
        reporter.report(text)
        await asyncio.sleep(0.1)

    assert [text for text, _, _ in heard_of(operation)] == [sent]
