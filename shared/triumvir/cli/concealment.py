"""Data of confidential workflows is not printed unless somebody asks for it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from triumvir.lifecycle import HIDDEN
from triumvir.store.reads import OrderDetail, StepRow
from triumvir.workflow import Workflow

_HIDDEN_JSON: Final = json.dumps(HIDDEN)


def is_confidential(detail: OrderDetail) -> bool:
    """Whether the order's workflow says so; one that was never applied says nothing."""
    definition = detail.order.definition
    return definition is not None and Workflow.from_json(definition).is_confidential


def concealed(detail: OrderDetail) -> OrderDetail:
    """The order as it may be printed; its history holds no data anyway."""
    if not is_confidential(detail):
        return detail
    order = replace(detail.order, payload=None if detail.order.payload is None else _HIDDEN_JSON)
    return replace(detail, order=order, steps=[_step(step) for step in detail.steps])


def _step(step: StepRow) -> StepRow:
    return replace(
        step,
        result=None if step.result is None else _HIDDEN_JSON,
        error=None if step.error is None else HIDDEN,
        undo_error=None if step.undo_error is None else HIDDEN,
    )
