"""A deploy as it is done: the previous release runs, the schema is migrated, the present one comes, the other goes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.integration.services.lab import BOOKINGS
from tests.integration.services.workbench import Workbench, execute
from tests.releases import LAB, TwoReleases, two_releases
from tests.servers import SCHEMA, ServerSet
from tests.waiting import eventually_true
from triumvir.local import PrivateServers
from triumvir.store.migrate import migrate
from triumvir.testing import audit, describe

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
KINDS: Final = (("agent", f"{LAB}:lab"), ("submitter",), ("scheduler",), ("supervisor",))
ENDS: Final = {"trio": "processed", "undone": "compensated", "doubtful": "compensated", "halted": "error"}
ORDERS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "trio": ("trio", {}),
    "undone": ("trio", {"c": "permanent"}),
    "doubtful": ("trio", {"b": ["transient-doubt", "permanent-doubt"], "un-b": ["transient", "ok"]}),
    "halted": ("trio-halt", {"b": "permanent"}),
}
EACH: Final = 10


@pytest.fixture
def releases(private_servers: PrivateServers) -> Iterator[TwoReleases]:
    with two_releases(ServerSet.of(private_servers)) as suite:
        yield suite


async def _submit(bench: Workbench, phase: str) -> None:
    for n in range(EACH):
        for kind, (workflow, payload) in ORDERS.items():
            await bench.submit(workflow, payload, order_id=f"{kind}.{phase}.{n}")


async def _start(suite: TwoReleases, **settings: Any) -> None:
    for kind, *arguments in KINDS:
        await asyncio.to_thread(suite.start, kind, *arguments, **settings)


@pytest.mark.parametrize("changed", [{}, {"consumer_timeout": 1}], ids=["as ever", "early acks"])
async def test_the_previous_release_and_this_one_run_side_by_side_under_load(
    releases: TwoReleases, changed: dict[str, Any]
) -> None:
    """Early acknowledged requests are this release's alone: the other one knows no such setting, and their rows."""
    await _start(releases)
    execute(releases, BOOKINGS)
    account = await asyncio.to_thread(releases.add_client, "shop")
    async with Workbench(releases, account) as bench:
        await _submit(bench, "before")
        earlier = list(releases.running)
        await migrate(releases.settings.database_url, SCHEMA)
        await _submit(bench, "migrated")
        releases.upgrade()
        await _start(releases, **changed)
        await _submit(bench, "together")
        await _until_ended(bench, 3)
        assert [service.exit_code() for service in releases.running] == [None] * len(releases.running)
        await _submit(bench, "handed-over")
        assert [await asyncio.to_thread(service.stop) for service in earlier] == [0] * len(earlier)
        await _submit(bench, "after")
        await _until_ended(bench, 5)
        await eventually_true(lambda: _is_all_sent(bench), within=60, what="nothing left to send")
        early = await bench.db.fetchval("select count(*) from inbox where early is not null")
    findings = await audit(releases.settings)
    assert not findings, describe(findings)
    assert (early > 0) == bool(changed)


async def _is_all_sent(bench: Workbench) -> bool:
    """A confirmed outbox row goes a little later than the order ends, a due reply with the lease of its sweep."""
    left = "select (select count(*) from outbox) + (select count(*) from inbox where reply_due is not null)"
    return not await bench.db.fetchval(left)


async def _until_ended(bench: Workbench, phases: int) -> None:
    wanted = dict.fromkeys(ENDS, phases * EACH)

    async def ended() -> bool:
        rows = await bench.db.fetch("select order_id, state from orders")
        kinds = [(row["order_id"].split(".")[0], row["state"]) for row in rows]
        return {kind: kinds.count((kind, state)) for kind, state in ENDS.items()} == wanted

    await eventually_true(ended, within=300, what=f"{wanted} in their ends")
