"""A workflow, drawn: as text for a terminal, as a Mermaid flowchart for a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.markup import escape as escaped

from triumvir.workflow import Stage, Step, Wait, Workflow
from triumvir.workflow.durations import spelled

_UNTOUCHED: Final = frozenset(" _-./:,=")
_WIDTH: Final = 11


def text(workflow: Workflow) -> Iterator[str]:
    """Lines of rich text: the steps from top to bottom, each with all that is said of it."""
    yield f"[bold]{workflow.name}[/bold] v{workflow.version}, on error: {workflow.on_error}"
    yield ""
    for number, step in enumerate(workflow.steps, start=1):
        yield f"{number:3}  [bold]{step.name}[/bold]{'' if step.main_line else '  (only if a time-out leads to it)'}"
        for label, value in _facts(step):
            yield f"  │    [dim]{label:{_WIDTH}}[/dim]{escaped(value)}"
        yield "  │"
    yield "  ▼"
    yield "     processed, with the result of the last step that ran"
    waves = [[workflow.step(number).name for number in wave] for wave in _waves(workflow)]
    if waves:
        yield f"     {_undone(workflow)}: {', then '.join(' + '.join(wave) for wave in waves)}"
    if workflow.is_confidential:
        yield "     confidential: its data is in no alert, history or log"
    if workflow.retention_days is not None:
        yield f"     to be kept for {workflow.retention_days} days after its end"


def _waves(workflow: Workflow) -> list[list[int]]:
    """The steps that have an undo: in each list those that are undone at the same time."""
    waves: dict[int, list[int]] = {}
    for number, step in enumerate(workflow.steps, start=1):
        if step.undo is not None:
            waves.setdefault(workflow.undo_rank(number), []).append(number)
    return [wave for _, wave in sorted(waves.items())]


def _undone(workflow: Workflow) -> str:
    match workflow.undo_order:
        case "reverse":
            return "undone in this order"
        case "by-rank":
            return "undone by rank"
        case "parallel":
            return "undone at the same time"


def _facts(step: Stage) -> Iterator[tuple[str, str]]:
    if step.when is not None:
        yield "when", f"{_in_line(step.when)}  (else skipped)"
    if isinstance(step, Wait):
        yield "waits for", f"signal {step.signal}"
        yield "within", spelled(step.within)
        yield "default", step.default_text or "none: then it fails"
        return
    yield "runs", f"{step.agent}/{step.operation}"
    for name, expression in _selections(step):
        yield "select", f"{name} = {expression}" if name else expression
    if step.undo is not None:
        yield "undo", f"{step.agent}/{step.undo}"
    yield "within", _within(step) + (f", then {step.on_timeout} instead" if step.on_timeout else "")
    if not step.recoverable:
        yield "called", "once; then it is only asked what came of it"


def _within(step: Step) -> str:
    return "TRIUMVIR_STEP_TIMEOUT" if step.complete_within is None else spelled(step.complete_within)


def _selections(step: Step) -> Iterator[tuple[str, str]]:
    if isinstance(step.select, str):
        yield "", _in_line(step.select)
    elif step.select is not None:
        for name, expression in step.select.items():
            yield name, _in_line(expression)


def _in_line(expression: str) -> str:
    return " ".join(expression.split())


def mermaid(workflow: Workflow) -> Iterator[str]:
    """Lines of a Mermaid flowchart. A diamond is a condition, a slanted box waits for a signal; thick arrows are
    time-outs, dotted ones lead to undos, which run upwards.
    """
    following = list(_following(workflow))
    yield "flowchart TD"
    yield f"    start([{_label(f'{workflow.name} v{workflow.version}')}]) --> {following[0]}"
    for number, step in enumerate(workflow.steps, start=1):
        yield from _drawn(number, step, following[number])
    yield from _led(workflow)
    yield f"    done([{_label('processed')}])"
    yield from _undos(workflow)


def _following(workflow: Workflow) -> Iterator[str]:
    """For the start, and for each step, where the main line goes on."""
    for number in range(len(workflow.steps) + 1):
        line = ((n, step) for n, step in enumerate(workflow.steps[number:], number + 1) if step.main_line)
        yield next((_entry(n, step) for n, step in line), "done")


def _led(workflow: Workflow) -> Iterator[str]:
    """Thick arrows lead from a time-out to the other step."""
    numbers = {step.name: number for number, step in enumerate(workflow.steps, start=1)}
    for step in workflow.steps:
        if step.on_timeout is not None:
            other = numbers[step.on_timeout]
            target = _entry(other, workflow.step(other))
            yield f"    s{numbers[step.name]} ==>|time over| {target}"


def _entry(number: int, step: Stage) -> str:
    return f"s{number}" if step.when is None else f"w{number}"


def _drawn(number: int, step: Stage, following: str) -> Iterator[str]:
    if step.when is not None:
        yield f"    w{number}{{{_label(_in_line(step.when))}}} -->|true| s{number}"
        yield f"    w{number} -->|false, {step.name} is skipped| {following}"
    if isinstance(step, Wait):
        lines = [step.name, f"waits for signal {step.signal}", f"within {spelled(step.within)}"]
        default = [] if step.default_text is None else [f"default {step.default_text}"]
        yield f"    s{number}[/{_label(*lines, *default)}/] --> {following}"
        return
    selected = [f"{name} = {text}" if name else f"select {text}" for name, text in _selections(step)]
    within = [] if step.complete_within is None else [f"within {_within(step)}"]
    lines = [step.name, f"{step.agent}/{step.operation}", *selected, *within]
    yield f"    s{number}[{_label(*lines)}] --> {following}"


def _undos(workflow: Workflow) -> Iterator[str]:
    waves = _waves(workflow)
    for number in sorted(number for wave in waves for number in wave):
        step = workflow.step(number)
        yield f"    s{number} -.->|undo| u{number}[{_label(f'{step.agent}/{step.undo}')}]"
    if waves:
        chain = [" & ".join(f"u{number}" for number in wave) for wave in waves]
        yield f"    {' --> '.join(chain)} --> undone([{_label('compensated')}])"


def _label(*lines: str) -> str:
    """A quoted label. Whatever could mean something to Mermaid or to HTML is written by its number."""
    return '"' + "<br/>".join("".join(map(_character, line)) for line in lines) + '"'


def _character(char: str) -> str:
    return char if (char.isascii() and char.isalnum()) or char in _UNTOUCHED else f"#{ord(char)};"
