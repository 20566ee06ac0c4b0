"""Time-outs that lead to another step, and steps that run once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.unit.lifecycle.one_order import OneOrder
from triumvir.lifecycle import Expired, OperatorAsked, Policy, PolicyLine, Revived
from triumvir.workflow import OnError, Step, Workflow


def order_of(*steps: Step, on_error: OnError = "halt", policy: Policy | None = None) -> OneOrder:
    order = OneOrder("s", policy=policy)
    order.workflow = Workflow("w", 1, steps, on_error)
    order.claim()
    return order


def step(name: str, **members: Any) -> Step:
    return Step(name, agent="a", operation=name, undo=f"undo-{name}", **members)


def alternative(on_error: OnError = "halt", **members: Any) -> OneOrder:
    """Charge, or invoice if that times out; then ship."""
    charge = step("charge", on_timeout="invoice", **members)
    return order_of(charge, step("invoice", main_line=False), step("ship"), on_error=on_error)


def test_without_a_time_out_the_alternative_is_never_run() -> None:
    order = alternative()
    order.succeed()
    assert (order.record.step, order.record.step_record(2)) == (3, None)
    order.succeed("shipped")
    assert (order.state, order.record.result) == ("processed", '"shipped"')


def test_a_time_out_leads_to_the_alternative_and_the_main_line_goes_on_behind_it() -> None:
    order = alternative()
    first_fence, first_deadline = order.record.fence, order.record.complete_by
    order.expire()
    assert (order.state, order.record.failure_count, order.record.locked_by) == ("pending", 0, None)
    assert (order.entry(1).state, order.entry(1).effect, order.entry(1).led_to) == ("failed", "unknown", 2)
    order.claim()
    assert order.record.step == 2
    assert order.record.fence > first_fence
    assert order.record.complete_by != first_deadline
    assert order.record.retries == 0
    order.succeed("by invoice")
    assert order.record.step == 3
    order.succeed("shipped")
    assert (order.state, order.last.log[-1].why) == (
        "processed",
        "every step completed or skipped, but for what timed out: charge",
    )


def test_a_later_step_of_the_main_line_may_be_the_target_and_what_lies_between_is_passed_over() -> None:
    order = order_of(step("a", on_timeout="c"), step("b"), step("c"), step("d"))
    order.expire()
    order.claim()
    assert (order.record.step, order.record.step_record(2)) == (3, None)
    order.succeed()
    assert order.record.step == 4


def test_the_scheduler_s_timer_leads_on_at_the_deadline_without_waiting_for_the_supervisor() -> None:
    order = alternative()
    order.wait(3)
    order.retry_due()
    order.wait(3)
    order.retry_due()
    assert order.record.wake_at == order.record.complete_by
    order.wait(4)
    order.retry_due()
    assert (order.state, order.entry(1).led_to, order.record.wake_at) == ("pending", 2, None)
    assert order.entry(1).calls == 3  # all that its request was allowed
    assert not order.expire().changed  # the supervisor comes second
    assert not order.retry_due().changed


def test_a_revival_brings_a_retry_forward_but_never_the_deadline_that_leads_on() -> None:
    order = alternative()
    order.on(Revived())
    assert not order.last.changed, "the retry is due as soon as the delay has it"
    order.wait(3)
    order.retry_due()
    order.wait(3)
    order.retry_due()
    assert order.record.wake_at == order.record.complete_by
    assert not order.on(Revived()).changed
    order.wait(4)
    order.retry_due()
    assert (order.entry(1).led_to, len(order.requests)) == (2, 3)


def test_without_a_target_no_timer_is_set_for_the_deadline() -> None:
    order = order_of(step("a"))
    order.wait(3)
    order.retry_due()
    order.wait(3)
    order.retry_due()
    assert order.record.wake_at is None


def test_an_answered_failure_is_no_time_out() -> None:
    order = alternative()
    order.fail("transient")
    order.expire()
    assert (order.state, order.record.failure_count, order.entry(1).led_to) == ("pending", 1, None)
    order.wait(60)
    order.claim()
    assert order.record.step == 1


def test_failures_counted_before_stay_as_they_are() -> None:
    order = alternative()
    order.fail("transient")
    order.expire()
    order.wait(60)
    order.claim()
    order.expire()
    assert (order.entry(1).led_to, order.record.failure_count) == (2, 1)


def test_a_cancel_that_waits_for_the_deadline_comes_before_the_other_step() -> None:
    order = alternative()
    order.cancel()
    order.expire()
    assert (order.state, order.entry(1).led_to) == ("compensating", None)


def test_what_timed_out_is_undone_with_the_rest_and_last() -> None:
    order = alternative(on_error="compensate")
    order.expire()
    order.claim()
    order.succeed()
    order.fail("permanent")
    assert order.state == "compensating"
    order.claim()
    undone = []
    while order.state == "compensating":
        undone.append(order.record.step)
        order.succeed()
    assert undone == [2, 1]
    assert order.state == "compensated"


def test_a_late_success_of_what_timed_out_is_kept_and_told_and_changes_no_course() -> None:
    order = alternative()
    late = order.success({"paid": True})
    order.expire()
    order.claim()
    order.reply(late)
    assert (order.state, order.record.step, order.alerts) == ("processing", 2, ["late-success"])
    assert (order.entry(1).effect, order.entry(1).result) == ("certain", '{"paid":true}')
    order.succeed("by invoice")
    order.succeed("shipped")
    assert (order.state, order.record.result) == ("processed", '"shipped"')


def test_a_late_success_that_comes_before_the_timer_that_leads_on_is_told_as_well() -> None:
    order = alternative()
    late = order.success({"paid": True})
    order.wait(10)
    order.reply(late)
    assert (order.state, order.entry(1).effect, order.alerts) == ("processing", "certain", [])
    order.retry_due()
    assert (order.state, order.entry(1).led_to, order.alerts) == ("pending", 2, ["late-success"])


def test_a_late_success_after_the_end_raises_an_alert_and_moves_nothing() -> None:
    order = alternative()
    late = order.success()
    order.expire()
    order.claim()
    order.succeed()
    order.succeed()
    order.reply(late)
    assert (order.state, order.alerts) == ("processed", ["late-success"])


def test_the_policy_file_may_lead_elsewhere_or_nowhere() -> None:
    def led_to(value: str) -> int | None:
        line = PolicyLine(("w", "charge", "Any"), "on-timeout", value, "policies.toml:2")
        order = order_of(
            step("charge", on_timeout="invoice"),
            step("invoice", main_line=False),
            step("ship"),
            policy=Policy(lines=(line,), jitter_factor=0),
        )
        order.expire()
        return order.entry(1).led_to

    assert [led_to(value) for value in ("ship", "", "nobody", "charge")] == [3, None, None, None]


def test_what_was_left_behind_is_not_an_operator_s_to_skip() -> None:
    order = alternative()
    order.expire()
    order.break_()
    order.on(OperatorAsked("skip", "an operator", result="1"))
    assert order.last.log[-1].why == "skip by an operator refused: no step of it has failed; retry it"
    order.retry()
    order.claim()
    assert order.record.step == 2


def test_a_target_that_is_reached_and_held_is_still_the_next_one() -> None:
    order = alternative()
    order.expire()
    order.holds["invoice"] = "operation:a/invoice"
    order.claim()
    assert (order.state, order.record.held_by) == ("pending", "operation:a/invoice")
    order.holds.clear()
    order.release()
    order.claim()
    assert order.record.step == 2


# Steps that run once


def once(on_error: OnError = "halt", **members: Any) -> OneOrder:
    return order_of(step("charge", recoverable=False, **members), step("ship"), on_error=on_error)


def test_a_step_that_runs_once_is_not_sent_again() -> None:
    order = once()
    assert order.record.wake_at is None
    order.wait(6)
    assert not order.retry_due().changed


def test_when_it_is_not_answered_its_agents_are_asked_and_it_is_not_tried_again() -> None:
    order = once()
    order.expire()
    assert (order.state, order.record.failure_count, order.entry().asking) == ("pending", 0, True)
    order.claim()
    assert (order.state, order.last.log[-1].why) == ("processing", "ask what came of charge")
    assert order.record.wake_at is not None  # asking may be repeated
    order.succeed("paid")
    assert (order.entry().state, order.entry().asking, order.record.step) == ("completed", False, 2)


@pytest.mark.parametrize(("on_error", "state"), [("halt", "error"), ("compensate", "compensating")])
def test_what_nobody_knows_goes_to_on_error_in_doubt(on_error: OnError, state: str) -> None:
    order = once(on_error)
    order.expire()
    order.claim()
    order.fail("permanent", "unknown")
    assert (order.state, order.entry().effect, order.entry().asking) == (state, "unknown", False)
    assert len(order.requests) == 2


def test_a_question_without_an_answer_goes_to_on_error_in_doubt() -> None:
    order = once()
    order.expire()
    order.claim()
    order.expire(begun=False, calls=0)
    assert (order.state, order.entry().effect, order.entry().asking) == ("error", "unknown", False)
    assert order.last.log[-1].why == "charge: nobody said what came of it: no answer before the deadline"


def test_an_answered_failure_of_a_step_that_runs_once_is_its_last() -> None:
    order = once()
    order.fail("transient", "none")
    order.expire()
    assert (order.state, order.entry().effect) == ("error", "none")
    assert order.last.log[-1].why == "charge failed, and runs once only: no luck"


def test_what_no_agent_began_has_not_run_and_is_sent_again() -> None:
    order = once()
    order.expire(begun=False, calls=0)
    order.claim()
    assert (order.state, order.entry().asking, order.last.log[-1].why) == ("processing", False, "run charge")


def test_an_operator_may_have_it_run_once_more() -> None:
    order = once()
    order.expire()
    order.claim()
    order.expire(begun=False)
    order.retry()
    order.claim()
    assert (order.last.log[-1].why, order.entry().asking) == ("run charge", False)


def test_a_cancel_is_not_kept_waiting_for_a_question() -> None:
    order = once()
    order.expire()
    order.cancel()
    assert order.state == "compensating"


def test_an_answer_that_is_recorded_is_asked_for_before_a_step_is_given_up() -> None:
    order = order_of(step("charge"), policy=Policy(max_failures=0, jitter_factor=0))
    assert order.record.complete_by is not None
    order.now = order.record.complete_by
    order.on(Expired(begun=True, calls=1, recorded=True))
    assert (order.state, order.entry().asking) == ("pending", True)
    order.claim()
    order.succeed()
    assert order.state == "processed"


def test_an_undo_of_a_step_that_runs_once_is_tried_as_often_as_any() -> None:
    order = once("compensate")
    order.fail("permanent", "unknown")
    order.claim()
    assert order.record.wake_at == order.now + timedelta(seconds=3)
    order.expire()
    assert order.state == "compensating"
