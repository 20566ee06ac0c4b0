"""``triumvir workflows``: definitions in the store; services read only those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import orjson
import typer

from triumvir.cli.equipment import settings
from triumvir.cli.loading import load_workflows
from triumvir.cli.output import moment, run, say, show_rows, write_json
from triumvir.settings import Settings
from triumvir.store.operators import apply_workflow, connect
from triumvir.store.reads import Reads, WorkflowRow
from triumvir.workflow import Workflow

app = typer.Typer(
    help="Workflow definitions in the store: apply, list.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("apply")
def apply_workflows(
    targets: Annotated[list[str], typer.Argument(metavar="TARGET", help="FILE.py or module:name.")],
) -> None:
    """Register workflow versions, so that they can be ordered.

    A version that is registered with an equal definition is left as it is; a changed definition needs a new
    version, because orders in flight run by the old one. All targets are checked before anything is written.

    \b
    Examples:
      triumvir workflows apply shop.workflow:order_fulfilment
      triumvir workflows apply workflows.py
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
        nothing="no workflows; register one with: triumvir workflows apply FILE.py",
    )


def _members(row: WorkflowRow) -> dict[str, Any]:
    definition = orjson.loads(row.definition)
    return {"name": row.name, "version": row.version, "applied_at": row.at, "definition": definition}


def _row(row: WorkflowRow) -> tuple[str, ...]:
    workflow = Workflow.from_json(row.definition)
    steps = " → ".join(f"{step.name}{' (undo)' if step.undo else ''}" for step in workflow.steps)
    return row.name, str(row.version), workflow.on_error, steps, moment(row.at)
