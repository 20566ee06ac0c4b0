"""The blocking client, as Django or Flask code uses it: from many threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import pytest

from tests.integration.services.workbench import new_id
from tests.services import Account, Suite
from tests.waiting import eventually_blocking
from triumvir.client.blocking import BlockingClient
from triumvir.errors import BrokerError, ContractError, OrderCompensated, OrderHalted


@pytest.fixture(scope="module")
def blocking_account(suite: Suite) -> Account:
    return suite.add_client("blocking")


def test_threads_share_one_client_and_each_gets_its_own_result(
    suite: Suite, blocking_account: Account
) -> None:
    def one(n: int) -> tuple[str, str]:
        order = client.submit("trio", {"n": n}, order_id=new_id())
        return order.order_id, order.result(timeout=60)["key"]

    with BlockingClient(blocking_account.url) as client, ThreadPoolExecutor(12) as threads:
        answers = list(threads.map(one, range(60)))
    assert [key for _, key in answers] == [f"{blocking_account.name}/{name}/c/do/0" for name, _ in answers]
    assert len({name for name, _ in answers}) == 60


def test_statuses_are_an_ordinary_iterator_that_ends(suite: Suite, blocking_account: Account) -> None:
    with BlockingClient(blocking_account.url) as client:
        order = client.submit("trio", {}, order_id=new_id())
        assert [status.status for status in order.statuses()] == ["received", "completed"]
        assert [status.status for status in client.order(order.order_id).statuses()] == [
            "received",
            "completed",
        ]


def test_ends_and_refusals_are_the_same_exceptions(suite: Suite, blocking_account: Account) -> None:
    with BlockingClient(blocking_account.url) as client:
        with pytest.raises(OrderCompensated, match="c failed: no way"):
            client.submit("trio", {"c": "permanent"}, order_id=new_id()).result(timeout=60)
        with pytest.raises(OrderHalted):
            client.submit("trio-halt", {"b": "permanent"}, order_id=new_id()).result(timeout=60)
        with pytest.raises(ContractError, match="order_id"):
            client.submit("trio", {}, order_id="with blank")


def test_a_thread_that_waits_when_the_client_is_closed_is_told(
    suite: Suite, blocking_account: Account
) -> None:
    client = BlockingClient(blocking_account.url)
    client.open()
    order = client.submit("trio", {"a": "gate"}, order_id=new_id())
    said: list[BaseException] = []

    def wait() -> None:
        try:
            order.result()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            said.append(error)

    waiting = Thread(target=wait)
    waiting.start()
    eventually_blocking(lambda: order.status is not None, what="the first status")
    client.close()
    waiting.join(20)
    assert not waiting.is_alive()
    assert isinstance(said[0], BrokerError)


def test_outside_its_block_it_says_how_to_open_it(blocking_account: Account) -> None:
    client = BlockingClient(blocking_account.url)
    with pytest.raises(BrokerError, match="with block"):
        client.submit("trio", {}, order_id=new_id())
