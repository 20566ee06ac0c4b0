"""A rehearsal is true: the same agents and orders, in memory and through all services, come to the same end by the
same moves, statuses and calls.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.services import lab
from tests.integration.services.workbench import Workbench, new_id
from tests.servers import ServerSet
from tests.services import FAST, started
from tests.waiting import eventually, eventually_true
from triumvir.testing import Outcome, Rehearsal

WORKFLOWS = {workflow.name: workflow for workflow in lab.WORKFLOWS}
Calls = list[tuple[str, str, int, int]]
"""Step or undo, the end of its key, attempt, call."""


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the lab's agents write down the calls of a rehearsal."""
    monkeypatch.setenv("LAB_FOLDER", str(tmp_path))
    return tmp_path


def rehearsal_of(workflow: str) -> Rehearsal:
    return Rehearsal(WORKFLOWS[workflow], agents=[lab.lab], settings=FAST)


def calls_in(folder: Path, order_id: str) -> Calls:
    return [
        (call.step, call.key.partition(order_id)[2], call.attempt, call.call)
        for call in lab.calls(folder, order_id)
    ]


async def same(bench: Workbench, order_id: str, rehearsed: Outcome, ledger: Path) -> None:
    """The order on the services is as it was rehearsed. Requests sent again depend on the load: they are left out."""
    detail = await bench.until_state(order_id, rehearsed.state, within=60)
    assert moves(detail.history) == moves(rehearsed.history)
    told = [row.status for row in detail.history if row.status is not None]
    assert told == rehearsed.told
    assert calls_in(bench.suite.folder, order_id) == calls_in(ledger, order_id)
    assert [step_of(step) for step in detail.steps] == list(map(step_of, rehearsed.steps.values()))


def step_of(step: Any) -> tuple[Any, ...]:
    return step.step_no, step.attempt, step.state, step.calls, step.effect, step.undo_state, step.undo_tries


def moves(history: Any) -> list[str]:
    return [row.why for row in history if "request sent again" not in row.why]


@pytest.mark.parametrize(
    ("workflow", "payload", "state"),
    [
        ("trio", {}, "processed"),
        ("trio", {"b": ["transient", "transient-doubt", "ok"]}, "processed"),
        ("trio", {"b": ["transient", "transient", "transient", "ok"]}, "processed"),
        ("trio", {"b": "transient-doubt"}, "compensated"),
        ("trio", {"c": "permanent"}, "compensated"),
        ("trio", {"b": "value-error"}, "compensated"),
        ("trio", {"b": "huge"}, "compensated"),
        ("trio", {"c": "permanent", "un-b": ["transient", "ok"]}, "compensated"),
        ("trio", {"c": "permanent", "un-b": "permanent"}, "compensation_failed"),
        ("solo", {"a": "permanent"}, "error"),
        ("typed", {"amount": "many"}, "error"),
        ("plain", {"plain": ["stop-iteration", "ok"]}, "processed"),
        ("choosy", {"with_b": False, "total": 12.5}, "processed"),
        ("choosy", {"with_b": False, "c": "permanent"}, "compensated"),
    ],
)
async def test_an_order_ends_on_the_services_as_it_was_rehearsed(
    bench: Workbench, ledger: Path, workflow: str, payload: dict[str, Any], state: str
) -> None:
    order_id = new_id()
    rehearsed = await rehearsal_of(workflow).run(payload, order_id=order_id)
    assert rehearsed.state == state
    await bench.submit(workflow, payload, order_id=order_id)
    await same(bench, order_id, rehearsed, ledger)


async def test_a_cancel_between_two_steps_does_what_was_rehearsed(bench: Workbench, ledger: Path) -> None:
    order_id = new_id()
    rehearsal = rehearsal_of("trio")
    rehearsal.cancel_during("b")
    lab.open_gate(ledger, order_id)
    rehearsed = await rehearsal.run({"b": "gate"}, order_id=order_id)
    order = await bench.submit("trio", {"b": "gate"}, order_id=order_id)
    await bench.until_called(order_id, "b")
    await order.cancel()
    await bench.until_cancel_is_taken(order_id)
    bench.open_gate(order_id)
    await same(bench, order_id, rehearsed, ledger)


@pytest.mark.parametrize("workflow", ["ghost", "missing", "no-undo"])
async def test_an_order_that_lacks_an_agent_an_operation_or_an_undo_is_held_as_was_rehearsed(
    bench: Workbench, ledger: Path, workflow: str
) -> None:
    order_id, payload = new_id(), {"b": "permanent"}
    rehearsed = await rehearsal_of(workflow).run(payload, order_id=order_id)
    assert rehearsed.stuck is not None
    await bench.submit(workflow, payload, order_id=order_id)

    async def held() -> bool:
        return (await bench.detail(order_id)).order.held_by is not None

    await bench.until_state(order_id, rehearsed.state)
    await eventually_true(held, what="a hold")
    await same(bench, order_id, rehearsed, ledger)


LONG_LEASE: dict[str, Any] = {**FAST, "instance_lease": 90}
"""However long the next process takes to start: the lease of the dead one outlives the attempt."""


@pytest.mark.parametrize(
    ("crash_at", "at", "seconds"),
    [
        ("agent.call.before", "before_call", 12),
        ("agent.call.after", "after_call", 12),
        ("agent.finish.after_commit", "before_reply", 80),
    ],
)
async def test_an_agent_that_dies_leads_to_what_was_rehearsed(
    server_set: ServerSet, ledger: Path, crash_at: str, at: Any, seconds: int
) -> None:
    """``seconds``: the deadline of an attempt, waited for, or longer than the next process takes to start."""
    settings = {**LONG_LEASE, "step_timeout": seconds}
    order_id, agent = new_id(), ("agent", "tests.integration.services.lab:lab")
    rehearsal = Rehearsal(WORKFLOWS["trio"], agents=[lab.lab], settings=settings)
    rehearsal.die("a", at=at)
    rehearsed = await rehearsal.run({}, order_id=order_id)
    services = (agent, ("submitter",), ("scheduler",), ("supervisor",))
    with started(
        server_set, *services, workflows=[WORKFLOWS["trio"]], **settings, crash_at=crash_at
    ) as suite:
        fragile = next(service for service in suite.running if service.name.startswith("agent"))
        async with Workbench(suite, suite.add_client("shop")) as bench:
            await bench.submit("trio", {}, order_id=order_id)
            await eventually(lambda: fragile.exit_code() is not None, what="the death of the agent")
            suite.start(*agent, **settings)
            await same(bench, order_id, rehearsed, ledger)
