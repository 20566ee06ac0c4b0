"""Signals in a world: what is sent, and that each was answered once and the first one counted."""

from __future__ import annotations

from typing import Final

from triumvir.contracts.json_text import JsonText
from triumvir.lifecycle import LogRow, OrderRecord, Signalled

_ANSWERS: Final = ("signalled", "signal_refused")


def signal_name(step_no: int) -> str:
    """The signal that a step waits for."""
    return f"go-{step_no}"


def signal_for(step_no: int) -> Signalled:
    """It, with data that no default has."""
    return Signalled(signal_name(step_no), JsonText.of({"step": f"s{step_no}", "by": "signal"}).text)


def default_of(step_no: int) -> dict[str, str]:
    """What counts if it does not come."""
    return {"step": f"s{step_no}", "by": "default"}


def check_answered(signal: Signalled, rows: tuple[LogRow, ...]) -> None:
    """Whoever sent it is told what came of it, once."""
    told = [row.status for row in rows if row.status in _ANSWERS and f"signal {signal.name} " in row.why]
    assert len(told) == 1, f"signal {signal.name} was answered {told}"


def check_first_counts(record: OrderRecord, log: list[LogRow], step_no: int) -> None:
    """One signal at most was told to count; the result is its data if so, else the default."""
    counted = sum(
        row.status == "signalled" and row.why.startswith(f"signal {signal_name(step_no)} ") for row in log
    )
    assert counted <= 1, "two signals count"
    step = record.step_record(step_no)
    if step is not None and step.state == "completed":
        by = "signal" if counted else "default"
        assert JsonText(text=step.result).value["by"] == by, f"{counted} signals counted: {step.result}"
    assert not counted or (step is not None and step.state != "waiting"), "the signal was forgotten"
