"""Everything works over TLS, and only with a certificate that is trusted."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.integration.broker.proxy import Proxy
from tests.integration.broker.room import Room, eventually, message, numbers, queue_topology, take
from triumvir.broker import Outcome, connect
from triumvir.errors import BrokerError


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Certificate and key of ``localhost``, signed by themselves."""
    folder = tmp_path_factory.mktemp("tls")
    paths = folder / "certificate.pem", folder / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*command, "-out", paths[0], "-keyout", paths[1]], check=True, capture_output=True)
    return paths


@pytest.fixture
async def tls(broker_url: str, certificate: tuple[Path, Path]) -> AsyncIterator[Proxy]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    async with speaking_tls(broker_url, context) as proxy:
        yield proxy


@asynccontextmanager
async def speaking_tls(url: str, context: ssl.SSLContext) -> AsyncIterator[Proxy]:
    """A proxy that ends TLS before the broker."""
    proxy = Proxy(url, tls=context)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()


async def test_batches_go_and_come_over_tls_and_after_a_cut(
    room: Room, tls: Proxy, certificate: tuple[Path, Path]
) -> None:
    await room.declare(queue_topology("work"))
    url = f"{tls.url}?cafile={quote(str(certificate[0]))}"
    connection = await room.connection(url=url)
    publisher, consumer = await room.publisher(connection), await room.consumer("work", connection=connection)
    for turn in range(2):
        batch = [message(turn * 1000 + n, body=b'{"number":"%d"}' % n + b" " * 2000) for n in range(500)]
        assert await publisher.publish(batch) == [Outcome.CONFIRMED] * 500
        taken = []
        for _ in range(5):
            taken += (some := await take(consumer, 100))
            await consumer.settle(some)
        assert numbers(taken) == list(range(500))
        if turn == 0:
            await eventually(lambda: room_is_empty(room))
            tls.cut()
            await eventually(lambda: connection.epoch == 2)


async def test_f70_a_certificate_that_nobody_signed_is_refused(room: Room, tls: Proxy) -> None:
    with pytest.raises(BrokerError, match=r"TLS with RabbitMQ .* failed"):
        await connect(tls.url, "test", timeout=30, transport=room.transport)


async def room_is_empty(room: Room) -> bool:
    return (await room.look("work"))[0] == 0
