"""The agents of docs/authoring.md against a bank that answers over a real socket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.acceptance.walkthrough import Shell, dev, write_files
from tests.house.pages import blocks


class Bank(ThreadingHTTPServer):
    """Refuses amounts above 1000; asks for patience at the first call of each key. ``keys`` by path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Teller)
        self.calls: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Teller(BaseHTTPRequestHandler):
    server: Bank

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        call = (self.path, self.headers["Idempotency-Key"])
        known = call in self.server.calls
        self.server.calls.append(call)
        self._answer(402 if body.get("pence", 0) > 1000 else 200 if known else 429)

    def _answer(self, code: int) -> None:
        self.send_response(code)
        self.send_header("Retry-After", "0.05")
        self.end_headers()
        self.wfile.write(json.dumps({"receipt": "R-1"}).encode())

    def log_message(self, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def bank() -> Iterator[Bank]:
    with Bank() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_the_agents_of_the_authoring_page_do_what_it_says(tmp_folder: Path, bank: Bank) -> None:
    page = "\n".join(block.text for block in blocks("docs/authoring.md") if "runnable" in block.info)
    trips = {
        "trips.py": page.replace("http://127.0.0.1:8080", bank.url),
        "orders.ndjson": _order("a", 900) + _order("b", 5000),
    }
    write_files(tmp_folder, trips)
    with dev(tmp_folder, "triumvir dev") as shell:
        shell.run(f"python - <<'END'\n{_TABLE}\nEND")
        assert "book-trip v1: applied" in shell.run("triumvir workflows apply trips.py")
        with shell.background("triumvir run agent trips:airline trips:bank trips:records"):
            told = shell.run("triumvir submit orders.ndjson --workflow book-trip --follow")
        _check(shell, told, bank)


def _check(shell: Shell, told: str, bank: Bank) -> None:
    assert "a  completed" in told
    assert "b  compensated" in told
    charged = [call for call in bank.calls if call[0] == "/charges"]
    assert charged.count(("/charges", "dev/a/charge/do/0")) == 2  # 429 first, then the charge, one key
    assert charged.count(("/charges", "dev/b/charge/do/0")) == 1  # refused for good: not asked again
    assert [call for call in bank.calls if call[0] == "/refunds"] == []  # a refusal has no effect
    shown = json.loads(shell.run("triumvir orders show dev/a --json"))
    assert [step["calls"] for step in shown["steps"]] == [1, 2, 1]
    assert shell.run(f"python - <<'END'\n{_NOTES}\nEND").split() == ["dev/a", "seat", "BA7-12A"]


def _order(order_id: str, pence: int) -> str:
    return json.dumps({"order_id": order_id, "passenger": "Ada", "flight": "BA7", "pence": pence}) + "\n"


_RUN = """\
import asyncio, asyncpg, os

async def main() -> None:
    connection = await asyncpg.connect(os.environ["TRIUMVIR_DATABASE_URL"])
    {work}
    await connection.close()

asyncio.run(main())
"""
_TABLE = _RUN.format(
    work="await connection.execute('create schema trips; create table trips.notes (order_key text, note text)')"
)
_NOTES = _RUN.format(
    work="[print(row['order_key'], row['note']) for row in await connection.fetch('select * from trips.notes')]"
)
