"""Waiting for what other processes do, always with a deadline. Nothing else in the tests sleeps."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

_T = TypeVar("_T")
_POLL_SECONDS = 0.02


@overload
async def eventually(look: Callable[[], Awaitable[_T]], *, within: float = ..., what: str = ...) -> _T: ...
@overload
async def eventually(look: Callable[[], _T], *, within: float = ..., what: str = ...) -> _T: ...
async def eventually(
    look: Callable[[], _T | Awaitable[_T]], *, within: float = 60.0, what: str = "the condition"
) -> _T:
    """Call ``look`` until it returns something true; that. AssertionError with its last answer after ``within`` s."""
    deadline = time.monotonic() + within
    while True:
        found = look()
        answer: _T = await found if inspect.isawaitable(found) else found
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {within} s; last seen: {answer!r}")
        await asyncio.sleep(_POLL_SECONDS)


async def eventually_true(
    look: Callable[[], Awaitable[bool]], *, within: float = 60.0, what: str = "the condition"
) -> None:
    """The same for a condition that has to be awaited itself."""
    awaited: Callable[[], Any] = look
    await eventually(awaited, within=within, what=what)


def eventually_blocking(look: Callable[[], _T], *, within: float = 60.0, what: str = "the condition") -> _T:
    """The same for plain tests."""
    deadline = time.monotonic() + within
    while not (answer := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {within} s; last seen: {answer!r}")
        time.sleep(_POLL_SECONDS)
    return answer
