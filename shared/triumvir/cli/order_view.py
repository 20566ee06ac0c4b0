"""One order, drawn for a person."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final, get_args

from rich.markup import escape as escaped

from triumvir.cli.output import NONE, coloured, duration, moment, stdout, table, until
from triumvir.cli.standing import standing
from triumvir.cli.undo_view import undo_lines
from triumvir.contracts.names import order_key
from triumvir.lifecycle import END, State
from triumvir.store.reads import CommandRow, HistoryRow, OrderDetail, OrderRow, StepRow
from triumvir.telemetry import tracing
from triumvir.workflow import Stage, Wait, Workflow

__all__ = ["ENDED", "STATES", "draw", "escaped"]

STATES: Final[tuple[str, ...]] = get_args(State)
ENDED: Final[frozenset[str]] = frozenset(END)
_LONGEST_RESULT: Final = 80


def draw(detail: OrderDetail, latest: int) -> None:
    """Print everything there is to see of an order; of its history the ``latest`` events, 0 for all."""
    order, console = detail.order, stdout()
    names = _step_names(order)
    key = escaped(order_key(order.client, order.order_id))
    console.print(f"[bold]{key}[/bold]  {order.workflow} v{order.version}  {coloured(order.state)}")
    for line in (*standing(detail, _agent(order)), *_facts(order, detail.steps, detail.commands, names)):
        console.print(f"  {line}")
    for line in _budgets(order, detail.steps, names):
        console.print(f"  {line}")
    console.print()
    if order.purged_at is None:  # of a purged one nobody knows which steps were run
        steps = table(
            "#", "step", "operation", "state", "attempt", "calls", "effect", "undo", "result or error"
        )
        for row in _steps(order, detail.steps):
            steps.add_row(*row)
        console.print(steps)
        console.print()
    left = list(undo_lines(detail))
    for line in left:
        console.print(line, soft_wrap=True)
    if left:
        console.print()
    shown = detail.history[-latest:]
    if len(shown) < len(detail.history):
        console.print(f"{len(detail.history) - len(shown)} earlier events are shown by --history 0")
    history = table("at", "by", "what happened", "step", "state", "client told")
    for entry in shown:
        history.add_row(*_happened(entry, names))
    console.print(history)


def _facts(
    order: OrderRow, steps: list[StepRow], commands: list[CommandRow], names: dict[int, str]
) -> Iterator[str]:
    received = f"received {moment(order.received_at)}"
    if order.ended_at is not None:
        yield f"{received}, ended {moment(order.ended_at)} after {duration(order.ended_at - order.received_at)}"
    else:
        yield f"{received}, {until(order.received_at, order.now)}; statuses to {order.status_queue}"
    if order.attempt:
        yield f"attempt {order.attempt}, fence {order.fence}, failures of this step {order.failure_count}"
    waits = _waits(order, steps)
    if waits is not None and order.complete_by is not None:
        default = "it fails then" if waits.default_text is None else f"default {waits.default_text}"
        ends = f"until {_when(order.complete_by, order)}, {escaped(default)}"
        yield f"[yellow]waits for signal {waits.signal}[/yellow] {ends}"
    elif order.complete_by is not None:
        verb = "undo" if order.state == "compensating" else "step"
        step = names.get(order.step or 0, str(order.step))
        yield f"{verb} {step} must be answered {_when(order.complete_by, order)}; requests re-sent: {order.retries}"
    if order.locked_by is not None:
        yield f"locked as {order.locked_by}, by instance {order.touched_by or NONE}"
    free = order.held_by is None and order.locked_by is None
    if order.state in ("pending", "compensating") and free and not _is_early(order):
        yield "waits for a scheduler to claim it: for its turn, for room at its agent, or for a scheduler that runs"
    if order.not_before is not None and order.ended_at is None:
        yield f"next attempt not before {_when(order.not_before, order)}"
    if order.cancel_requested:
        yield "a cancel takes effect at the next answer or deadline"
    for command in commands:
        yield f"{command.kind} asked for {until(command.at, order.now)} ({escaped(command.message_id)}), not yet taken"
    yield from _handling(order)
    if order.trace is not None and tracing.is_traceparent(order.trace):
        yield f"trace {tracing.trace_id(order.trace)}"


def _handling(order: OrderRow) -> Iterator[str]:
    """How its data is to be handled, by the workflow version it is pinned to."""
    workflow = Workflow.from_json(order.definition) if order.definition else None
    if order.purged_at is not None:
        left = "its key, digest and state are kept"
        yield f"purged {moment(order.purged_at)}: its steps, data and history are gone; {left}"
        return
    if workflow is not None and workflow.is_confidential:
        yield "confidential: payload, results and errors are shown with --reveal"
    if workflow is not None and workflow.retention_days is not None:
        kept = timedelta(days=workflow.retention_days)
        until_when = f", until {moment(order.ended_at + kept)}" if order.ended_at else " after its end"
        yield f"to be kept for {workflow.retention_days} days{until_when}"


def _agent(order: OrderRow) -> str | None:
    """Of the step that the order is at."""
    steps, place = _defined(order), (order.step or 1) - 1
    return steps[place].agent if place < len(steps) else None


def _waits(order: OrderRow, steps: list[StepRow]) -> Wait | None:
    """The step that waits for its signal now."""
    waiting = next((row.step_no for row in steps if row.state == "waiting"), None)
    step = _defined(order)[waiting - 1] if order.state == "processing" and waiting else None
    return step if isinstance(step, Wait) else None


def _budgets(order: OrderRow, steps: list[StepRow], names: dict[int, str]) -> Iterator[str]:
    """What calls may still be made; of undos only of those that were called more than once."""
    if order.budget is not None:
        spent = sum(max(0, step.calls - 1) for step in steps)
        yield f"retry budget: {spent} of {order.budget} calls beyond the first of each step spent"
    for step in steps:
        if step.undo_limit is not None and step.undo_calls > 1:
            name = names.get(step.step_no, str(step.step_no))
            yield f"undo of {name}: {step.undo_calls} of at most {step.undo_limit} calls made"


def _is_early(order: OrderRow) -> bool:
    return order.not_before is not None and order.not_before > order.now


def _when(at: datetime, order: OrderRow) -> str:
    return f"{until(at, order.now)} ({moment(at)})"


def _steps(order: OrderRow, rows: list[StepRow]) -> Iterator[tuple[str, ...]]:
    begun = {row.step_no: row for row in rows}
    defined = _defined(order)
    for number in range(1, max([len(defined), *begun]) + 1):
        step = defined[number - 1] if number <= len(defined) else None
        yield _step(number, step, begun.get(number))


def _step(number: int, step: Stage | None, row: StepRow | None) -> tuple[str, ...]:
    name = step.name if step else "?"
    operation = _operation(step)
    undo = step.undo if step and step.undo else NONE
    if row is None:
        return (str(number), name, operation, "[dim]not started[/dim]", NONE, NONE, NONE, undo, "")
    if row.state == "skipped":
        why = f"when {escaped(_short(step.when or ''))}" if step else ""
        return (str(number), name, operation, coloured(row.state), NONE, NONE, row.effect, undo, why)
    if row.undo_state is not None:
        tries = f", tried {row.undo_tries} times" if row.undo_tries else ""
        undo = f"{undo}: {coloured(row.undo_state)}{tries}"
    said = " / ".join(escaped(_short(text)) for text in (row.error or row.result, row.undo_error) if text)
    return (
        str(number),
        name,
        operation,
        coloured(row.state),
        str(row.attempt),
        str(row.calls),
        row.effect,
        undo,
        said,
    )


def _operation(step: Stage | None) -> str:
    if step is None:
        return "?"
    return f"signal {step.signal}" if isinstance(step, Wait) else f"{step.agent}/{step.operation}"


def _happened(entry: HistoryRow, names: dict[int, str]) -> tuple[str, ...]:
    arrow = coloured(entry.to_state)
    if entry.from_state != entry.to_state:
        arrow = f"{coloured(entry.from_state)} → {arrow}"
    told = f"{coloured(entry.status)} ({entry.sequence})" if entry.status else ""
    step = names.get(entry.step_no, str(entry.step_no)) if entry.step_no else ""
    return (moment(entry.at), escaped(entry.who), escaped(entry.why), step, arrow, told)


def _defined(order: OrderRow) -> tuple[Stage, ...]:
    return tuple(Workflow.from_json(order.definition).steps) if order.definition else ()


def _step_names(order: OrderRow) -> dict[int, str]:
    return {number: step.name for number, step in enumerate(_defined(order), 1)}


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_RESULT else f"{text[:_LONGEST_RESULT]}…"
