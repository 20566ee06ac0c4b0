"""What operations and undos owe, each played as it comes about: see docs/lifecycle.md on what agents owe."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from triumvir.agent.calling import Failure, Outcome, Success
from triumvir.contracts.names import Direction
from triumvir.testing.trialling.calls import Tried

_MOST_CUTS: Final = 12
"""An operation is killed at so many of its waits at most."""
_NO_TIME: Final = 0.02
"""Seconds."""


class Broken(Exception):
    """A promise is broken, in words."""


@dataclass(frozen=True, slots=True)
class Promise:
    """``play`` raises Broken if it does not hold. ``fails``: it is about a payload with which the operation fails."""

    text: str
    play: Callable[[Tried], Awaitable[None]]
    fails: bool = False


def _succeeded(outcome: Outcome, what: str) -> Success:
    if isinstance(outcome, Failure):
        raise Broken(f"{what} failed ({outcome.kind}, effect {outcome.effect}): {outcome.error}")
    return outcome


async def _expect(tried: Tried, effects: int, when: str) -> None:
    found = await tried.effects()
    if found != effects:
        raise Broken(f"{found} net effects {when}, not {effects}")


async def _works(tried: Tried) -> None:
    _succeeded(await tried.do(), "the call")
    await _expect(tried, 1, "after one call")


async def _repeats(tried: Tried) -> None:
    for time in ("first", "second", "third"):
        _succeeded(await tried.do(), f"the {time} call under one key")
    await _expect(tried, 1, "after three calls under one key")


async def _doubles(tried: Tried) -> None:
    outcomes = await asyncio.gather(tried.do(fence=1), tried.do(fence=1))
    if not any(isinstance(outcome, Success) for outcome in outcomes):
        _succeeded(outcomes[0], "each of two calls at once")
    _succeeded(await tried.do(), "the call after two at once")
    await _expect(tried, 1, "after two calls at once and a third")


async def _ignores_older_attempts(tried: Tried) -> None:
    _succeeded(await tried.do(fence=9), "the call of the newer attempt")
    await tried.do(fence=3)  # a target that compares fences refuses this one, and may
    await _expect(tried, 1, "after a call of an older attempt came late")


async def _survives_kills(tried: Tried) -> None:
    async def again(order: Tried, at: int) -> None:
        _succeeded(await order.do(), f"the call after one that was killed at its wait {at}")
        await _expect(order, 1, f"after a call was killed at its wait {at} and made again")

    await _killed_everywhere(tried, "do", again)


async def _killed_everywhere(
    tried: Tried, direction: Direction, again: Callable[[Tried, int], Awaitable[None]]
) -> None:
    if not tried.subject.may_be_cut:
        return
    for at in range(1, _MOST_CUTS + 1):
        order = Tried(tried.subject)
        if direction == "undo":
            _succeeded(await order.do(), "the call")
        if not await order.killed(direction, at):
            return
        await again(order, at)


async def _keeps_its_time(tried: Tried) -> None:
    await tried.do(seconds=_NO_TIME)
    if not await tried.has_ended():
        raise Broken(
            "it went on when its time was over and it was cancelled; give its own calls ctx.time_left"
        )
    _succeeded(await tried.do(), "the call after one that had no time")
    await _expect(tried, 1, "after a call that had no time and another one")


async def _tells_the_truth(tried: Tried) -> None:
    outcome = await tried.do()
    if isinstance(outcome, Success):
        raise Broken("the payload that is to fail does not")
    if outcome.effect == "none":
        await _expect(tried, 0, "after a failure that says it had no effect")


async def _undoes(tried: Tried) -> None:
    done = _succeeded(await tried.do(), "the call")
    _succeeded(await tried.take_back(done.result), "the undo")
    await _expect(tried, 0, "after the undo")


async def _undoes_without_result(tried: Tried) -> None:
    _succeeded(await tried.do(), "the call")
    _succeeded(await tried.take_back(), "the undo, which was not told the result,")
    await _expect(tried, 0, "after an undo that was not told the result")


async def _accepts_nothing_to_undo(tried: Tried) -> None:
    _succeeded(await tried.take_back(), "the undo of what was never done")
    await _expect(tried, 0, "after the undo of what was never done")


async def _undo_repeats(tried: Tried) -> None:
    done = _succeeded(await tried.do(), "the call")
    for time in ("first", "second"):
        _succeeded(await tried.take_back(done.result), f"the {time} undo under one key")
    await _expect(tried, 0, "after two undos under one key")


async def _undo_survives_kills(tried: Tried) -> None:
    async def again(order: Tried, at: int) -> None:
        _succeeded(await order.take_back(), f"the undo after one that was killed at its wait {at}")
        await _expect(order, 0, f"after an undo was killed at its wait {at} and made again")

    await _killed_everywhere(tried, "undo", again)


async def _late_success_is_undone(tried: Tried) -> None:
    """The undo came first: the call was still on its way, and landed after all. The undo runs anew, under a new key."""
    _succeeded(await tried.take_back(), "the undo before a late call")
    await tried.do()
    _succeeded(await tried.take_back(generation=1), "the undo after a late call, under a new key,")
    await _expect(tried, 0, "after a call that landed between two undos of different keys")


OF_OPERATIONS: Final = (
    Promise("works", _works),
    Promise("takes effect once, however often it is called under one key", _repeats),
    Promise("takes effect once when two calls under one key are made at once", _doubles),
    Promise("a call of an older attempt that comes late adds no effect", _ignores_older_attempts),
    Promise("takes effect once when it is killed at any of its waits and called again", _survives_kills),
    Promise("ends when its time is over, and takes effect once when called again", _keeps_its_time),
    Promise("a failure that says it had no effect had none", _tells_the_truth, fails=True),
)
OF_UNDOS: Final = (
    Promise("its undo takes the effect back", _undoes),
    Promise("its undo needs no result to take the effect back", _undoes_without_result),
    Promise("its undo accepts that there is nothing to undo", _accepts_nothing_to_undo),
    Promise("its undo may be called again under one key", _undo_repeats),
    Promise("its undo may be killed at any of its waits and called again", _undo_survives_kills),
    Promise(
        "its undo under a new key takes back what landed after the undo before it", _late_success_is_undone
    ),
)
