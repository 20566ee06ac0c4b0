"""F29: a transaction is left open, and every claim since leaves rows behind that Postgres must keep for it."""

from __future__ import annotations

import json
from typing import Final
from uuid import uuid4

import pytest
from opentelemetry.metrics import CallbackOptions

from tests.faults.test_f27_claims import connected, insert_orders
from triumvir.cli import database_findings
from triumvir.cli.service_findings import Needs
from triumvir.lifecycle import Claimed
from triumvir.runtime.decisions import Decider
from triumvir.runtime.definitions import Definitions
from triumvir.settings import Settings
from triumvir.store.session import Session
from triumvir.store.statements import statement
from triumvir.telemetry import metrics
from triumvir_supervisor.upkeep import Upkeep

BATCH: Final = 100
PAGES: Final = 400
"""8 KB each, that a claim of a hundred orders touches where nothing is in the way."""


async def test_f29_a_sample_of_claims_beside_an_old_transaction(
    private_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await claim_beside_a_transaction(private_settings, 4_000, monkeypatch)


@pytest.mark.slow
async def test_f29_a_hundred_thousand_claims_beside_an_old_transaction(
    private_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await claim_beside_a_transaction(private_settings, 100_000, monkeypatch)


async def claim_beside_a_transaction(settings: Settings, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it costs is bounded by the rows that died since; it is told; and it is over when the transaction is."""
    await insert_orders(settings, count + 2 * BATCH)
    forgotten = await connected(settings)
    await forgotten.execute("begin isolation level repeatable read")
    await forgotten.fetchval("select count(*) from orders")
    session = Session(settings, "claims")
    try:
        first = await pages_of_a_claim(session)
        await claim_all(session, settings, count)
        last = await pages_of_a_claim(session)
        assert first < PAGES
        assert first < last < PAGES + 3 * count, "each dead row is stepped over, and nothing else"
        monkeypatch.setattr(database_findings, "LONG_OPEN_SECONDS", 0)
        assert f"session {forgotten.get_server_pid()} " in await finding(settings)
        assert await seconds(settings) > 0
        await forgotten.execute("commit")
        monkeypatch.undo()
        assert await finding(settings) == ""
        database = await connected(settings)
        await database.execute("vacuum orders")
        await database.close()
        assert await pages_of_a_claim(session) < PAGES, "as before"
        assert await seconds(settings) == 0
    finally:
        await session.close()
        await forgotten.close()


async def claim_all(session: Session, settings: Settings, count: int) -> None:
    """So many orders, as a scheduler claims them."""
    decider = Decider("scheduler", uuid4(), settings, Definitions())
    for _ in range(count // BATCH):
        async with session.transaction() as connection:
            rows = await statement("claim_candidates").rows(connection, most=BATCH)
            assert len(rows) == BATCH
            await decider.apply(connection, {row["no"]: [Claimed()] for row in rows})


async def pages_of_a_claim(session: Session) -> int:
    """How many pages a look for a batch of claims reads."""
    explained = f"explain (analyze, buffers, format json) {statement('claim_candidates').sql}"
    async with session.transaction() as connection:
        (plan,) = json.loads(await connection.fetchval(explained, BATCH))
    return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])


async def finding(settings: Settings) -> str:
    """What `triumvir doctor` has to say of transactions."""
    found = await database_findings.look_at_databases(settings, Needs())
    (problem,) = [each.problem or "" for each in found if each.subject == "transactions"]
    return problem


async def seconds(settings: Settings) -> float:
    """The metric, after a supervisor's upkeep."""
    session = Session(settings, "upkeep")

    async def nothing() -> None:
        """There are no dead letters to watch."""

    await Upkeep(session, settings, uuid4(), nothing).step()
    await session.close()
    (observed,) = metrics.OLDEST_TRANSACTION.observe(CallbackOptions())
    return float(observed.value)
