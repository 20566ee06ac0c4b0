"""The how-to pages: their blocks marked ``tried`` are typed against real servers, with the tutorial's bakery."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.reader import Reader
from tests.acceptance.terminal import Terminal, terminals
from tests.house.pages import blocks, files
from triumvir.local import PrivateServers

pytestmark = [
    pytest.mark.skipif(
        shutil.which("curl") is None, reason="the pages use curl, which is not installed here"
    ),
]
SERVICES = ("submitter", "scheduler", "supervisor", "agent cake:till cake:kitchen")
ORDER = """{"order_id": "%s", "kind": "lemon", "to": "London", "pence": 1800}"""


@pytest.fixture
def bakery(tmp_folder: Path) -> Path:
    """The tutorial's folder with its files."""
    home = tmp_folder / "bakery"
    home.mkdir()
    for name, text in files("docs/tutorial.md").items():
        (home / name).write_text(text)
    return home


@pytest.fixture
def reader(bakery: Path) -> Iterator[Reader]:
    with terminals() as opened:
        reader = Reader(bakery, opened, lenient=True)
        do(reader.terminal(), "source .venv/bin/activate", f"cd {bakery}")
        yield reader


def do(terminal: Terminal, *commands: str) -> str:
    """Type commands that must succeed; all that they answer."""
    said = ""
    for command in commands:
        answer, code = terminal.run(command)
        assert code == 0, (command, answer)
        said += answer
    return said


def follow(reader: Reader, page: str, *, of: slice = slice(None)) -> None:
    """Do the tried blocks of a page, or some of them."""
    tried = [block for block in blocks(f"docs/howto/{page}.md") if "tried" in block.info]
    assert tried[of]
    for block in tried[of]:
        reader.follow(block)


def test_commands_of_the_pages_do_what_they_say(reader: Reader) -> None:
    setting_up = [block for block in blocks("docs/tutorial.md") if "stays" in block.info]
    reader.follow(*setting_up)
    first = reader.terminal()
    do(first, "source servers/environment.sh", "triumvir run agent cake:till 2> till.log &")
    do(first, "triumvir submit orders.ndjson --workflow cake-order")
    follow(reader, "write-an-undo")
    assert "dev/1" in do(first, "triumvir watch 1 > watched; cat watched; echo dev/1")
    do(first, "triumvir run agent cake:kitchen 2> kitchen.log &")
    do(first, f"echo '{ORDER % 2}' | triumvir submit - --workflow cake-order --follow")
    follow(reader, "wait-for-approval")
    for page in ("add-a-client", "why-is-my-order-stuck", "trace-in-jaeger", "scrape-metrics"):
        follow(reader, page)
    for page in ("supervise-from-cron", "upgrade-without-stopping"):
        follow(reader, page)


def test_a_restored_database_runs_what_was_lost_again_and_does_nothing_twice(
    reader: Reader, bakery: Path
) -> None:
    with PrivateServers(bakery / "servers") as servers:
        shell = reader.terminal()
        do(shell, *(f"export {name}='{value}'" for name, value in servers.env().items()))
        do(shell, "triumvir migrate", "triumvir workflows apply cake.py")
        url = "import json, sys; print(json.load(sys.stdin)['url'])"
        do(shell, f'export TRIUMVIR_CLIENT_URL=$(triumvir clients add shop-a --json | python -c "{url}")')
        _start(shell)
        assert "1 completed" in _ordered(shell, "1")
        follow(reader, "back-up-and-restore", of=slice(0, 1))
        assert "2 completed" in _ordered(shell, "2")
        do(shell, "kill $(jobs -p)", "wait")
        follow(reader, "back-up-and-restore", of=slice(1, None))
        assert "no order" in shell.run("triumvir orders show shop-a/2")[0], "it was lost"
        _start(shell)
        assert "1 completed" in _ordered(shell, "1")
        assert "2 completed" in _ordered(shell, "2")
        do(shell, "kill $(jobs -p)", "wait")
    paid = [line.split()[0] for line in (bakery / "till.txt").read_text().splitlines()]
    assert paid == ["shop-a/1/pay/do/0", "shop-a/2/pay/do/0"]


def _start(shell: Terminal) -> None:
    do(shell, *(f"triumvir run {service} 2> {service.split()[0]}.log &" for service in SERVICES))


def _ordered(shell: Terminal, order_id: str) -> str:
    said = do(shell, f"echo '{ORDER % order_id}' | triumvir submit - --workflow cake-order --follow")
    return " ".join(said.split())
