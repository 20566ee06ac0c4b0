"""The commands that pages show, and whether they could be typed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import typer.main

from tests.house.pages import Block
from tests.house.source import ROOT
from triumvir.cli.app import app

SHELLS = ("console", "sh", "bash", "cron")
_BREAKS = frozenset("|&;()")
_ASSIGNMENT = re.compile(r"^[A-Za-z_]+=")
_TARGETS = frozenset(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def shown(block: Block) -> Iterator[list[str]]:
    """Each simple command of a block, as words, without assignments, redirections and what runs it in a container."""
    if block.language not in SHELLS:
        return
    for line in block.text.replace("\\\n", " ").splitlines():
        if block.language == "console":
            if not line.startswith("$ "):
                continue
            line = line.removeprefix("$ ")
        if block.language == "cron":
            line = line.split(maxsplit=5)[5]
        yield from _simple(line)


def _simple(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line.replace("$(", " ( "), posix=True, punctuation_chars="|&;()<>")
    lexer.commenters = "#"
    words: list[str] = []
    for word in [*lexer, ";"]:
        if not _BREAKS.issuperset(word):
            words.append(word)
        elif words:
            yield _plain(words)
            words = []


def _plain(words: list[str]) -> list[str]:
    kept = [word for word in words if word]
    for mark in (">", ">>", "<"):
        if mark in kept:
            at = kept.index(mark)
            del kept[at - (kept[at - 1] == "2") : at + 2]
    while kept and _ASSIGNMENT.match(kept[0]):
        kept.pop(0)
    wrapped = kept[:1] == ["flock"] or kept[:3] in (
        ["docker", "compose", "exec"],
        ["docker", "compose", "run"],
    )
    return kept[kept.index("triumvir") :] if wrapped and "triumvir" in kept else kept


def fault(words: list[str]) -> str | None:
    """Why the command cannot be typed; None if it can, or is no command of this project."""
    if words[:1] == ["make"]:
        wanted = [word for word in words[1:] if not _ASSIGNMENT.match(word)]
        unknown = [word for word in wanted if word not in _TARGETS]
        return f"make has no target {unknown[0]}" if unknown else None
    if words[:1] != ["triumvir"]:
        return None
    command, rest = find(words[1:])
    if isinstance(command, str):
        return command
    try:
        command.make_context(words[0], list(rest))
    except typer.TyperException as error:
        return f"{' '.join(words)}: {error.format_message()}"
    except typer.Exit:
        return None
    return None


def find(words: list[str]) -> tuple[Any, list[str]]:
    """The command that these words call, and the words that are left for it; what is wrong, if there is none."""
    command: Any = typer.main.get_command(app)
    for at, word in enumerate(words):
        members = getattr(command, "commands", None)
        if members is None or word.startswith("-"):
            return command, words[at:]
        if word not in members:
            return f"there is no command triumvir {' '.join(words[: at + 1])}", []
        command = members[word]
    return command, []
