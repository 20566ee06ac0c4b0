"""The JSON Schema of a file of workflows: what an editor completes and underlines while one is written."""

from __future__ import annotations

from typing import Any, Final, get_args

from triumvir.contracts.names import NAME_PATTERN
from triumvir.workflow import OnError, UndoOrder
from triumvir.workflow.classification import MOST_DAYS, Classification
from triumvir.workflow.durations import DURATION_PATTERN, LONGEST, MILLISECOND
from triumvir.workflow.expressions import MAX_LENGTH
from triumvir.workflow.keys import (
    STEP_KEYS,
    STEP_NEEDS,
    WAIT_KEYS,
    WAIT_NEEDS,
    WORKFLOW_KEYS,
    WORKFLOW_NEEDS,
)
from triumvir.workflow.model import LONGEST_ARGUMENT_NAME, MAX_ARGUMENTS, MAX_STEPS
from triumvir.workflow.undo_order import MAX_RANK

_NAME: Final = {"type": "string", "pattern": NAME_PATTERN}
_EXPRESSION: Final = {"type": "string", "minLength": 1, "maxLength": MAX_LENGTH}
_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "name": {**_NAME, "description": "1 to 40 of a-z, 0-9 and -"},
    "version": {
        "type": "integer",
        "minimum": 1,
        "maximum": 2**31 - 1,
        "description": "a changed one needs a new one",
    },
    "on_error": {"enum": list(get_args(OnError)), "description": "when a step fails for good; default halt"},
    "undo_order": {
        "enum": list(get_args(UndoOrder)),
        "description": "from the last step to the first (default), by undo_rank, or all at the same time",
    },
    "classification": {
        "enum": list(get_args(Classification)),
        "description": "confidential: its data is in no alert, history or log, and shown on demand only; default open",
    },
    "retention_days": {
        "type": "integer",
        "minimum": 1,
        "maximum": MOST_DAYS,
        "description": "how long an ended order is to be kept; default without a limit",
    },
    "agent": {**_NAME, "description": "the agent that offers the operation"},
    "operation": {**_NAME, "description": "what the agent runs"},
    "undo": {**_NAME, "description": "the agent's operation that takes the effect back"},
    "undo_rank": {
        "type": "integer",
        "minimum": 1,
        "maximum": MAX_RANK,
        "description": "with undo_order by-rank: the lowest is undone first, equal ones at the same time",
    },
    "complete_within": {
        "type": "string",
        "pattern": DURATION_PATTERN,
        "description": "from the first send to the answer: 30s, 500ms, 1m30s; default TRIUMVIR_STEP_TIMEOUT",
    },
    "complete_within_ms": {
        "type": "integer",
        "minimum": 1,
        "maximum": LONGEST // MILLISECOND,
        "description": "the same in milliseconds",
    },
    "signal": {**_NAME, "description": "the step waits for this signal; its data is the result"},
    "within": {
        "type": "string",
        "pattern": DURATION_PATTERN,
        "description": "how long it waits for the signal: 2d, 12h, 30m",
    },
    "within_ms": {
        "type": "integer",
        "minimum": 1,
        "maximum": LONGEST // MILLISECOND,
        "description": "the same in milliseconds",
    },
    "default": {
        "not": {"type": "null"},
        "description": "the result if no signal came in time; without it the step fails for good",
    },
    "when": {
        **_EXPRESSION,
        "description": "JMESPath over payload, order, steps: true, or false to skip the step",
    },
    "on_timeout": {**_NAME, "description": "a later step, to which the order goes when the time is over"},
    "main_line": {"type": "boolean", "description": "false: run only if a time-out leads to it"},
    "recoverable": {"type": "boolean", "description": "false: called once, and never tried again"},
    "select": {
        "description": "JMESPath: what operation and undo receive instead of the payload",
        "oneOf": [
            _EXPRESSION,
            {
                "type": "object",
                "minProperties": 1,
                "maxProperties": MAX_ARGUMENTS,
                "propertyNames": {"minLength": 1, "maxLength": LONGEST_ARGUMENT_NAME},
                "additionalProperties": _EXPRESSION,
            },
        ],
    },
}


def workflow_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of one workflow, or of a list of them."""
    step = _object(STEP_KEYS, STEP_NEEDS)
    step["not"] = {"required": ["complete_within", "complete_within_ms"]}
    wait = _object(WAIT_KEYS, WAIT_NEEDS)
    wait["oneOf"] = [{"required": ["within"]}, {"required": ["within_ms"]}]
    is_wait = {"required": ["signal"]}
    either = {"if": is_wait, "then": {"$ref": "#/$defs/wait"}, "else": {"$ref": "#/$defs/step"}}
    steps = {"type": "array", "minItems": 1, "maxItems": MAX_STEPS, "items": either}
    workflow = _object(WORKFLOW_KEYS, WORKFLOW_NEEDS, steps=steps)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Triumvir workflows",
        "oneOf": [{"$ref": "#/$defs/workflow"}, {"type": "array", "items": {"$ref": "#/$defs/workflow"}}],
        "$defs": {"workflow": workflow, "step": step, "wait": wait},
    }


def _object(keys: tuple[str, ...], needed: tuple[str, ...], **more: Any) -> dict[str, Any]:
    fields = _FIELDS | more
    return {
        "type": "object",
        "required": list(needed),
        "additionalProperties": False,
        "properties": {key: fields[key] for key in keys},
    }
