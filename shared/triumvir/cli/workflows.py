"""``triumvir workflows``: definitions in the store; services read only those."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated, Any, Final

import orjson
import typer

from triumvir.cli import workflow_changes, workflow_view
from triumvir.cli.equipment import settings
from triumvir.cli.loading import is_target, load_workflows
from triumvir.cli.output import moment, run, say, show_rows, stdout, write_json
from triumvir.errors import ConfigurationError, DefinitionFileError
from triumvir.settings import Settings
from triumvir.store.live_orders import look_around
from triumvir.store.operators import apply_workflow, connect
from triumvir.store.reads import Reads, WorkflowRow
from triumvir.workflow import Stage, Wait, Workflow

app = typer.Typer(
    help="Workflow definitions: check, apply, list, show.", no_args_is_help=True, rich_markup_mode=None
)

_TARGETS: Final = "FILE.yaml, FILE.json, FILE.py or module:name."


class Format(StrEnum):
    """How a workflow is drawn."""

    TEXT = "text"
    MERMAID = "mermaid"
    JSON = "json"


@app.command("check")
def check_workflows(
    targets: Annotated[list[str], typer.Argument(metavar="TARGET", help=_TARGETS)],
    live: Annotated[
        bool, typer.Option("--live", help="Also tell what live orders the change meets (asks the database).")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON array of what was found, one element per definition.")
    ] = False,
) -> None:
    """Check definitions without registering them; without --live no server is needed.

    Every fault of a YAML or JSON file is a line on standard error: FILE:LINE:COLUMN: FIELD: what is wrong; the fix.
    With --live: how many orders live by each applied version and at which steps, what of these steps the checked
    definition removes, renames or changes, which operations no live agent offers, and which versions no order needs.

    \b
    Examples:
      triumvir workflows check workflows.yaml
      triumvir workflows check shop.workflow:order_fulfilment --live
    """
    checked = _checked(targets)
    if live:
        changes = run(_met(settings(), checked))
        if as_json:
            write_json(changes)
        else:
            say("\n".join(line for change in changes for line in workflow_changes.lines(change)))
    elif as_json:
        write_json([{"workflow": each.name, "version": each.version} for each in checked])
    else:
        for workflow in checked:
            say(f"{workflow.name} v{workflow.version}: {len(workflow.steps)} steps, nothing is wrong")


def _checked(targets: Sequence[str]) -> list[Workflow]:
    """The definitions of all targets; raises DefinitionFileError with every fault of every target."""
    found: list[Workflow] = []
    faults: list[str] = []
    for target in targets:
        try:
            found += load_workflows(target)
        except DefinitionFileError as error:
            faults += error.faults
        except ConfigurationError as error:
            faults.append(str(error))
    if faults:
        raise DefinitionFileError(faults)
    return found


async def _met(settings: Settings, checked: Sequence[Workflow]) -> list[workflow_changes.Change]:
    async with connect(settings) as connection:
        around = await look_around(connection, {workflow.name for workflow in checked})
    return [workflow_changes.change(workflow, around) for workflow in checked]


@app.command("apply")
def apply_workflows(
    targets: Annotated[list[str], typer.Argument(metavar="TARGET", help=_TARGETS)],
) -> None:
    """Register workflow versions, so that they can be ordered.

    A version that is registered with an equal definition is left as it is; a changed definition needs a new
    version, because orders in flight run by the old one. All targets are checked before anything is written.

    \b
    Examples:
      triumvir workflows apply workflows.yaml
      triumvir workflows apply shop.workflow:order_fulfilment
    """
    found = [workflow for target in targets for workflow in load_workflows(target)]
    for line in run(apply(settings(), found)):
        say(line)


async def apply(settings: Settings, workflows: Sequence[Workflow]) -> list[str]:
    """Register them all or none; a line about each. Raises DefinitionError for a changed one."""
    async with connect(settings) as connection, connection.transaction():
        return [
            f"{workflow.name} v{workflow.version}: {await apply_workflow(connection, workflow)}"
            for workflow in workflows
        ]


@app.command("list")
def list_workflows(
    as_json: Annotated[bool, typer.Option("--json", help="A JSON array with definitions.")] = False,
) -> None:
    """List every registered version.

    \b
    Example:
      triumvir workflows list
    """

    async def read() -> list[WorkflowRow]:
        async with connect(settings()) as connection:
            return await Reads(connection).workflows()

    found = run(read())
    if as_json:
        write_json([_members(row) for row in found])
        return
    show_rows(
        ("workflow", "version", "on error", "steps", "applied"),
        (_row(row) for row in found),
        nothing="no workflows; register one with: triumvir workflows apply FILE.yaml",
    )


@app.command("show")
def show_workflow(
    what: Annotated[
        str, typer.Argument(metavar="WORKFLOW", help="A registered name, or what apply takes: FILE.yaml, ….")
    ],
    version: Annotated[int | None, typer.Option(min=1, help="Default: the latest.")] = None,
    form: Annotated[
        Format, typer.Option("--format", help="Text, a Mermaid flowchart, or JSON.")
    ] = Format.TEXT,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Draw a workflow: steps, conditions, selections, undos, time limits.

    JSON is a definition that can be applied again.

    \b
    Examples:
      triumvir workflows show order-fulfilment --version 1
      triumvir workflows show workflows.yaml --format mermaid
    """
    chosen = chosen_workflows(what, version)
    if as_json or form is Format.JSON:
        definitions = [orjson.loads(each.to_json()) for each in chosen]
        write_json(definitions[0] if len(definitions) == 1 else definitions)
        return
    for number, workflow in enumerate(chosen):
        if number:
            say("")
        if form is Format.MERMAID:
            say("\n".join(workflow_view.mermaid(workflow)))
        else:
            for line in workflow_view.text(workflow):
                stdout().print(line, soft_wrap=True)


def chosen_workflows(what: str, version: int | None) -> list[Workflow]:
    """The workflows that a command names: the latest registered one, or all that a file or module has; or those of
    that version. Raises ConfigurationError if there are none.
    """
    found = load_workflows(what) if is_target(what) else run(_registered(what))
    chosen = [each for each in found if version in (None, each.version)]
    if not chosen:
        known = ", ".join(str(each.version) for each in found)
        raise ConfigurationError(f"{what} has no version {version}; there is {known}")
    return chosen if is_target(what) else chosen[-1:]


async def _registered(name: str) -> list[Workflow]:
    """The versions of a registered workflow, oldest first."""
    async with connect(settings()) as connection:
        rows = await Reads(connection).workflows()
    found = [Workflow.from_json(row.definition) for row in rows if row.name == name]
    if not found:
        names = sorted({row.name for row in rows})
        near = get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(names) or 'none'}"
        raise ConfigurationError(
            f"no workflow {name!r} is registered; {hint} (a file: workflows show FILE.yaml)"
        )
    return found


def _members(row: WorkflowRow) -> dict[str, Any]:
    definition = orjson.loads(row.definition)
    return {"name": row.name, "version": row.version, "applied_at": row.at, "definition": definition}


def _row(row: WorkflowRow) -> tuple[str, ...]:
    workflow = Workflow.from_json(row.definition)
    steps = " → ".join(map(_named, workflow.steps))
    return row.name, str(row.version), workflow.on_error, steps, moment(row.at)


def _named(step: Stage) -> str:
    if isinstance(step, Wait):
        return f"{step.name} (waits)"
    marks = [mark for mark, has in (("when", step.when), ("undo", step.undo)) if has]
    return f"{step.name} ({', '.join(marks)})" if marks else step.name
