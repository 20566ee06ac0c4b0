"""What a rehearsal shows is what the services do: each fault, with where it leads the order."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.testing.troupe import SALE, Remote, press, till_of
from triumvir import Agent, Context, Step, Workflow
from triumvir.testing import Outcome, Rehearsal


@pytest.fixture
def remote() -> Remote:
    return Remote()


@pytest.fixture
def rehearsal(remote: Remote) -> Rehearsal:
    return Rehearsal(SALE, agents=[till_of(remote)])


def run(rehearsal: Rehearsal, pence: int = 500, **payload: Any) -> Outcome:
    return rehearsal.run_blocking({"pence": pence, **payload})


async def test_without_faults_every_step_is_called_once_with_its_key(rehearsal: Rehearsal) -> None:
    outcome = await rehearsal.run({"pence": 500}, progress=True)
    assert (outcome.state, outcome.result) == ("processed", {"receipt": "ship"})
    assert outcome.told == ["received", "processing", "step_completed", "step_completed", "completed"]
    assert [call.idempotency_key for call in outcome.calls] == [
        f"rehearsal/order-1/{step}/do/0" for step in ("reserve", "charge", "ship")
    ]
    assert outcome.elapsed == timedelta(0)
    assert outcome.stuck is None


def test_ten_minutes_of_work_pass_at_once_and_count_in_virtual_time(rehearsal: Rehearsal) -> None:
    outcome = run(rehearsal, seconds=599)
    assert outcome.state == "processed"
    assert outcome.elapsed == timedelta(seconds=599)


def test_work_beyond_its_time_is_cut_off_and_tried_again_to_the_bound(
    rehearsal: Rehearsal, remote: Remote
) -> None:
    outcome = run(rehearsal, seconds=601)
    assert outcome.state == "compensated"
    assert [call.ended for call in outcome.calls_of("reserve")] == ["cut off"] * 4
    assert [call.attempt for call in outcome.calls_of("reserve")] == [1, 2, 3, 4]
    assert remote.net == {"reserve": 0}
    assert outcome.elapsed > timedelta(minutes=40)


def test_a_permanent_failure_undoes_what_was_done_in_reverse(rehearsal: Rehearsal, remote: Remote) -> None:
    rehearsal.fail("ship", permanently="no courier")
    outcome = run(rehearsal)
    assert outcome.state == "compensated"
    assert outcome.told == ["received", "compensating", "compensated"]
    assert remote.undone == ["charge", "reserve"]
    assert outcome.result is None
    assert outcome.steps["ship"].error == "no courier"


def test_a_permanent_failure_in_doubt_is_undone_as_well(rehearsal: Rehearsal, remote: Remote) -> None:
    rehearsal.fail("ship", permanently="lost", at="after_call", effect="unknown")
    run(rehearsal)
    assert remote.undone == ["ship", "charge", "reserve"]
    assert remote.net.total() == 0


def test_a_workflow_that_halts_rests_in_error_with_an_alert(remote: Remote) -> None:
    rehearsal = Rehearsal(replace_on_error("halt"), agents=[till_of(remote)])
    rehearsal.fail("charge", permanently="declined")
    outcome = run(rehearsal)
    assert (outcome.state, outcome.told) == ("error", ["received", "failed"])
    assert [alert.kind for alert in outcome.alerts] == ["order-halted"]


def replace_on_error(on_error: Any) -> Workflow:
    return Workflow("sale", 1, SALE.steps, on_error)


def test_transient_failures_are_called_again_in_the_request_and_by_the_next_attempt(
    rehearsal: Rehearsal,
) -> None:
    rehearsal.fail("charge", transiently="busy", times=4)
    outcome = run(rehearsal)
    assert outcome.state == "processed"
    assert [(call.attempt, call.call) for call in outcome.calls_of("charge")] == [
        (1, 1), (1, 2), (1, 3), (2, 1), (2, 2),
    ]  # fmt: skip
    assert [call.ran for call in outcome.calls_of("charge")] == [False] * 4 + [True]
    assert outcome.told == ["received", "retrying", "completed"]


def test_retry_after_is_waited_for(rehearsal: Rehearsal) -> None:
    rehearsal.fail("charge", transiently="busy", effect="none", retry_after=4)
    first, second = run(rehearsal).calls_of("charge")
    assert second.at - first.at == timedelta(seconds=4)


@pytest.mark.parametrize(("at", "ran"), [("before_call", [False, True]), ("after_call", [True, True])])
def test_a_call_cut_off_with_its_process_is_made_again_by_the_next_attempt(
    rehearsal: Rehearsal, remote: Remote, at: Any, ran: list[bool]
) -> None:
    rehearsal.die("charge", at=at)
    outcome = run(rehearsal)
    assert outcome.state == "processed"
    assert [call.ran for call in outcome.calls_of("charge")] == ran
    assert [call.attempt for call in outcome.calls_of("charge")] == [1, 2]
    assert {call.idempotency_key for call in outcome.calls_of("charge")} == {"rehearsal/order-1/charge/do/0"}
    assert remote.net["charge"] == 1


def test_within_the_time_of_a_step_the_lease_of_the_dead_runs_out_and_the_same_attempt_goes_on() -> None:
    settings = {"retry_interval": 16, "jitter_factor": 0}
    patient = Rehearsal(SALE, agents=[till_of(Remote())], settings=settings)
    patient.die("reserve")
    outcome = run(patient)
    assert [(call.attempt, call.at) for call in outcome.calls_of("reserve")] == [
        (1, timedelta(0)),
        (1, timedelta(seconds=16)),
    ]


def test_an_outcome_that_was_written_down_is_told_by_the_next_process_without_a_call(
    rehearsal: Rehearsal,
) -> None:
    rehearsal.die("charge", at="before_reply")
    outcome = run(rehearsal)
    assert outcome.state == "processed"
    assert len(outcome.calls_of("charge")) == 1
    assert outcome.elapsed == timedelta(0)


@pytest.mark.parametrize("what", ["request", "reply"])
def test_a_message_that_comes_twice_changes_nothing(rehearsal: Rehearsal, remote: Remote, what: Any) -> None:
    rehearsal.double("charge", what=what, times=None)
    outcome = run(rehearsal)
    assert outcome.state == "processed"
    assert len(outcome.calls) == 3
    assert outcome.unstruck == ()


@pytest.mark.parametrize(("what", "calls"), [("request", 1), ("reply", 1)])
def test_a_message_that_is_lost_is_made_good_by_sending_the_request_again(
    rehearsal: Rehearsal, what: Any, calls: int
) -> None:
    rehearsal.drop("charge", what=what)
    outcome = run(rehearsal)
    assert outcome.state == "processed"
    assert len(outcome.calls_of("charge")) == calls
    assert timedelta(seconds=2) < outcome.elapsed < timedelta(seconds=4)


def test_requests_that_never_arrive_burn_nothing_and_end_with_the_time_of_the_rehearsal(
    rehearsal: Rehearsal,
) -> None:
    rehearsal.drop("charge", what="request", times=None)
    outcome = rehearsal.run_blocking({"pence": 500}, at_most=timedelta(hours=1))
    assert outcome.stuck is not None
    assert "still" in outcome.stuck
    assert outcome.calls_of("charge") == []
    assert "never-begun" in [alert.kind for alert in outcome.alerts]


def test_a_success_that_comes_after_its_undo_is_undone_again_under_another_key(
    rehearsal: Rehearsal, remote: Remote
) -> None:
    rehearsal.pause("charge", by=300)
    rehearsal.cancel_at(5)
    outcome = run(rehearsal)
    assert outcome.state == "compensated"
    assert outcome.told[-3:] == ["compensated", "compensating", "compensated"]
    assert [call.idempotency_key[-6:] for call in outcome.calls_of("charge", "undo")] == ["undo/0", "undo/1"]
    assert "late-success" in [alert.kind for alert in outcome.alerts]
    assert outcome.elapsed == timedelta(seconds=300)


def test_an_undo_that_fails_for_good_rests_with_all_that_is_known(rehearsal: Rehearsal) -> None:
    rehearsal.fail("ship", permanently="no courier")
    rehearsal.undo_fails("charge", permanently="closed")
    outcome = run(rehearsal)
    assert outcome.state == "compensation_failed"
    assert outcome.steps["charge"].undo_error == "closed"
    assert outcome.steps["reserve"].undo_state is None
    assert [alert.kind for alert in outcome.alerts] == ["compensation-failed"]


def test_a_cancel_during_a_call_takes_effect_at_its_answer(rehearsal: Rehearsal, remote: Remote) -> None:
    rehearsal.cancel_during("charge")
    outcome = run(rehearsal)
    assert outcome.state == "compensated"
    assert remote.undone == ["charge", "reserve"]


def test_a_cancel_of_what_has_ended_is_refused(rehearsal: Rehearsal) -> None:
    rehearsal.cancel_at(timedelta(hours=1))
    assert run(rehearsal).told == ["received", "completed", "cancel_refused"]


def test_a_step_whose_condition_is_false_is_skipped_and_selections_are_handed_on() -> None:
    given: list[Any] = []
    agent = Agent("till")

    @agent.operation("note")
    async def note(ctx: Context, order: dict[str, Any]) -> None:
        given.append(order)

    steps = [
        Step("a", agent="till", operation="note", when="payload.pence > `9`"),
        Step("b", agent="till", operation="note", select={"p": "payload.pence"}),
    ]
    outcome = run(Rehearsal(Workflow("w", 1, steps), agents=[agent]), pence=5)
    assert outcome.state == "processed"
    assert outcome.steps["a"].state == "skipped"
    assert given == [{"p": 5}]


def test_an_absent_agent_holds_the_order_until_it_is_there(rehearsal: Rehearsal) -> None:
    rehearsal.absent("till", until=60.5)
    outcome = run(rehearsal)
    assert outcome.state == "processed"
    assert outcome.told == ["received", "held", "completed"]
    assert outcome.elapsed == timedelta(seconds=61)  # the supervisor looks once a second


def test_a_missing_operation_is_reported_as_what_the_order_is_stuck_at() -> None:
    agent = Agent("till")
    agent.operation("reserve")(lambda ctx, order: None)
    workflow = Workflow(
        "w", 1, [Step("a", agent="till", operation="reserve"), Step("b", agent="till", operation="charge")]
    )
    outcome = run(Rehearsal(workflow, agents=[agent]))
    assert (outcome.state, outcome.stuck) == ("pending", "held by operation:till/charge")
    assert run(Rehearsal(workflow, agents=[])).stuck == "held by agent:till"
    assert "stuck: held by operation:till/charge" in str(outcome)


def test_what_does_not_fit_the_typed_argument_fails_for_good_before_any_call(rehearsal: Rehearsal) -> None:
    outcome = rehearsal.run_blocking({"pence": "many"})
    assert outcome.state == "compensated"
    assert outcome.calls == ()
    assert "does not fit till/reserve: pence" in str(outcome)


def test_every_run_begins_anew_and_ends_the_same(rehearsal: Rehearsal, remote: Remote) -> None:
    rehearsal.fail("charge", transiently="busy", times=5)
    before = random.getstate()
    first, second = run(rehearsal), run(rehearsal)
    assert str(first) == str(second)
    assert first.calls == second.calls
    assert random.getstate() == before


async def test_rehearsals_awaited_together_do_not_touch_each_other(rehearsal: Rehearsal) -> None:
    rehearsal.fail("charge", transiently="busy", times=5)
    outcomes = await asyncio.gather(*(rehearsal.run({"pence": 500}) for _ in range(3)))
    assert len({str(outcome) for outcome in outcomes}) == 1


def test_another_seed_makes_other_delays(remote: Remote) -> None:
    elapsed = set()
    for seed in range(3):
        rehearsal = Rehearsal(SALE, agents=[till_of(remote)], seed=seed)
        rehearsal.drop("charge", what="reply")
        elapsed.add(run(rehearsal).elapsed)
    assert len(elapsed) == 3


def test_a_fault_that_never_came_to_bear_is_told(rehearsal: Rehearsal) -> None:
    rehearsal.undo_fails("charge", permanently="closed")
    outcome = run(rehearsal)
    assert outcome.unstruck == ("fail of undo of charge, before call",)
    assert "never struck" in str(outcome)


def test_the_environment_is_not_read(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIUMVIR_MAX_FAILURES", "0")
    rehearsal = Rehearsal(SALE, agents=[till_of(remote)])
    rehearsal.fail("charge", transiently="busy", times=5)
    assert run(rehearsal).state == "processed"


def test_settings_bound_the_calls(remote: Remote) -> None:
    rehearsal = Rehearsal(
        SALE, agents=[till_of(remote)], settings={"max_failures": 1, "calls_per_request": 2}
    )
    rehearsal.fail("charge", transiently="busy", times=None)
    assert len(run(rehearsal).calls_of("charge")) == 4


def test_calls_are_told_between_the_moves_that_they_led_to(rehearsal: Rehearsal) -> None:
    lines = [line[14:] for line in str(run(rehearsal, pence=5)).splitlines()]
    assert lines == [
        "[pending] received",
        "[processing] run reserve",
        "    reserve called, rehearsal/order-1/reserve/do/0: returned",
        "[processing] reserve completed",
        "[processing] run charge",
        "    charge called, rehearsal/order-1/charge/do/0: returned",
        "[processing] charge completed",
        "[processing] ship skipped: payload.pence > `100` is false",
        "[processed] every step completed or skipped",
    ]


def test_progress_is_told_in_virtual_time_once_a_second_at_most() -> None:
    book = Workflow("book", 1, [Step("print", agent="press", operation="print-pages")])
    outcome = Rehearsal(book, agents=[press()]).run_blocking({}, progress=True)
    assert (outcome.state, outcome.result) == ("processed", "printed")
    assert outcome.told == ["received", "processing", *["progressed"] * 4, "completed"]
    told = [status.detail for status in outcome.statuses if status.status == "progressed"]
    assert told == [f"print: {page} of 10" for page in (1, 3, 6, 9)]


PATIENT = {"step_timeout": 600, "retry_interval": 120, "jitter_factor": 0}


def test_the_request_of_a_scheduler_that_died_is_brought_forward_by_revival(remote: Remote) -> None:
    rehearsal = Rehearsal(SALE, agents=[till_of(remote)], settings={**PATIENT, "outbox_lease": 300})
    rehearsal.scheduler_dies("charge")
    outcome = run(rehearsal)
    assert (outcome.state, outcome.unstruck) == ("processed", ())
    assert [call.step for call in outcome.calls].count("charge") == 1
    assert [row.why for row in outcome.history if "brought forward" in row.why] == [
        "who sent the request is gone; retry 1 is brought forward"
    ]
    assert outcome.elapsed == timedelta(seconds=15 + 3)  # the lease, and the recovery delay


def test_without_revival_the_outbox_still_sends_it(remote: Remote) -> None:
    settings = {**PATIENT, "action_recovery_delay": 0}
    rehearsal = Rehearsal(SALE, agents=[till_of(remote)], settings=settings)
    rehearsal.scheduler_dies("charge")
    outcome = run(rehearsal)
    assert (outcome.state, outcome.elapsed) == ("processed", timedelta(seconds=10))
    assert not [row for row in outcome.history if "brought forward" in row.why]


def test_an_undo_whose_scheduler_died_is_revived_too(remote: Remote) -> None:
    rehearsal = Rehearsal(SALE, agents=[till_of(remote)], settings={**PATIENT, "outbox_lease": 300})
    rehearsal.fail("charge", permanently="declined")
    rehearsal.scheduler_dies("reserve", undo=True)
    outcome = run(rehearsal)
    assert (outcome.state, outcome.elapsed) == ("compensated", timedelta(seconds=18))
    assert remote.undone == ["reserve"]
