"""A bulk over thousands of orders, by the command: flat memory, a stop where too much fails, and on after a kill -9.

``BULK_ORDERS=100000`` has it take so many, and ``BULK_REPORT=FILE`` write down what it measured.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.faults.cluster import Cluster
from tests.house.source import ROOT
from tests.waiting import eventually, eventually_true

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

ORDERS: Final = int(os.environ.get("BULK_ORDERS", "5000"))
FEW: Final = 50
MOVED_ON: Final = min(ORDERS // 4, 500)
"""So many, the first that are asked for, are not as they were selected."""
HIGHEST: Final = re.compile(r"VmHWM:\s+(\d+) kB")
GROWTH: Final = 48
"""MB: so much more than for a few orders the command may need, for however many."""
RESTING: Final = """
    with documents as (
        insert into order_documents (client, order_id, payload, digest)
        select $1, $2 || n, '{}', sha256(convert_to($2 || n, 'UTF8')) from generate_series(1, $3::int) n
        returning client, order_id, digest
    ), resting as (
        insert into orders (client, order_id, workflow, version, digest, state, fence, attempt, step, rank, sequence,
                            history, status_queue)
        select client, order_id, 'trade', 1, digest, 'error', 1000, 1, 1, 0, 1, 1, 'status.' || client from documents
        returning no
    )
    insert into transitions (no, n, at, who, from_state, to_state, why, status, sequence)
    select no, 1, clock_timestamp(), 'before', 'pending', 'error', 'it rests', 'received', 1 from resting
"""


@dataclass
class Command:
    """One that ended: its exit code, what it printed, the most memory it had (MB), how long it took (s)."""

    code: int
    printed: Any
    memory: float
    seconds: float


async def test_a_bulk_over_thousands_of_orders(cluster: Cluster) -> None:
    await rest(cluster, "few-", FEW)
    await cluster.start("scheduler")
    small = await select(cluster)
    few = await finish(cluster, small.printed["bulk"]["id"])
    assert few.code == 0, few.printed
    await rest(cluster, "many-", ORDERS)
    shown = await select(cluster)
    bulk = shown.printed["bulk"]["id"]
    assert shown.printed["bulk"]["orders"] == ORDERS
    assert sum(group["orders"] for group in shown.printed["groups"]) == ORDERS
    assert shown.memory < small.memory + GROWTH
    await stops_where_too_much_fails(cluster, bulk)
    await is_killed_half_way(cluster, bulk)
    last = await finish(cluster, bulk)
    assert last.printed["run"]["stopped"] is None
    assert last.memory < few.memory + GROWTH
    assert await outcomes(cluster, bulk) == {"refused": MOVED_ON, "done": ORDERS - MOVED_ON}
    assert await moved_once(cluster, bulk) == ORDERS
    await report(cluster, bulk, {"select few": small, "run few": few, "select": shown, "run the rest": last})


async def stops_where_too_much_fails(cluster: Cluster, bulk: str) -> None:
    await cluster.database.execute(
        "update bulk_orders set fence = -7 where bulk = $1 and no in"
        " (select no from bulk_orders where bulk = $1 order by no limit $2)",
        bulk,
        MOVED_ON,
    )
    stopped = await run(cluster, "run", bulk, "--yes", "--rate", "400", "--stop-at", "20")
    assert stopped.code == 1
    assert "failed, more than 20%" in json.dumps(stopped.printed)
    assert await unasked(cluster, bulk) > ORDERS // 2


async def is_killed_half_way(cluster: Cluster, bulk: str) -> None:
    """Nobody asked it to stop, and it has no time to write anything down."""
    process = begin(cluster, "run", bulk, "--yes", "--rate", "1000000", "--stop-at", "100")

    async def half() -> bool:
        return await unasked(cluster, bulk) < ORDERS // 2

    try:
        await eventually_true(half, within=1800, what="half of the bulk")
    finally:
        process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(process.communicate)
    assert process.returncode == -signal.SIGKILL
    assert await unasked(cluster, bulk) > 0, "it was killed in the middle"


async def rest(cluster: Cluster, prefix: str, count: int) -> None:
    """So many orders that rest in ``error``."""
    async with cluster.database.transaction():
        await cluster.database.execute(RESTING, cluster.client_name, prefix, count)
        await cluster.database.execute(
            "insert into admission (scope, instance, open) values ('orders', gen_random_uuid(), $1)", count
        )


async def select(cluster: Cluster) -> Command:
    """What rests, selected and shown; nothing is done."""
    return await run(cluster, "close", "--client", cluster.client_name, "--reason", "INC-1")


async def finish(cluster: Cluster, bulk: str) -> Command:
    return await run(cluster, "run", bulk, "--yes", "--rate", "1000000", "--stop-at", "100")


async def run(cluster: Cluster, *arguments: str) -> Command:
    """The command, to its end. (What ``wait4`` tells of memory has that of whoever started it in it.)"""
    began, peak = time.monotonic(), 0
    process = begin(cluster, *arguments)
    assert process.stdout is not None
    reading = asyncio.create_task(asyncio.to_thread(process.stdout.read))

    def is_over() -> bool:
        nonlocal peak
        found = HIGHEST.search(Path(f"/proc/{process.pid}/status").read_text())
        peak = max(peak, int(found[1]) if found else 0)
        return reading.done()

    await eventually(is_over, within=3000, what=f"the end of {arguments}")
    code = await asyncio.to_thread(process.wait)
    return Command(code, json.loads(await reading), peak / 1024, time.monotonic() - began)


def begin(cluster: Cluster, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "triumvir.cli", "orders", "bulk", *arguments, "--json"],
        cwd=ROOT, env={**os.environ, **cluster.env}, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
    )  # fmt: skip


async def unasked(cluster: Cluster, bulk: str) -> int:
    found: int = await cluster.database.fetchval(
        "select count(*) from bulk_orders where bulk = $1 and asked_at is null", bulk
    )
    return found


async def outcomes(cluster: Cluster, bulk: str) -> dict[str, int]:
    rows = await cluster.database.fetch(
        "select outcome, count(*) from bulk_orders where bulk = $1 group by 1", bulk
    )
    return {row["outcome"]: row["count"] for row in rows}


async def moved_once(cluster: Cluster, bulk: str) -> int:
    """How many orders were asked exactly once, by their histories."""
    found: int = await cluster.database.fetchval(
        "select count(*) from (select t.no from transitions t join bulk_orders b on b.bulk = $1 and b.no = t.no"
        " where position('(bulk ' || $1 || ')' in t.why) > 0 group by t.no having count(*) = 1) as once",
        bulk,
    )
    return found


async def report(cluster: Cluster, bulk: str, commands: dict[str, Command]) -> None:
    """Seconds and MB of each command, and the bulk's log."""
    if "BULK_REPORT" not in os.environ:
        return
    rows = await cluster.database.fetch(
        "select at, what, note from bulk_log where bulk = $1 order by n", bulk
    )
    lines = [f"{name}: {each.seconds:.1f} s, {each.memory:.0f} MB" for name, each in commands.items()]
    lines += [f"{row['at']} {row['what']} {row['note']}" for row in rows]
    await asyncio.to_thread(Path(os.environ["BULK_REPORT"]).write_text, "\n".join(lines) + "\n")
