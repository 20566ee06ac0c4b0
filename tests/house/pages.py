"""The documentation's pages, cut into code blocks and links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.house.source import ROOT

_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE
)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE_SPAN = re.compile(r"`([^`\n]+)`")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


class Block(NamedTuple):
    """One fenced block. ``info`` is what follows the opening fence: the language, then words such as
    ``runnable`` or ``file=parcels.py``."""

    page: str
    line: int
    info: tuple[str, ...]
    text: str

    @property
    def language(self) -> str:
        return self.info[0] if self.info else ""

    @property
    def file(self) -> str | None:
        return next((word.removeprefix("file=") for word in self.info if word.startswith("file=")), None)


def pages() -> list[Path]:
    """Every Markdown page of the project."""
    found = [ROOT / "README.md", ROOT / "CHANGELOG.md"]
    for folder in ("docs", "services", "examples", "deploy", "benchmarks"):
        found += sorted((ROOT / folder).rglob("*.md"))
    return found


def blocks(page: str) -> list[Block]:
    """The code blocks of one page, in order."""
    text = (ROOT / page).read_text()
    return [
        Block(page, text.count("\n", 0, match.start()) + 1, tuple(match["info"].split()), _text(match))
        for match in _BLOCK.finditer(text)
    ]


def _text(block: re.Match[str]) -> str:
    """Without the indentation that a block in a list has."""
    return re.sub(f"^{block['indent']}", "", block["text"], flags=re.MULTILINE)


def files(page: str) -> dict[str, str]:
    """The files that a page tells its reader to write, by name."""
    return {block.file: block.text for block in blocks(page) if block.file is not None}


def links(page: Path) -> Iterator[str]:
    """The targets of its links."""
    yield from _LINK.findall(_BLOCK.sub("", page.read_text()))


def code_spans(page: Path) -> Iterator[str]:
    """What stands between single backticks."""
    yield from _CODE_SPAN.findall(_BLOCK.sub("", page.read_text()))


def anchors(page: Path) -> set[str]:
    """The fragments that its headings can be linked by."""
    headings = _HEADING.findall(_BLOCK.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
