"""The commands put together, and how they end."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Final, NoReturn

import typer

from triumvir.cli import (
    agents,
    bulk,
    clients,
    dead,
    dev,
    doctor,
    migrate,
    moves,
    orders,
    pauses,
    plan,
    policy,
    run,
    schema,
    signals,
    submit,
    watch,
    workflows,
)
from triumvir.cli.equipment import is_debugging
from triumvir.errors import DefinitionFileError, TriumvirError
from triumvir.telemetry.redaction import Redactor

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130

app = typer.Typer(
    name="triumvir",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
app.command("dev")(dev.dev)
app.command("submit")(submit.submit)
app.command("watch")(watch.watch)
for name, move in moves.COMMANDS.items():
    orders.app.command(name)(move)
orders.app.command("signal")(signals.signal)
orders.app.add_typer(bulk.app, name="bulk")
app.add_typer(orders.app, name="orders")
app.add_typer(dead.app, name="dead")
app.add_typer(clients.app, name="clients")
for verb, pausing in pauses.WORKFLOW_COMMANDS.items():
    workflows.app.command(verb)(pausing)
app.add_typer(workflows.app, name="workflows")
app.add_typer(agents.app, name="agents")
app.add_typer(pauses.app, name="pauses")
app.add_typer(policy.app, name="policy")
app.command("plan")(plan.plan)
app.command("doctor")(doctor.doctor)
app.command("schema")(schema.schema)
app.command("migrate")(migrate.migrate)
app.command("run", context_settings={"ignore_unknown_options": True})(run.run)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"triumvir {version('triumvir')}")
        raise typer.Exit


@app.callback()
def triumvir(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Durable multi-step orders over RabbitMQ and Postgres.

    Servers are found by TRIUMVIR_BROKER_URL, TRIUMVIR_MANAGEMENT_URL and TRIUMVIR_DATABASE_URL; a client by
    TRIUMVIR_CLIENT_URL. TRIUMVIR_LOG_LEVEL=DEBUG shows tracebacks. Exit codes: 0 done, 1 failed, 2 wrong usage.

    \b
    Everything on this machine, in one command:
      triumvir dev --workflow shop.workflow:order_fulfilment shop.agents:payments
    """


def execute(arguments: Sequence[str]) -> int:
    """Run one command; its exit code. Each error is a line on standard error."""
    try:
        code = app(list(arguments), prog_name="triumvir", standalone_mode=False)
        return code if isinstance(code, int) else EXIT_OK
    except typer.TyperException as error:
        return _complain_of_usage(error)
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except DefinitionFileError as error:
        return _fail(*error.faults, prefix="")
    except TriumvirError as error:
        return _fail(str(error))
    except Exception as error:  # noqa: BLE001 - the last resort: one line instead of a traceback
        return _fail(
            f"internal error: {type(error).__name__}: {error} (TRIUMVIR_LOG_LEVEL=DEBUG shows where)"
        )


def main() -> NoReturn:
    """The command ``triumvir``."""
    sys.exit(execute(sys.argv[1:]))


def _complain_of_usage(error: typer.TyperException) -> int:
    context = getattr(error, "ctx", None)
    text = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(text, err=True)
    else:
        hint = f" (see: {context.command_path} --help)" if context is not None else ""
        _complain(f"{text.rstrip('.')}{hint}")
    return error.exit_code


def _fail(*texts: str, prefix: str = "triumvir: ") -> int:
    """To be called while the error is handled. Without a prefix a line begins with its file, as editors want it."""
    for text in texts:
        _complain(text, prefix)
    if is_debugging():
        traceback.print_exc()
    return EXIT_FAILED


def _complain(text: str, prefix: str = "triumvir: ") -> None:
    line = " ".join(Redactor().text(text).split())
    typer.echo(f"{prefix}{line}", err=True)
