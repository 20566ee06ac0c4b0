"""Policies on real servers: the file binds what it names, and what it gets wrong stops a service from starting."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.integration.services.lab import WORKFLOWS
from tests.integration.services.workbench import Workbench
from tests.servers import ServerSet
from tests.services import Suite, started
from tests.waiting import eventually_blocking

POLICIES = """
["solo.a.a"]
timeout-duration = "3s"
initial-retry-interval = "900ms"
max-retries = 2
jitter-factor = 0
["table.a.a"]
timeout-duration = "10s"
initial-retry-interval = "3s"
max-retries = 2
jitter-factor = 0
["trio.Any.Any"]
max-retries = 0
timeout-duration = "2500ms"
max-failures = 0
["hasty.a.a"]
max-retries = 0
max-failures = 0
cool-offs = ["400ms", "900ms"]
jitter-factor = 0
"""


@pytest.fixture(scope="module")
def suite(server_set: ServerSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    path = tmp_path_factory.mktemp("policies") / "policies.toml"
    path.write_text(POLICIES)
    with started(
        server_set,
        ("submitter",),
        ("scheduler",),
        ("supervisor",),
        ("agent", "tests.integration.services.lab:lab"),
        workflows=WORKFLOWS,
        policy_file=path,
    ) as suite:
        yield suite


@pytest.fixture
async def bench(suite: Suite) -> AsyncIterator[Workbench]:
    async with Workbench(suite, suite.add_client("policies")) as bench:
        yield bench


@pytest.mark.parametrize(
    ("workflow", "scale", "behaviour"),
    [("solo", 0.3, "hang"), ("solo", 0.3, "report-and-hang"), ("table", 1.0, "hang")],
)
async def test_the_reference_table_of_retries_holds_before_a_real_broker(
    workflow: str, scale: float, behaviour: str, bench: Workbench
) -> None:
    """Sent at 0, again at 3 and 6, given up at 10 s: at three tenths of these times, and at these; also if it says
    that it works.
    """
    retries, timeout = [scale * timedelta(seconds=due) for due in (3, 6)], scale * timedelta(seconds=10)
    requests = await bench.requests("lab")
    order = await bench.submit(workflow, {"a": [behaviour, "ok"]})
    detail = await bench.until_state(order.order_id, "processed", within=90)
    assert ("a: half of it" in [row.why for row in detail.history]) == (behaviour != "hang")
    sent = await requests.of(order.order_id, attempt=2)
    assert [(each["attempt"], each["retry"]) for each in sent] == [(1, 0), (1, 1), (1, 2), (2, 0)]
    after = [timeout - timedelta(milliseconds=each["time_left_ms"]) for each in sent[:3]]
    assert after[0] == timedelta(0)
    assert [due <= at < timeout for due, at in zip(retries, after[1:], strict=True)] == [True] * 2
    first = next(row.at for row in detail.history if row.why == "run a")
    failed = next(row.at for row in detail.history if "attempt failed" in row.why)
    assert failed - first >= timeout
    assert [call.attempt for call in bench.calls(order.order_id)] == [1, 2]


async def test_a_step_cools_off_as_often_as_its_policy_says_before_it_is_given_up(bench: Workbench) -> None:
    order = await bench.submit("hasty", {"a": "hang"})
    detail = await bench.until_state(order.order_id, "error", within=60)
    tried = [row.at for row in detail.history if row.why == "run a"]
    failed = [row.at for row in detail.history if "it is tried again" in row.why]
    waits = [later - before for before, later in zip(failed, tried[1:], strict=True)]
    assert [wait >= timedelta(milliseconds=ms) for wait, ms in zip(waits, (400, 900), strict=True)] == [
        True
    ] * 2
    assert detail.history[-1].why.startswith("a failed 3 times")
    assert [call.attempt for call in bench.calls(order.order_id)] == [1, 2, 3]


async def test_a_flow_whose_retries_and_failures_are_off_is_undone_at_its_first_timeout(
    bench: Workbench,
) -> None:
    order = await bench.submit("trio", {"b": "hang"})
    detail = await bench.until_state(order.order_id, "compensated", within=60)
    assert not [row.why for row in detail.history if "again" in row.why]
    assert [call.step for call in bench.calls(order.order_id)] == ["a", "b", "un-b", "un-a"]


def test_a_service_does_not_start_with_a_faulty_policy_file(suite: Suite, tmp_path: Path) -> None:
    path = tmp_path / "faulty.toml"
    path.write_text('["Any.Any.Any"]\nmax-retries = "many"\n')
    scheduler = suite.launch("scheduler", policy_file=path)
    eventually_blocking(lambda: scheduler.exit_code() == 2, what="the scheduler to refuse its settings")
    said = scheduler.log.read_text()
    assert f"{path}:2: " in said
    assert "is 'many'; give a whole number from 0 to 100" in said
    assert "Traceback" not in said
