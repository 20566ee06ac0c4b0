"""Waits and signals: what ends a wait, what is kept, what is refused, and what a wait costs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.unit.lifecycle.one_order import OneOrder
from triumvir.contracts.json_text import JsonText
from triumvir.lifecycle import PAUSED, Expired, OperatorAsked, Signalled, waiting_step
from triumvir.workflow import OnError, Stage, Step, Wait, Workflow

DAY = timedelta(days=1)
NO = {"approved": False}


def approval(**changes: Any) -> Wait:
    return Wait("approve", **{"signal": "approval", "within": DAY, "default": NO, **changes})


def ordered(*steps: Step | Wait, on_error: OnError = "halt", progress: bool = False) -> OneOrder:
    """An order of these steps, claimed."""
    order = OneOrder("s", on_error=on_error, progress=progress)
    order.workflow = Workflow("w", 1, steps, on_error)
    order.payload = JsonText.of({"total": 5})
    order.claim()
    return order


def step(name: str, **more: Any) -> Step:
    return Step(name, agent="a", operation=name, undo=f"undo-{name}", **more)


def signal(order: OneOrder, data: Any = None, name: str = "approval") -> None:
    order.on(Signalled(name, JsonText.of(data).text))


def test_a_wait_locks_the_order_until_its_deadline_and_asks_no_agent() -> None:
    order = ordered(approval(), step("ship"))
    assert order.state == "processing"
    assert order.entry().state == "waiting"
    assert order.record.complete_by == order.now + DAY
    assert order.record.locked_by is not None
    assert (order.record.wake_at, order.record.sent_at, order.requests) == (None, None, [])


def test_a_client_is_told_that_the_order_waits_for_what_and_until_when() -> None:
    order = ordered(approval(), step("ship"))
    assert order.statuses == ["held"]
    expected = "approve waits for signal approval until 2030-01-02 00:00:00 UTC; then its default counts"
    assert order.last.log[-1].why == expected
    assert order.last.log[-1].step_no == 1


def test_a_signal_ends_the_wait_and_its_data_is_the_result() -> None:
    order = ordered(approval(), step("ship"), progress=True)
    signal(order, {"approved": True})
    assert (order.entry().state, order.entry().result) == ("completed", '{"approved":true}')
    assert order.statuses == ["held", "signalled", "step_completed"]
    assert [send.step_no for send in order.requests] == [2]
    assert order.record.attempt == 1


def test_later_steps_look_at_the_data_of_the_signal() -> None:
    ship = step("ship", when="steps.approve.result.approved", select={"by": "steps.approve.result.by"})
    order = ordered(approval(), ship)
    signal(order, {"approved": True, "by": "ann"})
    assert order.requests[0].argument == JsonText(text='{"by":"ann"}')
    refused = ordered(approval(), ship)
    signal(refused, NO)
    assert refused.state == "processed"


def test_a_signal_before_its_step_is_kept_until_then() -> None:
    order = ordered(step("reserve"), approval(), step("ship"))
    signal(order, {"approved": True})
    assert order.statuses == ["signalled"]
    assert order.entry(2).state == "signalled"
    order.succeed()
    assert order.entry(2).state == "completed"
    assert [send.step_no for send in order.requests] == [1, 3]
    assert order.statuses == ["signalled"]


def test_a_signal_that_came_before_the_first_claim_ends_the_order_that_only_waits() -> None:
    order = OneOrder("s")
    order.workflow = Workflow("w", 1, [approval()])
    signal(order, 1)
    order.claim()
    assert (order.state, order.record.result) == ("processed", "1")


@pytest.mark.parametrize("before", ["kept", "used", "skipped"])
def test_the_first_signal_counts_and_each_further_one_is_refused_in_words(before: str) -> None:
    more = {"when": "payload.total > `7`"} if before == "skipped" else {}
    steps: list[Stage] = (
        [step("reserve"), approval(**more)] if before == "kept" else [approval(**more), step("ship")]
    )
    order = ordered(*steps)
    if before != "skipped":
        signal(order, 1)
    done = order.record
    signal(order, 2)
    assert order.statuses[-1] == "signal_refused"
    assert order.last.log[-1].why.startswith("signal approval from the client refused: approve ")
    assert order.record.steps == done.steps
    assert order.state == done.state


def test_a_signal_that_no_step_waits_for_is_refused_with_the_names_there_are() -> None:
    order = ordered(step("reserve"), approval())
    signal(order, name="aproval")
    assert order.statuses == ["signal_refused"]
    assert order.last.log[-1].why.endswith("refused: no step waits for it; the signals are approval")


@pytest.mark.parametrize("ending", ["cancelled", "processed", "compensating"])
def test_a_signal_for_an_order_that_goes_no_further_is_answered_in_words(ending: str) -> None:
    order = ordered(step("reserve"), approval(), on_error="compensate")
    if ending != "cancelled":
        order.succeed()
    if ending == "processed":
        signal(order, 1)
    else:
        order.fail() if ending == "cancelled" else order.cancel()
    signal(order, 2)
    assert order.statuses[-1] == "signal_refused"
    assert f"the order is {order.state}" in order.last.log[-1].why


def test_the_default_counts_when_the_deadline_has_passed() -> None:
    order = ordered(approval(), step("ship", when="steps.approve.result.approved"))
    order.expire(begun=False)
    assert order.state == "pending"
    assert order.entry().result == '{"approved":false}'
    assert (order.record.failure_count, order.record.unbegun_count) == (0, 0)
    order.claim()
    assert order.state == "processed"
    assert order.entry(2).state == "skipped"


@pytest.mark.parametrize(("on_error", "state"), [("halt", "error"), ("compensate", "compensating")])
def test_without_a_default_the_step_fails_for_good(on_error: OnError, state: str) -> None:
    order = ordered(step("reserve"), approval(default=None), on_error=on_error)
    order.succeed()
    order.expire(begun=False)
    assert order.state == state
    assert order.entry(2).state == "failed"
    assert order.last.log[-1].why == "approve failed: no signal approval came in time"


def test_a_signal_behind_the_deadline_is_refused_although_nobody_has_seen_to_it_yet() -> None:
    order = ordered(approval())
    order.wait(DAY.total_seconds())
    signal(order, 1)
    assert order.statuses == ["held", "signal_refused"]
    assert order.entry().state == "waiting"
    order.expire(begun=False)
    assert order.entry().result == '{"approved":false}'


def test_a_deadline_that_has_not_come_moves_nothing() -> None:
    order = ordered(approval())
    before = order.record
    order.on(Expired(begun=False))
    assert order.record == before


def test_an_operator_lets_the_order_wait_again_after_a_wait_that_failed() -> None:
    order = ordered(approval(default=None), step("ship"))
    order.expire(begun=False)
    signal(order, 1)
    assert order.statuses[-1] == "signal_refused"
    order.on(OperatorAsked("retry", "ann"))
    order.claim()
    assert order.record.complete_by == order.now + DAY
    signal(order, 2)
    assert order.entry().result == "2"


def test_a_cancel_of_an_order_that_only_waited_cancels_it_at_once() -> None:
    order = ordered(approval())
    order.cancel()
    assert order.state == "cancelled"
    assert order.entry().state == "failed"
    assert waiting_step(order.record) is None


def test_a_cancel_of_a_waiting_order_undoes_what_was_done_before() -> None:
    order = ordered(step("reserve"), approval())
    order.succeed()
    order.cancel()
    assert order.state == "compensating"
    order.claim()
    assert order.requests[-1].direction == "undo"


def test_an_order_of_which_only_a_signal_was_taken_is_cancelled_and_not_undone() -> None:
    order = ordered(approval(), step("ship"))
    signal(order)
    assert not order.entry().begun
    order.refuse("unknown_operation")
    order.cancel()
    assert order.state == "cancelled"


def test_a_cancel_that_waits_for_an_answer_comes_before_a_signal() -> None:
    order = ordered(step("reserve"), approval())
    order.cancel()
    signal(order, 1)
    assert order.statuses == ["signal_refused"]
    assert "a cancel came first" in order.last.log[-1].why


def test_a_wait_that_is_paused_stands_still_at_once_and_goes_on_with_the_time_that_was_left() -> None:
    order = ordered(approval(), step("ship"))
    order.wait(3600)
    order.on(OperatorAsked("pause", "ann"))
    assert (order.state, order.record.held_by) == ("pending", PAUSED)
    assert "takes effect" not in order.last.log[0].why
    order.wait(10 * DAY.total_seconds())
    order.on(OperatorAsked("unpause", "ann"))
    order.claim()
    assert order.record.complete_by == order.now + DAY - timedelta(hours=1)
    assert order.entry().wait_left is None


def test_a_signal_for_a_wait_that_is_paused_is_kept() -> None:
    order = ordered(approval(), step("ship"))
    order.on(OperatorAsked("pause", "ann"))
    signal(order, 1)
    assert (order.entry().state, order.record.held_by) == ("signalled", PAUSED)
    order.on(OperatorAsked("unpause", "ann"))
    order.claim()
    assert order.entry().state == "completed"
    assert order.requests[-1].step_no == 2


def test_a_signal_whose_step_is_skipped_is_not_lost_in_silence() -> None:
    order = ordered(step("reserve"), approval(when="payload.total > `7`"))
    signal(order, 1)
    order.succeed()
    assert order.state == "processed"
    assert order.statuses == ["signalled", "signal_refused", "completed"]
    assert order.record.result == "null"
