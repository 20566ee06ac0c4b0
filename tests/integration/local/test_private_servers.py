"""Private servers: beside each other, killed, restarted, taken over."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import aio_pika
import asyncpg
import pytest

from tests.waiting import eventually, eventually_blocking
from triumvir.errors import ConfigurationError
from triumvir.local import (
    PrivateBroker,
    PrivateDatabase,
    PrivateServers,
    folders,
    leftovers,
    ports,
    processes,
)


async def test_two_sets_run_beside_each_other(private_servers: PrivateServers) -> None:
    async with PrivateServers() as other:
        await _publish(private_servers.broker, b"ours")
        await _publish(other.broker, b"theirs")
        assert await _take(private_servers.broker) == b"ours"
        assert await _take(other.broker) == b"theirs"
        assert await _value(private_servers.database, "show port") != await _value(
            other.database, "show port"
        )
        folder = other.folder
    assert not folder.exists()


async def test_a_durable_message_survives_kill_9(private_servers: PrivateServers) -> None:
    broker = private_servers.broker
    url, pid = broker.url, broker.pid
    await _publish(broker, b"kept")
    # RabbitMQ 3.10 writes a new queue's own record to disk some time after it confirms messages in it.
    await asyncio.to_thread(broker.ctl, "eval", "mnesia:dump_log(), [dets:sync(T) || T <- dets:all()].")
    await asyncio.to_thread(broker.kill)
    assert not broker.is_running()
    await asyncio.to_thread(broker.start)
    assert broker.url == url
    assert broker.pid != pid
    assert await _take(broker) == b"kept"


async def test_a_broker_killed_from_outside_is_seen_dead_and_starts_again(
    private_servers: PrivateServers,
) -> None:
    broker = private_servers.broker
    os.kill(broker.pid, signal.SIGKILL)
    await eventually(lambda: not broker.is_running())
    await asyncio.to_thread(broker.start)
    assert "triumvir" in await asyncio.to_thread(broker.ctl, "list_users")


async def test_committed_rows_survive_an_immediate_stop_and_others_do_not(
    private_servers: PrivateServers,
) -> None:
    database = private_servers.database
    connection = await asyncpg.connect(database.url)
    await connection.execute("create table marks (mark text)")
    await connection.execute("insert into marks values ('committed')")
    open_transaction = connection.transaction()
    await open_transaction.start()
    await connection.execute("insert into marks values ('open')")
    await asyncio.to_thread(database.stop, "immediate")
    await asyncio.to_thread(database.start)
    connection.terminate()
    assert await _value(database, "select string_agg(mark, ',') from marks") == "committed"
    assert await _value(database, "show fsync") == "on"


def test_a_database_folder_is_used_again_with_its_data_and_port(tmp_folder: Path) -> None:
    with PrivateDatabase(tmp_folder) as first:
        first.create_database("kept")
        url = first.url
    with PrivateDatabase(tmp_folder) as second:
        assert second.url == url
        assert second.create_database("kept") == second.url_of("kept")


def test_what_a_crashed_owner_left_running_is_ended(tmp_folder: Path) -> None:
    _, left = _crash(f"PrivateDatabase(Path({str(tmp_folder)!r}))")
    with PrivateDatabase(tmp_folder) as database:
        assert database.pid != left.pid
        eventually_blocking(lambda: not processes.is_alive(left))


def test_a_temporary_folder_whose_maker_was_killed_is_swept_with_its_server(
    tmp_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_folder))  # tests beside this one sweep, too
    monkeypatch.setattr(tempfile, "tempdir", None)
    made, left = _crash("PrivateDatabase()")
    assert made.exists()
    assert made in leftovers.sweep()
    assert not made.exists()
    assert not processes.is_alive(left)


def test_a_folder_in_use_is_refused(tmp_folder: Path) -> None:
    with PrivateDatabase(tmp_folder) as database:
        script = _SCRIPT.format(database=f"PrivateDatabase(Path({str(tmp_folder)!r}))", then="")
        refused = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert f"in use by process {os.getpid()}" in refused.stderr
        assert database.is_running()


def test_a_server_that_cannot_start_says_what_its_log_says(tmp_folder: Path) -> None:
    database = PrivateDatabase(tmp_folder, settings={"shared_buffers": "nonsense"})
    with pytest.raises(ConfigurationError, match='invalid value for parameter "shared_buffers"'):
        database.start()


def test_only_loopback_is_listened_on(private_servers: PrivateServers) -> None:
    own = {f"{_port(private_servers, name):04X}" for name in ("amqp", "management", "distribution", "epmd")}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = {row[1] for row in rows if row[3] == "0A" and row[1].split(":")[1] in own}
    assert {address.split(":")[0] for address in listening} == {"0100007F"}
    assert len(listening) == len(own)


def _port(servers: PrivateServers, name: str) -> int:
    state = folders.StateFile(servers.broker.folder / "state.json").read()
    assert not ports.is_free(state[name])
    return int(state[name])


_SCRIPT = """
import os
from pathlib import Path
from triumvir.local import PrivateDatabase
database = {database}
database.start()
print(database.folder, database.pid, flush=True)
{then}
"""


def _crash(database: str) -> tuple[Path, processes.ProcessIdentity]:
    """Start a database in a process that kills itself; its folder and the server left running."""
    script = _SCRIPT.format(database=database, then="os.kill(os.getpid(), 9)")
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    folder, pid = ended.stdout.split()
    left = processes.identify(int(pid))
    assert left is not None
    return Path(folder), left


async def _publish(broker: PrivateBroker, body: bytes) -> None:
    async def publish(channel: aio_pika.abc.AbstractChannel) -> None:
        queue = await channel.declare_queue("kept", durable=True)
        message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(message, queue.name, mandatory=True)

    await _with_channel(broker, publish)


async def _take(broker: PrivateBroker) -> bytes:
    found: list[bytes] = []

    async def take(channel: aio_pika.abc.AbstractChannel) -> None:
        message = await (await channel.declare_queue("kept", durable=True)).get(no_ack=True)
        found.append(message.body)

    await _with_channel(broker, take)
    return found[0]


async def _with_channel(
    broker: PrivateBroker, work: Callable[[aio_pika.abc.AbstractChannel], Awaitable[None]]
) -> None:
    connection = await aio_pika.connect(broker.url, timeout=10)
    async with connection:
        await work(await connection.channel(on_return_raises=True))


async def _value(database: PrivateDatabase, query: str) -> object:
    connection = await asyncpg.connect(database.url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()
