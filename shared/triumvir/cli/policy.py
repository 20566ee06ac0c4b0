"""``triumvir policy``: which recovery settings bind an action, and where each was said."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from difflib import get_close_matches
from typing import Annotated

import typer

from triumvir.cli.equipment import settings
from triumvir.cli.output import note, run, say, show_rows, write_json
from triumvir.errors import ConfigurationError, DefinitionFileError
from triumvir.lifecycle import ANY, PolicyLine, Value, binding_lines, definition_lines
from triumvir.runtime.decisions import policy_of
from triumvir.store.operators import connect
from triumvir.store.reads import Reads
from triumvir.workflow import Stage, Wait, Workflow
from triumvir.workflow.durations import spelled
from triumvir.workflow.routes import unfit_target

app = typer.Typer(
    help="Recovery settings by Flow.State.Action: explain, check.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("explain")
def explain(
    flow: Annotated[str, typer.Argument(help="The workflow.")],
    state: Annotated[str, typer.Argument(help="The step.")],
    action: Annotated[str, typer.Argument(help="Its operation, or its undo.")],
    as_json: Annotated[bool, typer.Option("--json", help="A JSON array instead of a table.")] = False,
) -> None:
    """Show each recovery setting that binds an action, and the line it came from.

    The environment says what binds everywhere, a definition says how long its step may take, and the file named by
    TRIUMVIR_POLICY_FILE says what binds the actions it names. More names win; on a tie action, state, flow.

    \b
    Example:
      triumvir policy explain order-fulfilment charge charge-card
    """
    workflow = _latest(run(_workflows()), flow)
    step = _step(workflow, state)
    if isinstance(step, Wait):
        raise ConfigurationError(
            f"step {state!r} waits for signal {step.signal!r}; its definition says how long, no setting binds it"
        )
    if action not in (step.operation, step.undo):
        raise ConfigurationError(f"step {state!r} does not call {action!r}; it calls {_calls(step)}")
    own, binding = definition_lines(workflow, step), binding_lines(workflow, step)
    bound = dict(policy_of(settings()).resolve(flow, state, action, own, binding))
    if action == step.undo:
        bound.pop("on-timeout", None)  # an undo leads nowhere
    if as_json:
        write_json(
            [
                {"setting": name, "value": shown(line.value), "pattern": line.pattern, "source": line.source}
                for name, line in bound.items()
            ]
        )
        return
    other = bound.get("on-timeout")
    if other is not None and other.value:
        problem = unfit_target([each.name for each in workflow.steps], step.name, str(other.value))
        if problem is not None:
            note(f"{other.source}: on-timeout {problem}; it is not followed")
    rows = ((name, shown(line.value), line.pattern, line.source) for name, line in bound.items())
    show_rows(("setting", "value", "by", "from"), rows, nothing="no settings")


@app.command("check")
def check() -> None:
    """Check the policy file, and that every workflow, step and operation it names exists.

    \b
    Example:
      TRIUMVIR_POLICY_FILE=policies.toml triumvir policy check
    """
    if settings().policy_file is None:
        raise ConfigurationError("there is no policy file; set TRIUMVIR_POLICY_FILE")
    lines = policy_of(settings()).lines
    known = run(_workflows())
    faults = [fault for line in lines if (fault := _unknown(line, known) or _unfit(line, known))]
    if faults:
        raise DefinitionFileError(list(dict.fromkeys(faults)))
    say(f"{settings().policy_file}: {len(lines)} settings, nothing is wrong")


async def _workflows() -> list[Workflow]:
    async with connect(settings()) as connection:
        return [Workflow.from_json(row.definition) for row in await Reads(connection).workflows()]


def _latest(known: list[Workflow], flow: str) -> Workflow:
    versions = [workflow for workflow in known if workflow.name == flow]
    if not versions:
        hint = _hint(flow, [workflow.name for workflow in known])
        raise ConfigurationError(f"no workflow is called {flow!r}{hint}; see: triumvir workflows list")
    return max(versions, key=lambda workflow: workflow.version)


def _step(workflow: Workflow, state: str) -> Stage:
    for step in workflow.steps:
        if step.name == state:
            return step
    names = [step.name for step in workflow.steps]
    raise ConfigurationError(
        f"{workflow.name!r} has no step {state!r}{_hint(state, names)}; its steps are {', '.join(names)}"
    )


def _unknown(line: PolicyLine, known: list[Workflow]) -> str | None:
    """What is wrong with a pattern that no action of any version matches."""
    actions = {(w.name, s.name, action) for w in known for s in w.steps for action in _actions(s)}
    pattern = line.pattern
    if any(all(p in (ANY, a) for p, a in zip(pattern, action, strict=True)) for action in actions):
        return None
    where = f'{line.source}: ["{".".join(pattern)}"]'
    return f"{where}: no applied workflow has such an action; see: triumvir workflows show"


def _unfit(line: PolicyLine, known: list[Workflow]) -> str | None:
    """Why no step that an ``on-timeout`` is for can lead where it says."""
    if line.setting != "on-timeout" or not line.value:
        return None
    flow, state, action = line.pattern
    meant = (
        unfit_target([each.name for each in workflow.steps], step.name, str(line.value))
        for workflow in known
        for step in workflow.steps
        if flow in (ANY, workflow.name) and state in (ANY, step.name) and action in (ANY, step.operation)
    )
    problems = list(meant)
    if None in problems or not problems:
        return None
    return f'{line.source}: ["{".".join(line.pattern)}"] on-timeout: {problems[-1]}'


def _actions(step: Stage) -> Iterator[str]:
    if not isinstance(step, Wait):
        yield step.operation
    if step.undo is not None:
        yield step.undo


def _calls(step: Stage) -> str:
    return " and ".join(_actions(step))


def _hint(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def shown(value: Value) -> str:
    """A value as the file spells it."""
    if isinstance(value, timedelta):
        return spelled(value)
    return ", ".join(map(spelled, value)) or "none" if isinstance(value, tuple) else str(value) or "none"
