"""The shop's services as processes of their own, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from shop.processes import Service
from shop.services.chance import Fault, conduct, is_unlucky
from shop.services.ledger import read
from shop.services.payments import DECLINED_SHARE

RunService = Callable[..., Awaitable[Service]]
SEED = 1
DEADLINE = aiohttp.ClientTimeout(total=20)


@dataclass
class Got:
    status: int
    text: str
    retry_after: str | None


async def post(service: Service, path: str, key: str, body: dict[str, Any]) -> Got:
    headers = {"Idempotency-Key": key} if key else {}
    async with (
        aiohttp.ClientSession(timeout=DEADLINE) as session,
        session.post(service.url + path, json=body, headers=headers) as response,
    ):
        return Got(response.status, await response.text(), response.headers.get("Retry-After"))


async def entries(service: Service, path: str) -> list[dict[str, Any]]:
    async with (
        aiohttp.ClientSession(timeout=DEADLINE) as session,
        session.get(service.url + path) as response,
    ):
        listed: list[dict[str, Any]] = await response.json()
        return listed


def order_that_meets(*faults: Fault, seed: int = SEED) -> str:
    """An order whose first calls to /charges go like this, and whose card is good."""
    for number in range(100_000):
        key = charge_key(f"shop/{number}")
        if is_unlucky(seed, key, DECLINED_SHARE):
            continue
        if all(conduct(seed, key, call).fault is fault for call, fault in enumerate(faults, 1)):
            return f"shop/{number}"
    raise AssertionError(f"no order meets {faults}")


def charge_key(order: str) -> str:
    return f"{order}/charge/do/0"


async def charge(service: Service, order: str) -> Got:
    return await post(
        service, "/charges", charge_key(order), {"order": order, "customer": "5", "amount": "12.50"}
    )


async def effects_of(service: Service, order: str) -> list[str]:
    return [entry["amount"] for entry in await entries(service, "/ledger") if entry["order"] == order]


async def until_it_goes_well(service: Service, path: str, key: str, order: str) -> None:
    """Calls an undo until it answers well; by its fourth call it does."""
    for _ in range(4):
        try:
            if (await post(service, path, key, {"order": order})).status == 200:
                return
        except aiohttp.ClientConnectionError:
            continue
    raise AssertionError(f"{path} did not go well in four calls")


async def test_a_charge_repeated_under_its_key_is_made_once(run_service: RunService) -> None:
    payments = await run_service("payments")
    order = order_that_meets(Fault.NONE, Fault.NONE)
    first, second = await charge(payments, order), await charge(payments, order)
    assert first == second
    assert first.status == 201
    assert await effects_of(payments, order) == ["12.50"]
    assert [call["call"] for call in await entries(payments, "/calls")] == [1, 2]


async def test_two_charges_at_once_under_one_key_are_one(run_service: RunService) -> None:
    payments = await run_service("payments")
    order = order_that_meets(Fault.NONE, Fault.NONE)
    first, second = await asyncio.gather(charge(payments, order), charge(payments, order))
    assert first == second
    assert await effects_of(payments, order) == ["12.50"]


@pytest.mark.parametrize("fault", [Fault.ERROR_AFTER, Fault.ERROR_BEFORE])
async def test_a_500_leaves_open_whether_it_was_done(run_service: RunService, fault: Fault) -> None:
    payments = await run_service("payments")
    order = order_that_meets(fault)
    assert (await charge(payments, order)).status == 500
    assert await effects_of(payments, order) == (["12.50"] if fault is Fault.ERROR_AFTER else [])


@pytest.mark.parametrize("fault", [Fault.DROP_AFTER, Fault.DROP_BEFORE])
async def test_a_cut_connection_leaves_open_whether_it_was_done(
    run_service: RunService, fault: Fault
) -> None:
    payments = await run_service("payments")
    order = order_that_meets(fault)
    with pytest.raises(aiohttp.ClientConnectionError):
        await charge(payments, order)
    assert await effects_of(payments, order) == (["12.50"] if fault is Fault.DROP_AFTER else [])


async def test_a_busy_service_says_when_to_come_again(run_service: RunService) -> None:
    payments = await run_service("payments")
    order = order_that_meets(Fault.BUSY, Fault.NONE)
    busy = await charge(payments, order)
    assert (busy.status, busy.retry_after) == (429, "1")
    assert (await charge(payments, order)).status == 201


async def test_a_killed_service_remembers_effects_refusals_and_undos(run_service: RunService) -> None:
    payments = await run_service("payments")
    order = order_that_meets(Fault.ERROR_AFTER, Fault.NONE)
    await charge(payments, order)
    rich = {"order": "shop/rich", "customer": None, "amount": "10000.01"}
    await post(payments, "/charges", charge_key("shop/rich"), rich)
    await payments.kill()
    again = await run_service("payments", port=int(payments.url.rsplit(":", 1)[1]))
    assert again.url == payments.url
    assert (await charge(again, order)).status == 201
    assert await effects_of(again, order) == ["12.50"]
    assert [entry.kind for entry in read(again.ledger) if entry.order == "shop/rich"][:1] == ["call"]
    assert len(await entries(again, "/calls")) == 3


async def test_a_refund_gives_back_what_was_charged(run_service: RunService) -> None:
    payments = await run_service("payments")
    order = order_that_meets(Fault.NONE)
    await charge(payments, order)
    await until_it_goes_well(payments, "/refunds", f"{order}/charge/undo/0", order)
    assert [entry["direction"] for entry in await entries(payments, "/ledger")] == ["do", "undo"]
    assert await effects_of(payments, order) == ["12.50", "12.50"]


async def test_a_charge_that_arrives_after_its_refund_is_kept_out(run_service: RunService) -> None:
    payments = await run_service("payments")
    order = order_that_meets(Fault.NONE)
    await until_it_goes_well(payments, "/refunds", f"{order}/charge/undo/0", order)
    late = await charge(payments, order)
    assert late.status == 410
    assert "was undone" in late.text
    assert await effects_of(payments, order) == []


async def test_inventory_refuses_more_than_it_has(run_service: RunService) -> None:
    inventory = await run_service("inventory")
    body = {"order": "shop/1", "lines": [{"sku": "GL-1", "quantity": 2001}]}
    key = next(
        key for key in map("{}/reserve/do/0".format, range(100)) if conduct(SEED, key, 1).fault is Fault.NONE
    )
    got = await post(inventory, "/reservations", key, body)
    assert (got.status, got.text) == (409, "2001 of GL-1 wanted, 2000 in stock")


async def test_a_quote_is_noted_as_a_call_and_has_no_effect(run_service: RunService) -> None:
    shipping = await run_service("shipping")
    key = next(
        key
        for key in (f"shop/{number}/ship/do/0" for number in range(1000))
        if conduct(SEED, key, 1).fault is Fault.NONE and not is_unlucky(SEED, key, 0.02)
    )
    got = await post(shipping, "/quotes", key, {"order": "shop/1", "country": "United Kingdom", "units": 10})
    assert (got.status, got.text) == (200, '{"courier": "Shire Carriers", "price": "3.40"}')
    assert await entries(shipping, "/ledger") == []
    assert len(await entries(shipping, "/calls")) == 1


@pytest.mark.parametrize(
    ("key", "body", "named"),
    [
        ("", {"order": "shop/1", "customer": None, "amount": "1"}, "Idempotency-Key"),
        ("k", {"order": "shop/1", "customer": None}, "amount"),
        ("k", {"order": "shop/1", "customer": None, "amount": "much"}, "amount"),
    ],
)
async def test_a_bad_request_is_refused_naming_what_is_wrong(
    run_service: RunService, key: str, body: dict[str, Any], named: str
) -> None:
    payments = await run_service("payments")
    got = await post(payments, "/charges", key, body)
    assert got.status == 400
    assert named in got.text
    assert await entries(payments, "/calls") == []
