"""``triumvir workflows|agents pause|unpause``, ``agents list``, ``pauses``: what stands still as a whole; by whom."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterable
from dataclasses import asdict
from difflib import get_close_matches
from typing import Annotated, Any, Final

import typer
from rich.markup import escape

from triumvir.cli import agents
from triumvir.cli.equipment import settings
from triumvir.cli.output import moment, note, run, say, show_rows, write_json
from triumvir.cli.standing import unpausing, what
from triumvir.errors import ConfigurationError
from triumvir.store import pauses
from triumvir.store.operators import connect
from triumvir.store.pauses import Pause, PauseEvent, Scope
from triumvir.store.reads import Reads
from triumvir.store.statements import Connection

app = typer.Typer(
    help="What operators paused: workflows and agents (orders: `orders list --held`).",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_SOON: Final = "schedulers see it within a second or two"

Name = Annotated[str, typer.Argument(metavar="NAME")]
Why = Annotated[str, typer.Option("--reason", help="Why; kept, and shown with every order that it holds.")]
Reason = Annotated[str | None, typer.Option(help="Why; kept in the log.")]
Version = Annotated[int | None, typer.Option(min=1, help="Only this version; else all, later ones too.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of a table.")]


def pause_workflow(name: Name, reason: Why, version: Version = None) -> None:
    """Have all orders of a workflow stand still: those that wait, those that run, those that are undone.

    What is under way runs to its answer or deadline, then its order is held. Nothing is counted against an order for
    that. New orders are accepted, and held. Twice is as good as once.

    \b
    Example:
      triumvir workflows pause order-fulfilment --reason "the bank is down, INC-4711"
    """
    _pause("workflow", name, version, reason)


def unpause_workflow(name: Name, reason: Reason = None, version: Version = None) -> None:
    """Let the orders of a workflow go on, as many at a time as agents can take.

    \b
    Example:
      triumvir workflows unpause order-fulfilment --reason "the bank is back"
    """
    _unpause("workflow", name, version, reason)


@agents.app.command("pause")
def pause_agent(name: Name, reason: Why) -> None:
    """Have nothing new sent to an agent, of whichever workflow: for a service that is down.

    Orders go on until they need it, then they are held. What is under way runs to its answer or deadline. Nothing is
    counted against an order for that. Twice is as good as once.

    \b
    Example:
      triumvir agents pause payments --reason "the bank is down, INC-4711"
    """
    _pause("agent", name, None, reason)


@agents.app.command("unpause")
def unpause_agent(name: Name, reason: Reason = None) -> None:
    """Let an agent be sent requests again; the orders that waited for it, as many at a time as it can take.

    \b
    Example:
      triumvir agents unpause payments --reason "the bank is back"
    """
    _unpause("agent", name, None, reason)


@app.command("list")
def list_pauses(as_json: AsJson = False) -> None:
    """List what is paused now.

    \b
    Example:
      triumvir pauses list
    """

    async def read() -> list[tuple[Pause, int]]:
        async with connect(settings()) as connection:
            held = await agents.held(connection)
            return [(pause, held.get(pause.held_by, 0)) for pause in await pauses.in_force(connection)]

    found = run(read())
    if as_json:
        write_json([{**asdict(pause), "orders_held": held} for pause, held in found])
        return
    show_rows(
        ("paused", "since", "by", "reason", "orders held", "to go on"),
        (
            (what(p), moment(p.at), escape(p.who), escape(p.reason), str(held), unpausing(p))
            for p, held in found
        ),
        nothing="no workflow and no agent is paused; single orders: triumvir orders list --held",
    )


@app.command("log")
def show_log(
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Show who paused and unpaused which workflow or agent, when and why, the newest first.

    \b
    Example:
      triumvir pauses log --limit 10
    """

    async def read() -> list[PauseEvent]:
        async with connect(settings()) as connection:
            return await pauses.log(connection, limit)

    found = run(read())
    if as_json:
        write_json(found)
        return
    show_rows(
        ("at", "what", "by", "happened", "reason"),
        (
            (
                moment(e.at),
                f"{e.scope} {e.name}{f' v{e.version}' if e.version else ''}",
                escape(e.who),
                e.what,
                escape(e.reason or ""),
            )
            for e in found
        ),
        nothing="nothing was ever paused",
    )


async def _check_workflow(connection: Connection, name: str, version: int | None) -> None:
    found = await Reads(connection).workflows()
    versions = [row.version for row in found if row.name == name]
    if not versions:
        raise ConfigurationError(
            f"no workflow {name!r} is registered; {_meant(name, {row.name for row in found})}"
        )
    if version is not None and version not in versions:
        known = ", ".join(map(str, versions))
        raise ConfigurationError(f"workflow {name} has no version {version}; there is {known}")


async def _check_agent(connection: Connection, name: str) -> None:
    known = {row.name for row in await agents.known(connection)}
    if name not in known:
        raise ConfigurationError(f"no workflow needs an agent {name!r}, and none runs; {_meant(name, known)}")


def _meant(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else f"there is {', '.join(sorted(known)) or 'none'}"


def _pause(scope: Scope, name: str, version: int | None, reason: str) -> None:
    if not reason.strip():
        raise typer.BadParameter("say why, for whoever finds it paused", param_hint="--reason")

    async def do() -> tuple[Pause, bool]:
        async with connect(settings()) as connection:
            if scope == "workflow":
                await _check_workflow(connection, name, version)
            else:
                await _check_agent(connection, name)
            return await pauses.pause(connection, scope, name, version or 0, _who(), reason)

    pause, is_new = run(do())
    if is_new:
        say(f"{what(pause)} is paused by {pause.who}; {_SOON}")
        note(f"to go on: {unpausing(pause)}")
    else:
        say(f"{what(pause)} is paused already, by {pause.who} since {moment(pause.at)}: {pause.reason}")


def _unpause(scope: Scope, name: str, version: int | None, reason: str | None) -> None:
    async def do() -> tuple[Pause | None, list[Pause]]:
        async with connect(settings()) as connection:
            ended = await pauses.unpause(connection, scope, name, version or 0, _who(), reason)
            return ended, await pauses.in_force(connection)

    ended, left = run(do())
    others = [pause for pause in left if (pause.scope, pause.name) == (scope, name)]
    if ended is not None:
        say(f"{what(ended)} goes on; it was paused by {ended.who} since {moment(ended.at)}: {ended.reason}")
        note("its orders are let go on some at a time; how many are left: triumvir orders list --held")
    else:
        say(f"{scope} {name}{f' v{version}' if version else ''} was not paused; nothing was done")
    for pause in others:
        note(f"{what(pause)} is still paused, by {pause.who}: {pause.reason}; to go on: {unpausing(pause)}")


def _who() -> str:
    return f"operator:{getpass.getuser()}"


WORKFLOW_COMMANDS: Final[dict[str, Callable[..., Any]]] = {
    "pause": pause_workflow,
    "unpause": unpause_workflow,
}
