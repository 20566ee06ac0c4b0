"""What a call means when the service at the other end hangs, cuts the line or is not there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from shop import remote
from shop.processes import Service
from shop.services.chance import Fault, conduct, is_unlucky
from shop.services.ledger import read
from shop.services.payments import DECLINED_SHARE
from triumvir.agent import Permanent, Transient

RunService = Callable[..., Awaitable[Service]]
SEED = 1
LONG = timedelta(seconds=20)
SHORT = timedelta(seconds=0.5)


def key_that_meets(fault: Fault) -> str:
    keys = map("shop/{}/charge/do/0".format, range(100_000))
    return next(
        key
        for key in keys
        if conduct(SEED, key, 1).fault is fault and not is_unlucky(SEED, key, DECLINED_SHARE)
    )


async def charge(
    service: Service,
    key: str,
    *,
    amount: str = "1.00",
    patience: timedelta = LONG,
    time_left: timedelta = LONG,
) -> dict[str, Any]:
    body = {"order": "shop/1", "customer": None, "amount": amount}
    url = service.url + "/charges"
    return await remote.call(url, body, key=key, patience=patience, time_left=time_left)


async def test_a_good_answer_is_returned(run_service: RunService) -> None:
    payments = await run_service("payments")
    answer = await charge(payments, key_that_meets(Fault.NONE))
    assert answer == {"receipt": "P-shop/1", "amount": "1.00"}


async def test_a_refusal_is_told_in_the_words_of_the_service(run_service: RunService) -> None:
    payments = await run_service("payments")
    with pytest.raises(Permanent, match=r"card declined: 10001\.00 is over the limit") as raised:
        await charge(payments, key_that_meets(Fault.NONE), amount="10001")
    assert raised.value.effect == "none"


@pytest.mark.parametrize(
    "fault", [Fault.DROP_BEFORE, Fault.DROP_AFTER, Fault.ERROR_BEFORE, Fault.ERROR_AFTER]
)
async def test_a_lost_answer_leaves_the_effect_in_doubt(run_service: RunService, fault: Fault) -> None:
    payments = await run_service("payments")
    with pytest.raises(Transient) as raised:
        await charge(payments, key_that_meets(fault))
    assert raised.value.effect == "unknown"


async def test_a_busy_service_is_given_the_time_it_asks_for(run_service: RunService) -> None:
    payments = await run_service("payments")
    with pytest.raises(Transient, match="429") as raised:
        await charge(payments, key_that_meets(Fault.BUSY))
    assert (raised.value.effect, raised.value.retry_after) == ("none", timedelta(seconds=1))


@pytest.mark.parametrize(("patience", "time_left"), [(SHORT, LONG), (LONG, SHORT)])
async def test_a_hanging_call_is_given_up_in_time_and_left_in_doubt(
    run_service: RunService, patience: timedelta, time_left: timedelta
) -> None:
    payments = await run_service("payments")
    with pytest.raises(Transient, match=r"did not answer within 0\.5 s") as raised:
        await charge(payments, key_that_meets(Fault.HANG), patience=patience, time_left=time_left)
    assert raised.value.effect == "unknown"
    assert [entry.kind for entry in read(payments.ledger)] == ["call"]


async def test_a_service_that_is_not_there_did_nothing(run_service: RunService) -> None:
    payments = await run_service("payments")
    await payments.kill()
    with pytest.raises(Transient, match="cannot connect") as raised:
        await charge(payments, key_that_meets(Fault.NONE))
    assert raised.value.effect == "none"
