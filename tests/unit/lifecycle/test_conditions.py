"""Conditions and selections: decided from the order's data when a step is about to run, and the same every time."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.lifecycle.one_order import OneOrder
from triumvir.contracts.json_text import JsonText
from triumvir.lifecycle import Decision, Policy, SendRequest, StepRecord, argument
from triumvir.workflow import OnError, Step, Workflow

PAYLOAD = {"yes": True, "no": False, "total": 7, "items": [{"sku": "a"}, {"sku": "b"}], "text": "x" * 50}


def step(name: str, *, when: str | None = None, select: Any = None) -> Step:
    return Step(name, agent="a", operation=name, undo=f"undo-{name}", when=when, select=select)


def order_of(
    *steps: Step, on_error: OnError = "halt", payload: Any = PAYLOAD, policy: Policy | None = None
) -> OneOrder:
    order = OneOrder("any", policy=policy)
    order.workflow = Workflow("w", 1, steps, on_error)
    order.payload = JsonText.of(payload)
    return order


def sent(decision: Decision) -> list[tuple[int, str | None]]:
    """Steps that requests were sent for, with what they select."""
    requests = [send for send in decision.sends if isinstance(send, SendRequest)]
    return [(send.step_no, send.argument.text if send.argument else None) for send in requests]


def states(order: OneOrder) -> list[str]:
    return [step.state for step in order.record.steps]


def test_a_step_whose_condition_is_true_runs() -> None:
    order = order_of(step("one", when="payload.yes"))
    assert sent(order.claim()) == [(1, None)]
    assert order.state == "processing"


def test_a_first_step_whose_condition_is_false_is_skipped_in_the_same_decision() -> None:
    order = order_of(step("one", when="payload.total > `10`"), step("two"))
    decision = order.claim()
    assert sent(decision) == [(2, None)]
    assert [row.why for row in decision.log] == ["one skipped: payload.total > `10` is false", "run two"]
    assert (decision.log[0].step_no, decision.log[0].before, decision.log[0].after) == (
        1,
        "pending",
        "pending",
    )
    assert order.entry(1) == StepRecord(1, 0, state="skipped")


def test_an_order_whose_last_step_is_skipped_is_processed_with_the_result_before_it() -> None:
    order = order_of(step("one"), step("two", when="steps.one.result.more"))
    order.claim()
    order.succeed({"more": False})
    assert (order.state, states(order), order.statuses) == (
        "processed",
        ["completed", "skipped"],
        ["completed"],
    )
    assert order.record.result == '{"more":false}'


def test_an_order_of_which_every_step_is_skipped_is_processed_without_an_attempt() -> None:
    order = order_of(step("one", when="payload.no"), step("two", when="!(payload.yes)"))
    decision = order.claim()
    assert (order.state, order.record.attempt, order.record.result) == ("processed", 0, None)
    assert sent(decision) == []
    assert order.statuses == ["completed"]


def test_a_skipped_step_is_seen_as_skipped_by_the_steps_after_it() -> None:
    order = order_of(
        step("one", when="payload.no"),
        step("two", when="steps.one.state == 'skipped' && steps.one.result == `null`"),
        step("three", when="steps.one.state != 'skipped'"),
    )
    order.claim()
    assert states(order) == ["skipped", "running"]
    order.succeed()
    assert (order.state, states(order)) == ("processed", ["skipped", "completed", "skipped"])


def test_a_skipped_step_is_not_undone() -> None:
    order = order_of(step("one"), step("two", when="payload.no"), step("three"), on_error="compensate")
    order.claim()
    order.succeed()
    order.fail()
    order.claim()
    assert (order.state, order.record.step) == ("compensating", 1)
    order.succeed()
    assert (order.state, order.entry(2).undo_state) == ("compensated", None)


def test_a_skipped_step_does_not_need_its_agent() -> None:
    order = order_of(step("one", when="payload.no"), step("two"))
    order.holds = {"one": "operation:a/one", "two": "operation:a/two"}
    order.claim()
    assert (order.state, order.record.held_by, states(order)) == ("pending", "operation:a/two", ["skipped"])
    order.holds = {}
    order.release()
    assert [row.why for row in order.claim().log] == ["run two"]


def test_an_order_with_a_skipped_step_and_nothing_begun_can_be_cancelled() -> None:
    order = order_of(step("one", when="payload.no"), step("two"))
    order.holds = {"two": "operation:a/two"}
    order.claim()
    order.cancel()
    assert order.state == "cancelled"


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ("payload.missing", "when is null: something it looks at is not there; it must be true or false"),
        ("payload.missing > `1`", "when is null"),
        ("payload.total", "when is a number; it must be true or false"),
        ("payload.items", "when is an array"),
        ("length(payload.total) > `1`", r"when: length\(\) was given a value of type number"),
        ("payload.total > payload.text", "when: TypeError"),
    ],
)
@pytest.mark.parametrize(("on_error", "state"), [("halt", "error"), ("compensate", "compensating")])
def test_a_condition_that_cannot_be_worked_out_is_a_failure_for_good(
    when: str, said: str, on_error: OnError, state: str
) -> None:
    order = order_of(step("one"), step("two", when=when), on_error=on_error)
    order.claim()
    order.succeed()
    assert (order.state, states(order), order.record.step) == (state, ["completed", "failed"], 2)
    assert re.match(said, order.entry(2).error or ""), order.entry(2).error
    assert order.last.log[-1].why == f"two cannot be run: {order.entry(2).error}"


def test_a_first_step_that_cannot_be_worked_out_leaves_nothing_to_undo() -> None:
    order = order_of(step("one", when="payload.missing"), on_error="compensate")
    order.claim()
    assert order.state == "compensating"
    order.claim()
    assert order.state == "compensated"


def test_a_halted_order_whose_selection_failed_is_undone_when_it_is_cancelled() -> None:
    order = order_of(step("one"), step("two", select="sum(payload.items)"))
    order.claim()
    order.succeed()
    assert (order.state, order.alerts) == ("error", ["order-halted"])
    order.cancel()
    order.claim()
    assert (order.state, order.record.step) == ("compensating", 1)


def test_one_expression_selects_what_the_operation_gets() -> None:
    order = order_of(step("one", select="payload.items[*].sku"))
    assert sent(order.claim()) == [(1, '["a","b"]')]


def test_a_mapping_selects_member_by_member() -> None:
    order = order_of(
        step("one"),
        step("two", select={"total": "payload.total", "ref": "steps.one.result.ref", "who": "order.client"}),
    )
    order.claim()
    assert sent(order.succeed({"ref": "r1"})) == [(2, '{"ref":"r1","total":7,"who":"shop"}')]


def test_the_undo_a_resend_and_the_next_attempt_get_what_the_first_request_got() -> None:
    order = order_of(step("one", select="{t: payload.total}"), step("two"), on_error="compensate")
    first = sent(order.claim())
    assert order.record.wake_at is not None
    order.now = order.record.wake_at
    assert sent(order.retry_due()) == first
    order.reopen()
    assert sent(order.last) == first
    order.succeed({"t": "later"})
    order.fail()
    assert sent(order.claim()) == first == [(1, '{"t":7}')]


def test_what_is_built_again_from_the_row_is_what_was_sent() -> None:
    order = order_of(step("one"), step("two", select="[payload.total, steps.one.result]"))
    order.claim()
    ((step_no, text),) = sent(order.succeed("r"))
    again = argument(order.record, order.workflow, step_no, order.payload)
    assert again is not None
    assert again.text == text == '[7,"r"]'


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ("[payload.text, payload.text, payload.text]", "more than 100 bytes"),
        ("payload.items" + " | [@, @][]" * 60, "more than 20000 evaluations"),
        ("[[[[[payload.total]]]]]", "nested deeper than 4"),
        ("&payload", "no JSON form"),
        ("sum([`9007199254740991`, `1`])", "no JSON form"),
        ("max_by(payload.items, &total)", "max_by"),
        ("sort_by(payload.items, &length(total))", "length"),
    ],
)
def test_a_selection_that_is_too_large_or_no_value_is_a_failure_for_good(select: str, said: str) -> None:
    policy = Policy(most_argument_bytes=100, most_argument_depth=4, jitter_factor=0)
    order = order_of(step("one", select=select), policy=policy)
    order.claim()
    assert order.state == "error"
    assert said in (order.entry().error or "")


def test_a_step_that_may_have_been_begun_is_never_skipped() -> None:
    order = order_of(step("one", when="payload.yes"))
    order.claim()
    order.expire(begun=True)
    order.wait(60)
    order.payload = JsonText.of({"yes": False})  # cannot be; what is in doubt stays in doubt all the same
    order.claim()
    assert (order.state, order.entry().effect) == ("processing", "unknown")


def test_a_condition_without_a_payload_to_look_at_is_a_fault_of_the_caller() -> None:
    order = order_of(step("one", when="payload.yes"))
    order.payload = None
    before = order.record
    with pytest.raises(LookupError, match="shop/o1: its payload is needed to decide on one"):
        order.claim()
    assert order.record == replace(before)
