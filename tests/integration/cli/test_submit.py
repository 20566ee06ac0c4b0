"""`triumvir submit` and `watch` on a real broker, with nobody behind the door."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.integration.cli.conftest import Triumvir
from tests.servers import blocking
from triumvir.broker import ORDERS, Consumer, Delivery, connect


@pytest.fixture
def client_url(triumvir: Triumvir, client_name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    url: str = triumvir("clients", "add", client_name, "--json")["url"]
    return url


async def received(url: str, count: int) -> list[Delivery]:
    connection = await connect(url, "test")
    consumer = Consumer(connection, ORDERS, 1000)
    await consumer.start()
    found: list[Delivery] = []
    while len(found) < count:
        found += await consumer.batch(1000)
    await consumer.settle(found)
    await consumer.close()
    await connection.close()
    return found


def test_every_good_line_is_sent_and_every_bad_one_named(
    triumvir: Triumvir, client_url: str, broker_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "orders.ndjson"
    lines = [f'{{"order_id":"{number}","total": 1.50}}' for number in range(300)]
    lines[7:7] = ["nonsense", '{"order_id":"a b"}', '{"total":1}']
    file.write_text("\n".join(lines))
    said = triumvir("submit", str(file), "-w", "order-fulfilment", "--url", client_url, code=1)
    assert "line 8: invalid: body: not JSON" in said
    assert "line 9: invalid: order_id" in said
    assert "line 10: invalid: order_id: is missing" in said
    assert "300 sent, 3 failed" in said
    came = blocking(lambda: received(broker_url, 300))
    assert [orjson.loads(each.body)["order_id"] for each in came] == [str(number) for number in range(300)]
    assert b'"payload":{"order_id":"0","total": 1.50}' in came[0].body


def test_a_file_without_faults_ends_well(triumvir: Triumvir, client_url: str, tmp_path: Path) -> None:
    file = tmp_path / "orders.ndjson"
    file.write_text('{"order_id":"1","payload":{"a":1},"workflow":"w"}\n\n')
    assert "1 sent, 0 failed" in triumvir("submit", str(file), "--url", client_url)


def test_the_same_id_with_other_data_is_refused_by_its_line(
    triumvir: Triumvir, client_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "orders.ndjson"
    file.write_text('{"order_id":"1","a":1}\n{"order_id":"1","a":1}\n{"order_id":"1","a":2}\n')
    said = triumvir("submit", str(file), "-w", "w", "--url", client_url, code=1)
    assert "line 3: conflict: order_id" in said
    assert "2 sent, 1 failed" in said


def test_a_client_that_was_never_added_is_told(
    triumvir: Triumvir, client_url: str, broker_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "orders.ndjson"
    file.write_text('{"order_id":"1","a":1}\n')
    said = triumvir("submit", str(file), "-w", "w", "--follow", "--url", broker_url, code=1)
    assert "triumvir clients add" in said
