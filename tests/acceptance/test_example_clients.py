"""The example clients in other languages, written from the contract alone, against the real services."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aio_pika
import pytest

from tests.house.source import ROOT
from tests.integration.broker.proxy import BASIC_ACK, proxied
from tests.integration.services.lab import WORKFLOWS, calls, open_gate
from tests.integration.services.workbench import Workbench, new_id
from tests.servers import ServerSet
from tests.services import Account, Suite, started
from tests.waiting import eventually

EXAMPLES = ROOT / "examples" / "clients"

Command = list[str]
Make = Callable[[Path], Command]


def _run(folder: Path, *command: str) -> str:
    ran = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, f"{' '.join(command)}:\n{ran.stdout}{ran.stderr}"
    return ran.stdout


def _node(folder: Path) -> Command:
    """The example with its one package installed."""
    assert shutil.which("npm"), "npm is missing: make test installs it"
    _run(folder, "npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts")
    return ["node", str(folder / "main.mjs")]


def _go(folder: Path) -> Command:
    """The example as a program, with exactly the modules of its go.sum."""
    if not shutil.which("go"):
        pytest.skip("go is not installed: the client in Go is not tried (Go 1.20 or later is all it needs)")
    assert _run(folder, "gofmt", "-l", ".") == "", "format it: gofmt -w examples/clients/go"
    _run(folder, "go", "vet", "-mod=readonly", "./...")
    _run(folder, "go", "build", "-mod=readonly", "-o", "client", ".")
    return [str(folder / "client")]


def _made(language: str, make: Make, tmp: pytest.TempPathFactory) -> Command:
    """Away from the checkout, so that nothing of it is left behind."""
    folder = tmp.mktemp(language) / "client"
    shutil.copytree(EXAMPLES / language, folder)
    return make(folder)


@pytest.fixture(scope="module")
def node_client(tmp_path_factory: pytest.TempPathFactory) -> Command:
    return _made("node", _node, tmp_path_factory)


@pytest.fixture(scope="module")
def go_client(tmp_path_factory: pytest.TempPathFactory) -> Command:
    return _made("go", _go, tmp_path_factory)


@pytest.fixture(params=["node", "go"])
def command(request: pytest.FixtureRequest) -> Command:
    """How a client is called: one after the other."""
    made: Command = request.getfixturevalue(f"{request.param}_client")
    return made


@pytest.fixture(scope="module")
def services(server_set: ServerSet) -> Iterator[Suite]:
    with started(
        server_set,
        ("submitter",),
        ("scheduler",),
        ("supervisor",),
        ("agent", "tests.integration.services.lab:lab"),
        workflows=WORKFLOWS,
    ) as suite:
        yield suite


@pytest.fixture(scope="module")
def account(services: Suite) -> Account:
    return services.add_client("foreign")


def follow(
    command: Command,
    account: Account,
    workflow: str,
    payload: object,
    *flags: str,
    order_id: str | None = None,
) -> list[dict[str, Any]]:
    """What the client prints for one order: its statuses."""
    arguments = [account.url, workflow, order_id or new_id(), json.dumps(payload), *flags]
    ran = subprocess.run([*command, *arguments], check=False, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def told(statuses: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return [(status["sequence"], status["status"]) for status in statuses]


def test_it_submits_and_follows_an_order_to_its_result(command: Command, account: Account) -> None:
    statuses = follow(command, account, "trio", {"from": "afar"})
    assert told(statuses) == [(1, "received"), (2, "completed")]
    assert statuses[-1]["result"]["step"] == "c"


def test_it_is_told_why_it_was_refused(command: Command, account: Account) -> None:
    (status,) = follow(command, account, "no-such-workflow", {})
    assert status["status"] == "rejected"
    assert "no workflow is called 'no-such-workflow'" in status["detail"]


async def test_it_cancels_and_is_told_what_that_meant(
    command: Command, services: Suite, account: Account
) -> None:
    order_id = new_id()
    client = await _launch(command, account.url, "trio", order_id, json.dumps({"b": "gate"}), "--cancel")
    assert (await client.next())["status"] == "received"
    async with Workbench(services, account) as bench:
        await bench.until_cancel_is_taken(order_id)
    open_gate(services.folder, order_id)
    said, complaint = await asyncio.wait_for(client.process.communicate(), 60)
    assert (client.process.returncode, complaint) == (0, b"")
    assert json.loads(said.splitlines()[-1])["status"] in ("cancelled", "compensated")


def test_submitted_again_it_asks_for_what_it_missed_and_tells_each_status_once(
    command: Command, account: Account
) -> None:
    order_id = new_id()
    first = follow(command, account, "trio", {}, order_id=order_id)
    again = follow(command, account, "trio", {}, order_id=order_id)  # is answered with the last status only
    assert told(again) == told(first) == [(1, "received"), (2, "completed")]


class Running:
    """A client beside the test."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def next(self) -> dict[str, Any]:
        """The next status it prints."""
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), 60)
        assert line, f"it ended before that: {(await self.process.communicate())[1].decode()}"
        status: dict[str, Any] = json.loads(line)
        return status


async def _launch(command: Command, *arguments: str) -> Running:
    pipe = asyncio.subprocess.PIPE
    return Running(await asyncio.create_subprocess_exec(*command, *arguments, stdout=pipe, stderr=pipe))


async def test_the_one_in_go_reconnects_and_tells_what_happened_meanwhile_once(
    go_client: Command, services: Suite, account: Account
) -> None:
    order_id = new_id()
    async with proxied(account.url) as proxy:
        client = await _launch(go_client, proxy.url, "trio", order_id, json.dumps({"b": "gate"}))
        assert (await client.next())["status"] == "received"
        proxy.cut()
        open_gate(services.folder, order_id)
        assert (await client.next())["status"] == "completed"
        assert await asyncio.wait_for(client.process.communicate(), 60) == (b"", b"")
        assert client.process.returncode == 0


async def test_the_one_in_go_sends_a_submission_again_whose_confirm_was_lost_and_makes_one_order(
    go_client: Command, services: Suite, account: Account
) -> None:
    order_id = new_id()
    async with proxied(account.url) as proxy:
        proxy.swallow(BASIC_ACK)
        client = await _launch(go_client, proxy.url, "trio", order_id)
        await eventually(lambda: proxy.swallowed == 1, what="a confirm that was kept back")
        proxy.swallow(None)
        proxy.cut()
        statuses = [await client.next(), await client.next()]
        assert told(statuses) == [(1, "received"), (2, "completed")]
        assert await asyncio.wait_for(client.process.communicate(), 60) == (b"", b"")
    assert [call.step for call in calls(services.folder, order_id)] == ["a", "b", "c"]


async def test_the_one_in_go_tells_doubled_statuses_once_and_late_ones_in_order(
    go_client: Command, services: Suite, account: Account
) -> None:
    order_id = new_id()
    client = await _launch(go_client, account.url, "trio", order_id, json.dumps({"b": "gate"}))
    received = await client.next()
    async with await aio_pika.connect(services.settings.broker_url) as connection:
        channel = await connection.channel()
        exchange = await channel.get_exchange("triumvir", ensure=False)

        async def tell(sequence: int, status: str) -> None:
            body = json.dumps({**received, "sequence": sequence, "status": status})
            await exchange.publish(aio_pika.Message(body.encode()), f"status.{account.name}")

        for sequence, status in ((3, "cancel_refused"), (1, "received"), (3, "cancel_refused"), (2, "held")):
            await tell(sequence, status)
        assert told([await client.next(), await client.next()]) == [(2, "held"), (3, "cancel_refused")]
        await tell(4, "closed")
        assert told([await client.next()]) == [(4, "closed")]
    assert await asyncio.wait_for(client.process.communicate(), 60) == (b"", b"")
    open_gate(services.folder, order_id)


async def test_the_one_in_go_says_when_the_broker_refuses_it(go_client: Command, account: Account) -> None:
    wrong = account.url.replace(f"{account.name}:", f"{account.name}:not-")
    client = await _launch(go_client, wrong, "trio", new_id())
    said, complaint = await asyncio.wait_for(client.process.communicate(), 60)
    assert (client.process.returncode, said) == (1, b"")
    assert b"username or password not allowed" in complaint
