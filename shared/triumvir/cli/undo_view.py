"""An order that could not be undone, drawn for the person who has to finish it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Final

from rich.markup import escape

from triumvir.cli.output import coloured
from triumvir.contracts.account import Account, UndoAccount
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.names import order_key
from triumvir.lifecycle import OrderRecord, StepRecord, account_summary, undo_account
from triumvir.runtime.accounts import with_data
from triumvir.store.reads import OrderDetail, StepRow
from triumvir.workflow import Workflow

_NO_LIMIT: Final = 2**40
_LONGEST_VALUE: Final = 2000
_LEFT: Final = ("failed", "not_undone", "no_undo")


def account_of(detail: OrderDetail) -> Account | None:
    """What was done, undone and not undone, with all data; None for an order of which nothing was to be undone."""
    order = detail.order
    if order.state != "compensation_failed" and all(step.undo_state is None for step in detail.steps):
        return None
    record = OrderRecord(
        order.no, order.client, order.order_id, order.workflow, order.version, steps=_records(detail.steps)
    )
    workflow = Workflow.from_json(order.definition) if order.definition else None
    steps = undo_account(record, workflow)
    return with_data(steps, record, workflow, order.payload, _NO_LIMIT, _NO_LIMIT)


def as_json(detail: OrderDetail) -> dict[str, Any]:
    """All there is to see, and ``account``: what was undone and what was not, null where nothing was to be undone."""
    found = account_of(detail)
    members = {field.name: getattr(detail, field.name) for field in fields(detail)}
    return {**members, "account": None if found is None else found.model_dump(mode="json")}


def _records(rows: list[StepRow]) -> tuple[StepRecord, ...]:
    names = (
        "state",
        "calls",
        "effect",
        "result",
        "error",
        "undo_state",
        "undo_tries",
        "undo_error",
        "by_hand",
    )
    return tuple(
        StepRecord(row.step_no, row.attempt, undo_calls=row.undo_calls, **{n: getattr(row, n) for n in names})
        for row in rows
    )


def undo_lines(detail: OrderDetail) -> Iterator[str]:
    """Lines of rich text about what is left to undo, its data, and what to type; none unless the order rests so."""
    if detail.order.state != "compensation_failed":
        return
    found = account_of(detail)
    if found is None:
        return
    key = escape(order_key(detail.order.client, detail.order.order_id))
    yield f"[bold]could not be undone[/bold]  {escape(account_summary(found.steps))}"
    for step in found.steps:
        if step.outcome in _LEFT:
            yield from _left(step)
    yield f"  payload: {_value(found.payload)}"
    yield f"  the cause is repaired: triumvir orders resume {key}"
    yield f"  you undid it by hand: triumvir orders skip {key} --reason …"
    yield f"  settled outside, whatever is left: triumvir orders close {key} --reason …"


def _left(step: UndoAccount) -> Iterator[str]:
    effect = "done" if step.effect == "certain" else "in doubt: called, and nobody heard what came of it"
    yield f"  {step.step_no} {step.step} ({step.operation}) is {effect}; {_undo(step)}"
    if step.undo_error is not None:
        yield f"    undo failed with: {escape(step.undo_error)}"
    if step.error is not None:
        yield f"    the step failed with: {escape(step.error)}"
    if step.argument is not None:
        yield f"    was given: {_value(step.argument)}"
    if step.result is not None:
        yield f"    returned: {_value(step.result)}"


def _undo(step: UndoAccount) -> str:
    match step.outcome:
        case "no_undo":
            return "no undo is declared for it"
        case "failed":
            tries = f", {step.undo_tries} tries" if step.undo_tries else ""
            return f"its undo {step.undo} {coloured('failed')} ({step.undo_calls} calls{tries})"
        case _:
            return f"its undo {step.undo} waits for those before it"


def _value(value: JsonText | None) -> str:
    if value is None:
        return "-"
    text = value.text
    return escape(text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}… (--json shows all)")
