"""Orders that the previous release left in every state: its rows are migrated, and this release finishes them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Final

import pytest

from tests.integration.services.workbench import Workbench, execute
from tests.previous import CLIENT, load_rows, migrate_as_before
from tests.servers import SCHEMA, ServerSet, blocking
from tests.services import Account, Suite
from tests.waiting import eventually_true
from triumvir.local import leftovers
from triumvir.store.migrate import migrate
from triumvir.testing import audit, describe

_HANGS_NO_MORE: Final = "update order_documents set payload = replace(payload, '\"hang\"', '\"ok\"')"
"""Calls hung so that the previous release could be killed in the middle of them."""

ENDS: Final = {
    "processed": "processed", "skipped": "processed", "compensated": "compensated", "cancelled": "cancelled",
    "closed": "closed", "error": "error", "error-in-doubt": "error", "compensation-failed": "compensation_failed",
    "held": "pending", "undo-held": "compensating",
    "pending": "processed", "not-yet": "processed", "pending-cancelled": "cancelled",
    "processing": "processed", "compensating": "compensated", "cancel-asked": "compensated",
}  # fmt: skip
"""Where each of the orders comes to; those that are held wait for operations that nobody offers."""


@pytest.fixture
def inherited(server_set: ServerSet) -> Iterator[tuple[Suite, Account]]:
    """This release on the migrated rows of the previous one, with the kept client under a name of its own."""
    folder = leftovers.make_temporary()
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        url = stack.enter_context(server_set.database(migrated=False))
        suite = Suite(server_set, stack.enter_context(server_set.vhost()), url, folder)
        stack.callback(suite.close)
        account = suite.add_client(CLIENT)
        blocking(lambda: migrate_as_before(url))
        blocking(lambda: load_rows(url, account.name))
        blocking(lambda: migrate(url, SCHEMA))
        execute(suite, _HANGS_NO_MORE)
        suite.start("agent", "tests.integration.services.lab:lab")
        for kind in ("submitter", "scheduler", "supervisor"):
            suite.launch(kind)
        for service in suite.running:
            service.wait_until_ready()
        yield suite, account


async def test_orders_of_the_previous_release_come_to_their_ends(inherited: tuple[Suite, Account]) -> None:
    suite, account = inherited
    async with Workbench(suite, account) as bench:
        await _until(bench, ENDS)
        client = await bench.client()
        for order_id in ("held", "error"):
            await client.order(order_id).cancel("not needed any more")
        await _until(bench, {**ENDS, "held": "cancelled", "error": "compensated"})
        numbers = [status.sequence async for status in client.order("processing").statuses()]
        assert numbers == list(range(1, len(numbers) + 1)), "what it was told before counts on"
        await eventually_true(partial(_is_all_told, bench), within=60, what="an empty outbox")
    findings = await audit(suite.settings, expected_dead=None)
    assert [finding.order for finding in findings] == [f"{account.name}/undo-held"], describe(findings)


async def _is_all_told(bench: Workbench) -> bool:
    """Rows whose messages are confirmed go with the next commit, or a quarter of a second later."""
    return bool(await bench.db.fetchval("select count(*) = 0 from outbox"))


async def _until(bench: Workbench, ends: Mapping[str, str]) -> None:
    async def reached() -> bool:
        rows = await bench.db.fetch("select order_id, state from orders")
        return {row["order_id"]: row["state"] for row in rows} == ends

    await eventually_true(reached, within=120, what=f"all orders in {ends}")
