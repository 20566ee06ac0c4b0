"""What a step's condition and selection make of an order's data: the payload, and the results of earlier steps.

Both look at nothing that changes once the step may run, so that every attempt, every re-send and the undo work out
the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import orjson

from triumvir.contracts.json_text import JsonText
from triumvir.errors import ExpressionError
from triumvir.lifecycle.record import OrderRecord, StepRecord
from triumvir.workflow import Stage, Workflow
from triumvir.workflow.expressions import Expression, compiled

_MAX_EXACT_INTEGER: Final = 2**53 - 1
_NEVER: Final = 2**62
_KINDS: Final = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "an array",
    dict: "an object",
}


def holds(record: OrderRecord, workflow: Workflow, step_no: int, payload: JsonText | None) -> bool:
    """Whether the condition of a step lets it run; a step without one runs. Raises ExpressionError."""
    when = workflow.step(step_no).when
    if when is None:
        return True
    found = _evaluate("when", when, record, workflow, step_no, payload)
    if not isinstance(found, bool):
        kind = (
            "null: something it looks at is not there"
            if found is None
            else _KINDS.get(type(found), "no value")
        )
        raise ExpressionError(f"when is {kind}; it must be true or false")
    return found


def argument(
    record: OrderRecord,
    workflow: Workflow,
    step_no: int,
    payload: JsonText | None,
    most_bytes: int = _NEVER,
    most_depth: int = _NEVER,
) -> JsonText | None:
    """What a step's operation and undo receive; None if that is the payload itself. Raises ExpressionError."""
    select = workflow.step(step_no).select
    if select is None:
        return None
    if isinstance(select, str):
        value = _evaluate("select", select, record, workflow, step_no, payload)
    else:
        value = {
            name: _evaluate(f"select.{name}", text, record, workflow, step_no, payload)
            for name, text in select.items()
        }
    _check(value, most_bytes, most_depth)
    try:
        text = orjson.dumps(value)
    except TypeError as error:
        raise ExpressionError(f"select makes a value without a JSON form: {error}") from None
    if len(text) > most_bytes:
        raise _too_large(most_bytes)
    return JsonText(text=text.decode())


def _evaluate(
    what: str, text: str, record: OrderRecord, workflow: Workflow, step_no: int, payload: JsonText | None
) -> Any:
    if payload is None:
        raise LookupError(f"{record.key}: its payload is needed to decide on {workflow.step(step_no).name}")
    expression = compiled(text)
    try:
        return expression.evaluate(_scope(record, workflow, step_no, payload, expression))
    except ExpressionError as error:
        raise ExpressionError(f"{what}: {error}") from None


def _scope(
    record: OrderRecord, workflow: Workflow, step_no: int, payload: JsonText, expression: Expression
) -> Mapping[str, Any]:
    order = {
        "client": record.client,
        "order_id": record.order_id,
        "workflow": record.workflow,
        "version": record.version,
    }
    reached = (entry for entry in record.steps if entry.state != "signalled" and entry.step_no < step_no)
    earlier = ((workflow.step(entry.step_no), entry) for entry in reached)
    steps = {step.name: _seen(entry) for step, entry in earlier if _is_seen(expression, step)}
    return {"payload": payload.value, "order": order, "steps": steps}


def _is_seen(expression: Expression, step: Stage) -> bool:
    return expression.steps is None or step.name in expression.steps


def _seen(entry: StepRecord) -> dict[str, Any]:
    if entry.led_to is not None:  # what it may still turn out to have returned must change nothing
        return {"state": "timed_out", "result": None}
    result = None if entry.result is None else JsonText(text=entry.result).value
    return {"state": entry.state, "result": result}


def _check(value: Any, most_bytes: int, most_depth: int) -> None:
    """Whether it has a JSON form of that size, without writing it: a few characters can select the same data over
    and over again.
    """
    size, stack = 0, [(value, 1)]
    while stack:
        item, depth = stack.pop()
        size += 1 + (len(item) if isinstance(item, str) else 0)
        if size > most_bytes:
            raise _too_large(most_bytes)
        if isinstance(item, list | dict):
            if depth > most_depth:
                raise ExpressionError(f"select makes a value nested deeper than {most_depth}; select less")
            children = item.values() if isinstance(item, dict) else item
            stack.extend((child, depth + 1) for child in children)
        elif not _is_plain(item):
            raise ExpressionError(f"select makes {str(item)[:40]!r}, which has no JSON form")


def _is_plain(item: object) -> bool:
    if isinstance(item, bool | str) or item is None:
        return True
    if isinstance(item, int):
        return abs(item) <= _MAX_EXACT_INTEGER
    return isinstance(item, float) and math.isfinite(item)


def _too_large(most_bytes: int) -> ExpressionError:
    return ExpressionError(f"select makes more than {most_bytes} bytes; select less, or pass a reference")
