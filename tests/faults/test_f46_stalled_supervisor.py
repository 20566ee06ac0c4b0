"""F46: every hint is lost and the supervisor hangs. Polling is enough for what needs no supervisor; the rest shows."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import aio_pika
import aiohttp
import pytest

from tests.faults.cluster import Cluster
from tests.waiting import eventually_true
from triumvir.broker import INTERNAL_EXCHANGE, WAKE
from triumvir.telemetry import metrics

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
STEP_SECONDS = 3


async def test_f46_orders_end_by_polling_while_the_supervisor_hangs_and_the_lag_shows(
    cluster: Cluster,
) -> None:
    await cluster.start()
    await _lose_hints(cluster)
    supervisor = cluster.services["supervisor"]
    supervisor.send(signal.SIGSTOP)
    orders = await cluster.load.submit(30, "good")
    for order in orders:
        await order.result(timeout=60)
    stuck = await cluster.load.submit_one("stuck", {"reserve": {"fail": "transient", "times": 3}})
    await eventually_true(
        lambda: _lags(cluster, 2 * STEP_SECONDS), within=90, what="a lag that schedulers tell"
    )
    (state,) = await cluster.database.fetch(
        "select state, failure_count from orders where order_id = 'stuck'"
    )
    assert tuple(state) == ("processing", 0), "nobody but the supervisor re-opens"
    await cluster.load.submit(10, "good")
    supervisor.send(signal.SIGCONT)
    await stuck.result(timeout=60)
    await eventually_true(lambda: _lags_not(cluster), within=60, what="the end of the lag")
    await cluster.assert_sound()
    failures = (
        "select count(*) from transitions where why like '%attempt failed%' and no in"
        " (select no from orders where order_id = 'stuck')"
    )
    assert await cluster.database.fetchval(failures) == 1, "the expiry was handled once"


async def _lose_hints(cluster: Cluster) -> None:
    """Nothing leads to the queue of the hints any more."""
    async with await aio_pika.connect(cluster.settings.broker_url) as connection:
        channel = await connection.channel()
        queue = await channel.get_queue(WAKE)
        await queue.unbind(INTERNAL_EXCHANGE, WAKE)
        await queue.purge()
    returned = await _is_returned(cluster)
    assert returned, "a hint still finds its queue"


async def _is_returned(cluster: Cluster) -> bool:
    async with await aio_pika.connect(cluster.settings.broker_url) as connection:
        channel = await connection.channel(on_return_raises=True)
        exchange = await channel.get_exchange(INTERNAL_EXCHANGE)
        try:
            await exchange.publish(aio_pika.Message(b"{}"), WAKE, mandatory=True)
        except aio_pika.exceptions.DeliveryError:
            return True
        return False


def _port(folder: Path) -> str:
    return (folder / "scheduler.port").read_text().strip()


async def _lag(cluster: Cluster) -> float:
    port = _port(cluster.folder)
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/metrics") as answer,
    ):
        text = await answer.text()
    name = metrics.RECOVERY_LAG.name.replace(".", "_")
    found = re.search(rf"^{name}(?:\{{[^}}]*\}})? ([\d.e+-]+)$", text, re.MULTILINE)
    assert found is not None, text[:2000]
    return float(found[1])


async def _lags(cluster: Cluster, seconds: float) -> bool:
    return await _lag(cluster) > seconds


async def _lags_not(cluster: Cluster) -> bool:
    return await _lag(cluster) == 0
