from __future__ import annotations

from datetime import timedelta

import pytest

from shop.remote import call, failure
from triumvir.agent import Permanent, Transient


@pytest.mark.parametrize("status", [400, 402, 404, 409, 410, 422])
def test_a_refusal_is_permanent_and_did_nothing(status: int) -> None:
    raised = failure(status, None, "card declined", "unknown")
    assert isinstance(raised, Permanent)
    assert (str(raised), raised.effect) == ("card declined", "none")


@pytest.mark.parametrize("status", [429, 503])
def test_too_busy_did_nothing_and_says_when_to_come_again(status: int) -> None:
    raised = failure(status, "2", "busy", "unknown")
    assert isinstance(raised, Transient)
    assert (raised.effect, raised.retry_after) == ("none", timedelta(seconds=2))


@pytest.mark.parametrize("retry_after", [None, "Fri, 31 Dec 2027 23:59:59 GMT", "-1", "nan", "inf"])
def test_too_busy_without_a_usable_time_is_still_transient(retry_after: str | None) -> None:
    raised = failure(429, retry_after, "busy", "unknown")
    assert isinstance(raised, Transient)
    assert (raised.effect, raised.retry_after) == ("none", None)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_server_error_leaves_the_effect_in_doubt(status: int) -> None:
    raised = failure(status, None, "out of order", "unknown")
    assert isinstance(raised, Transient)
    assert raised.effect == "unknown"


def test_a_call_that_changes_nothing_is_never_in_doubt() -> None:
    assert failure(500, None, "out of order", "none").effect == "none"


async def test_without_time_left_nothing_is_called() -> None:
    second = timedelta(seconds=1)
    with pytest.raises(Transient, match="no time left") as raised:
        await call("http://127.0.0.1:9/charges", {}, key="k", patience=second, time_left=-second)
    assert raised.value.effect == "none"
