"""The reference of the command line, made from the commands themselves whenever the site is built."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import typer
import typer.main
from sphinx.application import Sphinx

from triumvir.cli.app import app as commands

PLACE: Final = "<!-- every command of triumvir stands here on the site -->"
_VERBATIM: Final = "\b\n"


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("source-read", lambda _, __, source: source.insert(0, _filled(source.pop())))
    return {"parallel_read_safe": True}


def reference() -> str:
    """Every command with its help, arguments and options, in Markdown."""
    found = dict(_walk("triumvir", typer.main.get_command(commands)))
    return "\n\n".join(_command(name, command) for name, command in found.items())


def _filled(text: str) -> str:
    return text.replace(PLACE, reference()) if PLACE in text else text


def _walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    members = getattr(command, "commands", None)
    if members is None:
        yield name, command
        return
    for each in sorted(members):
        yield from _walk(f"{name} {each}", members[each])


def _command(name: str, command: Any) -> str:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
    usage = " ".join([name, *(["[OPTIONS]"] if options else []), *map(_usage, arguments)])
    context = typer.Context(command, info_name=name)
    rows = [(f"`{_metavar(each)}`", str(each.help or "")) for each in arguments]
    records: Any = [each.get_help_record(context) for each in options]
    rows += [(f"`{spelled}`", said) for spelled, said in records]
    return "\n\n".join([f"## {name}", f"```text\n{usage}\n```", *_help(command.help or ""), *_table(rows)])


def _help(text: str) -> Iterator[str]:
    """The paragraphs of a help text; what it marks as verbatim (examples) as a block."""
    for paragraph in text.split("\n\n"):
        if not paragraph.startswith(_VERBATIM):
            yield paragraph
            continue
        lines = paragraph.removeprefix(_VERBATIM).splitlines()
        if lines[0].endswith(":"):
            yield lines.pop(0)
        yield "```console\n" + "\n".join(f"$ {line.strip()}" for line in lines) + "\n```"


def _usage(argument: Any) -> str:
    many = f"{_metavar(argument)}{'...' if argument.nargs == -1 else ''}"
    return many if argument.required else f"[{many}]"


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _table(rows: list[tuple[str, str]]) -> Iterator[str]:
    if rows:
        lines = [("", ""), ("---", "---"), *rows]
        yield "\n".join(
            f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines
        )
