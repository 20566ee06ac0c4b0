"""``triumvir agents``: which run, what they offer, and what waits for them. Pausing them is in pauses.py."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, field
from typing import Annotated

import typer
from rich.markup import escape

from triumvir.cli.equipment import settings
from triumvir.cli.output import NONE, moment, run, show_rows, write_json
from triumvir.store import pauses
from triumvir.store.operators import connect
from triumvir.store.pauses import Pause
from triumvir.store.reads import Reads
from triumvir.store.statements import Connection, statement
from triumvir.workflow import Wait, Workflow

app = typer.Typer(help="Agents: which run, and pausing them.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_agents(
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
) -> None:
    """List the agents that run, or that workflows need, with the orders that are held because of them.

    \b
    Example:
      triumvir agents list
    """

    async def read() -> list[AgentRow]:
        async with connect(settings()) as connection:
            return await known(connection)

    found = run(read())
    if as_json:
        write_json([asdict(row) for row in found])
        return
    show_rows(
        ("agent", "instances", "slots", "operations", "orders held", "paused"),
        (_agent_row(row) for row in found),
        nothing="no agent runs, and no workflow needs one",
    )


@dataclass(slots=True)
class AgentRow:
    """What is known of an agent. ``held``: orders held by reasons that name it."""

    name: str
    instances: int = 0
    slots: int = 0
    operations: set[str] = field(default_factory=set)
    held: int = 0
    paused: Pause | None = None


async def known(connection: Connection) -> list[AgentRow]:
    """Every agent that runs, that a workflow names, or that is paused; by name."""
    rows: dict[str, AgentRow] = {name: AgentRow(name) for name in await _needed(connection)}
    for instance in await statement("live_instances").rows(connection):
        offered: dict[str, set[str]] = defaultdict(set)
        for operation in instance["operations"]:
            agent, _, name = operation.partition("/")
            offered[agent].add(name)
        for agent, names in offered.items():
            row = rows.setdefault(agent, AgentRow(agent))
            row.instances, row.slots = row.instances + 1, row.slots + instance["slots"]
            row.operations |= names
    for reason, orders in (await held(connection)).items():
        row = rows.get(_agent_of(reason), AgentRow(""))
        row.held += orders
    for pause in await pauses.in_force(connection):
        if pause.scope == "agent":
            rows.setdefault(pause.name, AgentRow(pause.name)).paused = pause
    return [rows[name] for name in sorted(rows)]


def _agent_of(reason: str) -> str:
    """The agent that a reason to hold names: ``agent:a``, ``operation:a/b``, ``window:a``, ``pause:agent:a``."""
    return reason.removeprefix("pause:").partition(":")[2].partition("/")[0]


async def held(connection: Connection) -> dict[str, int]:
    """How many orders each reason holds."""
    rows = await statement("count_held").rows(connection)
    return {row["held_by"]: row["orders"] for row in rows}


async def _needed(connection: Connection) -> set[str]:
    """The agents that workflows name."""
    found = [Workflow.from_json(row.definition) for row in await Reads(connection).workflows()]
    return {step.agent for workflow in found for step in workflow.steps if not isinstance(step, Wait)}


def _agent_row(row: AgentRow) -> tuple[str, ...]:
    paused = NONE
    if row.paused is not None:
        paused = escape(f"by {row.paused.who} since {moment(row.paused.at)}: {row.paused.reason}")
    operations = ", ".join(sorted(row.operations)) or "[bold red]none runs[/bold red]"
    return row.name, str(row.instances), str(row.slots), operations, str(row.held), paused
