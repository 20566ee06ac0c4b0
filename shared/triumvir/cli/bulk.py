"""``triumvir orders bulk``: what operators do with many orders at once: look first, at a rate, and safely again."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, Final, get_args

import typer
from rich.markup import escape

from triumvir.cli import bulk_view, order_view
from triumvir.cli.bulk_options import (
    AsJson,
    Client,
    Error,
    Held,
    Id,
    Limit,
    Older,
    Rate,
    Result,
    States,
    Step,
    StopAt,
    Version,
    Wait,
    Why,
    Workflow,
    Yes,
    result_of,
    seconds_of,
    states_of,
)
from triumvir.cli.bulk_view import Preview
from triumvir.cli.equipment import settings
from triumvir.cli.output import moment, note, run, say, show_rows, write_json
from triumvir.errors import ConfigurationError
from triumvir.store import bulk_run, bulks
from triumvir.store.bulk_run import Pace, Progress
from triumvir.store.bulks import FITS, Bulk, BulkAction, Filter, Tally
from triumvir.store.operators import connect

app = typer.Typer(
    help="Move many orders at once: a filter, a preview, a rate; what was selected stays selected.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_WORDS: Final[dict[BulkAction, str]] = {
    "retry": "Retry the failed step of many orders.",
    "skip": "Count the failed step, or undo, of many orders as done by hand.",
    "compensate": "Undo many orders.",
    "resume": "Go on undoing many orders.",
    "close": "End many orders that rest.",
    "cancel": "Cancel many orders.",
    "pause": "Pause many orders, each by itself.",
    "unpause": "Let many paused orders go on.",
}


def _explained(action: BulkAction) -> str:
    """What its help says."""
    fitting = ", ".join(f"`{state}`" for state in order_view.STATES if state in FITS[action])
    return f"""{_WORDS[action]} Without --state: those in {fitting}.

    What matches is selected now and kept under an id; then you are shown what it is, and asked. Each order is moved
    only if it is still as it was selected. To go on after an interruption: orders bulk run ID. Nothing is done twice.

    \b
    Example:
      triumvir orders bulk {action} --workflow order-fulfilment --older-than 30m --reason "INC-4711"
    """


def _command(action: BulkAction) -> Callable[..., None]:
    """The command of one action; all of them take the same options."""

    def command(
        reason: Why,
        workflow: Workflow = None,
        version: Version = None,
        client: Client = None,
        state: States = None,
        step: Step = None,
        error_like: Error = None,
        older_than: Older = None,
        held_by: Held = None,
        limit: Limit = None,
        result: Result = None,
        yes: Yes = False,
        rate: Rate = 20,
        stop_at: StopAt = 20,
        wait: Wait = 60,
        as_json: AsJson = False,
    ) -> None:
        chosen = Filter(
            workflow=workflow,
            version=version,
            client=client,
            states=states_of(state),
            step=step,
            error=error_like,
            older_than=None if older_than is None else seconds_of(older_than),
            held_by=held_by,
            limit=limit,
        )
        shown = _select(action, chosen, reason, result_of(action, result))
        _go(shown, Pace(rate, stop_at / 100, wait), yes=yes, as_json=as_json)

    command.__doc__ = _explained(action)
    return command


for _action in get_args(BulkAction):
    app.command(_action)(_command(_action))


@app.command("run")
def run_bulk(
    bulk_id: Id,
    yes: Yes = False,
    rate: Rate = 20,
    stop_at: StopAt = 20,
    wait: Wait = 60,
    as_json: AsJson = False,
) -> None:
    """Do what was selected, or go on with it: after an interruption, a stop, or beside somebody else.

    \\b
    Example:
      triumvir orders bulk run 3f2a9c01 --rate 5 --yes
    """

    async def read() -> Preview:
        async with connect(settings()) as connection:
            return await bulk_view.preview(connection, await bulks.find(connection, bulk_id))

    _go(run(read()), Pace(rate, stop_at / 100, wait), yes=yes, as_json=as_json)


@app.command("show")
def show_bulk(bulk_id: Id, as_json: AsJson = False) -> None:
    """Show what was selected, how far it is, what was refused, who ran it, and what the orders are now.

    \\b
    Example:
      triumvir orders bulk show 3f2a9c01
    """

    async def read() -> dict[str, Any]:
        async with connect(settings()) as connection:
            bulk = await bulks.find(connection, bulk_id)
            most = 1_000_000 if as_json else bulk_view.MOST_FAILURES
            return {
                "preview": await bulk_view.preview(connection, bulk),
                "tally": await bulks.tally(connection, bulk),
                "failures": await bulks.look(connection, "failures", bulk, most=most),
                "states": await bulks.look(connection, "states", bulk),
                "log": await bulks.log(connection, bulk),
            }

    found = run(read())
    if as_json:
        members = asdict(found.pop("preview"))
        write_json({**members.pop("bulk"), **members, **found})
        return
    bulk_view.draw(found["preview"])
    say(f"\n{bulk_view.told(found['tally'])}")
    say("now: " + ", ".join(f"{row['orders']} {row['state']}" for row in found["states"]))
    bulk_view.show_failures(found["failures"], found["tally"])
    say("")
    for event in found["log"]:
        say(f"{moment(event.at)}  {event.who}  {event.what}{f': {event.note}' if event.note else ''}")


@app.command("list")
def list_bulks(
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List what was selected, the newest first, and how far each is.

    \\b
    Example:
      triumvir orders bulk list
    """

    async def read() -> list[tuple[Bulk, Tally]]:
        async with connect(settings()) as connection:
            return [
                (each, await bulks.tally(connection, each)) for each in await bulks.newest(connection, limit)
            ]

    found = run(read())
    if as_json:
        write_json([{**asdict(bulk), "tally": tally} for bulk, tally in found])
        return
    show_rows(
        ("id", "what", "orders", "how far", "selected", "by", "reason"),
        (
            (
                b.id,
                b.action,
                str(b.orders),
                bulk_view.told(t),
                moment(b.at),
                b.who,
                escape(b.reason),
            )
            for b, t in found
        ),
        nothing="nothing was selected yet",
    )


def _select(action: BulkAction, chosen: Filter, reason: str, result: str | None) -> Preview:
    if not reason.strip():
        raise typer.BadParameter("say why, for whoever reads it later", param_hint="--reason")

    async def do() -> Preview:
        async with connect(settings()) as connection:
            made = await bulks.select(connection, action, chosen, who=_who(), reason=reason, result=result)
            return await bulk_view.preview(connection, made)

    return run(do())


def _go(shown: Preview, pace: Pace, *, yes: bool, as_json: bool) -> None:
    """Shows it, asks, and runs it; exit code 1 if it stopped, or if anything failed."""
    bulk = shown.bulk
    if not as_json:
        bulk_view.draw(shown) if bulk.orders else note("no such orders; nothing was done")
    if not bulk.orders or not (yes or _is_wanted(bulk, as_json=as_json)):
        if as_json:
            write_json({**asdict(shown), "run": None})
        elif bulk.orders:
            note(f"nothing was done yet; to do it: triumvir orders bulk run {bulk.id}")
        return
    last, failures = run(_run(bulk, pace, quiet=as_json))
    if as_json:
        write_json({**asdict(shown), "run": {**asdict(last), "failures": failures}})
    else:
        _conclude(bulk, last, failures)
    if last.stopped is not None or last.tally.refused or last.tally.fell_back:
        raise typer.Exit(1)


def _is_wanted(bulk: Bulk, *, as_json: bool) -> bool:
    if as_json or not sys.stdin.isatty():
        return False
    return typer.confirm(f"\n{bulk.action} these {bulk.orders} orders?", err=True)


async def _run(bulk: Bulk, pace: Pace, *, quiet: bool) -> tuple[Progress, list[dict[str, Any]]]:
    last: Progress | None = None
    async with connect(settings()) as connection:
        with bulk_view.bar(bulk) as bar:
            async for last in bulk_run.run(connection, bulk, _who(), pace):
                bar.show(last.tally)
        most = 1_000_000 if quiet else bulk_view.MOST_FAILURES
        failures = await bulks.look(connection, "failures", bulk, most=most)
    if last is None:
        raise ConfigurationError(f"bulk {bulk.id} was removed meanwhile")
    return last, failures


def _conclude(bulk: Bulk, last: Progress, failures: list[dict[str, Any]]) -> None:
    say(f"\n{bulk_view.told(last.tally)}")
    bulk_view.show_failures(failures, last.tally)
    if last.stopped is not None:
        note(f"stopped: {last.stopped}; to go on where it is: triumvir orders bulk run {bulk.id}")
    note(f"what becomes of them: triumvir orders bulk show {bulk.id}")


def _who() -> str:
    return f"operator:{getpass.getuser()}"
