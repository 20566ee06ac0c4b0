"""The account of an order that could not be undone: what its history says, with the data that its rows hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from triumvir.contracts.account import Account, StepAccount, UndoAccount, of_text
from triumvir.contracts.json_text import JsonText
from triumvir.errors import ExpressionError
from triumvir.lifecycle import OrderRecord, argument
from triumvir.workflow import Workflow

MOST_OF_A_VALUE: Final = 16 * 1024
"""Characters of a payload, an argument or a result in an alert; a larger one is named instead."""
MOST_IN_ALL: Final = 256 * 1024
KEPT_BACK: Final = (
    "all data: the workflow is confidential, or unknown; triumvir orders show --reveal shows it"
)


def for_client(text: str | None) -> tuple[StepAccount, ...] | None:
    """What a status tells: what became of each step, without errors and data of the operators."""
    if text is None:
        return None
    return tuple(
        StepAccount(step=step.step, effect=step.effect, outcome=step.outcome) for step in of_text(text)
    )


def for_operators(
    text: str | None, record: OrderRecord | None, workflow: Workflow | None, payload: str | None
) -> Account | None:
    """What an alert tells: all of ``text``, and the data of the order as far as it is at hand and fits. Data of a
    confidential workflow, or of one that cannot be read, is not in it.
    """
    if text is None:
        return None
    steps = of_text(text)
    if record is None or workflow is None or workflow.is_confidential:
        return Account(steps=steps, left_out=(KEPT_BACK,))
    return with_data(steps, record, workflow, payload)


def with_data(
    steps: Sequence[UndoAccount],
    record: OrderRecord,
    workflow: Workflow | None,
    payload: str | None,
    most_of_a_value: int = MOST_OF_A_VALUE,
    most_in_all: int = MOST_IN_ALL,
) -> Account:
    """The account of an order with its data: payload, arguments and results, in characters up to these limits."""
    return _Filling(record, workflow, payload, most_of_a_value, most_in_all).filled(steps)


class _Filling:
    """Adds data to an account, up to what an alert can hold."""

    def __init__(
        self,
        record: OrderRecord,
        workflow: Workflow | None,
        payload: str | None,
        most_of_a_value: int,
        most_in_all: int,
    ) -> None:
        self._record = record
        self._workflow = workflow
        self._payload = None if payload is None else JsonText(text=payload)
        self._most_of_a_value = most_of_a_value
        self._room = most_in_all
        self._left_out: list[str] = []

    def filled(self, steps: Sequence[UndoAccount]) -> Account:
        if self._payload is None:
            self._left_out.append("payload: it is not at hand")
        payload = self._fitting("payload", self._payload)
        return Account(
            payload=payload,
            steps=tuple(step.model_copy(update=dict(self._data(step))) for step in steps),
            left_out=tuple(self._left_out),
        )

    def _data(self, step: UndoAccount) -> Iterator[tuple[str, JsonText | None]]:
        entry = self._record.step_record(step.step_no)
        result = None if entry is None or entry.result is None else JsonText(text=entry.result)
        yield "argument", self._fitting(f"argument of {step.step}", self._argument(step))
        yield "result", self._fitting(f"result of {step.step}", result)

    def _argument(self, step: UndoAccount) -> JsonText | None:
        if self._workflow is None or self._workflow.step(step.step_no).select is None:
            return None
        if self._payload is None:
            self._left_out.append(f"argument of {step.step}: the payload is not at hand")
            return None
        try:
            return argument(self._record, self._workflow, step.step_no, self._payload)
        except ExpressionError as error:
            self._left_out.append(f"argument of {step.step}: {error}")
            return None

    def _fitting(self, name: str, value: JsonText | None) -> JsonText | None:
        if value is None:
            return None
        size = len(value.text)
        if size > min(self._most_of_a_value, self._room):
            self._left_out.append(f"{name}: {size} characters")
            return None
        self._room -= size
        return value
