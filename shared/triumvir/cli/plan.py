"""``triumvir plan``: what a workflow may cost at worst, and which limit ends it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Any

import typer

from triumvir.cli.equipment import settings
from triumvir.cli.output import say, show_rows, write_json
from triumvir.cli.workflows import chosen_workflows
from triumvir.lifecycle import Bounds, Plan, planned
from triumvir.runtime.decisions import policy_of
from triumvir.workflow import Workflow
from triumvir.workflow.durations import spelled

_HEADINGS = ("step", "attempts", "requests", "calls", "time", "ended by", "on timeout")


def plan(
    what: Annotated[
        str, typer.Argument(metavar="WORKFLOW", help="A registered name, or FILE.yaml, FILE.py, module:name.")
    ],
    version: Annotated[int | None, typer.Option(min=1, help="Default: the latest.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object; times in seconds.")] = False,
) -> None:
    """Show the worst case: requests, calls and time, by step and in all, undone too, and which limit ends it.

    By the settings and the policy file of this environment. Waits that are nobody's failure are not in it: for an
    agent that is away or full, in a pause, in a queue.

    \b
    Examples:
      triumvir plan order-fulfilment
      triumvir plan workflows.yaml --json
    """
    plans = [_planned(workflow) for workflow in chosen_workflows(what, version)]
    if as_json:
        made = [_members(each) for each in plans]
        write_json(made[0] if len(made) == 1 else made)
        return
    for number, each in enumerate(plans):
        if number:
            say("")
        _show(each)


def _planned(workflow: Workflow) -> Plan:
    chosen = settings()
    return planned(workflow, policy_of(chosen), chosen.supervisor_grace + chosen.supervisor_interval)


def _show(made: Plan) -> None:
    say(f"{made.workflow} v{made.version}, retry budget {made.budget}: at worst")
    leads_on = any(step.on_timeout for step in made.steps)
    columns = len(_HEADINGS) if leads_on else len(_HEADINGS) - 1
    show_rows(_HEADINGS[:columns], (row[:columns] for row in _rows(made)), nothing="no steps")


def _rows(made: Plan) -> Iterator[tuple[str, ...]]:
    for step in made.steps:
        yield _row(step.name, step.forward, step.on_timeout)
    yield _row("all steps", made.forward)
    if made.undo is not None:
        for step in reversed(made.steps):
            if step.undo is not None:
                yield _row(f"undo {step.name}", step.undo)
        yield _row("all undos", made.undo)


def _row(name: str, bounds: Bounds, on_timeout: str | None = None) -> tuple[str, ...]:
    counts = bounds.attempts, bounds.requests, bounds.calls
    return (name, *map(str, counts), spelled(bounds.time), bounds.binds, on_timeout or "")


def _members(made: Plan) -> dict[str, Any]:
    return {
        "workflow": made.workflow,
        "version": made.version,
        "retry_budget": made.budget,
        "steps": [
            {
                "step": step.name,
                "forward": _bounds(step.forward),
                "undo": _bounds(step.undo),
                "on_timeout": step.on_timeout,
            }
            for step in made.steps
        ],
        "forward": _bounds(made.forward),
        "undo": _bounds(made.undo),
    }


def _bounds(bounds: Bounds | None) -> dict[str, Any] | None:
    if bounds is None:
        return None
    return {
        "attempts": bounds.attempts,
        "requests": bounds.requests,
        "calls": bounds.calls,
        "seconds": bounds.time / timedelta(seconds=1),
        "binds": bounds.binds,
    }
