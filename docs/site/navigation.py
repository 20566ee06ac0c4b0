"""The navigation of the site, and links to what is no page.

A new page under ``docs/`` needs nothing here: the last entry of each part picks up what no other names.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

from sphinx.application import Sphinx

PARTS: Final = {
    "Start": (
        "/README",
        "/docs/tutorial",
        "/docs/concepts",
        "/docs/authoring",
        "/docs/testing-workflows",
        "/docs/workflows-in-yaml",
    ),
    "How to": ("/docs/howto/index", "/docs/howto/*"),
    "Reference": ("/docs/reference/*", "/docs/protocol"),
    "Run": ("/docs/operations", "/docs/guarantees", "/docs/faults", "/docs/performance"),
    "Inside": (
        "/docs/lifecycle",
        "/docs/decisions",
        "/services/*/README",
        "/examples/**/README",
        "/CHANGELOG",
    ),
    "More": ("/docs/*",),
}
"""The parts of the sidebar, each with its pages in order; ``*`` stands for every page not named before."""

_LINK: Final = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#:]+)\)")


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("source-read", _prepare)
    app.connect("build-finished", _lead_to_the_first_page)
    return {"parallel_read_safe": True}


def _prepare(app: Sphinx, name: str, source: list[str]) -> None:
    folder = (Path(app.srcdir) / name).parent
    source[0] = _LINK.sub(lambda link: _followed(link, folder), source[0])
    if name == app.config.root_doc:
        source[0] += "".join(_part(app, caption, pages) for caption, pages in PARTS.items())


def _followed(link: re.Match[str], folder: Path) -> str:
    """A link to a folder or a source file is its text: the site holds pages."""
    text, target = link.groups()
    leads_out = (folder / target).is_dir() or Path(target).suffix not in (".md", ".json", ".yaml")
    return text if leads_out and (folder / target).exists() else link[0]


def _part(app: Sphinx, caption: str, pages: tuple[str, ...]) -> str:
    named = {page for part in PARTS.values() for page in part if "*" not in page}
    entries = []
    for page in pages:
        found = sorted(_matching(Path(app.srcdir), page)) if "*" in page else [page]
        entries += [each for each in found if each not in entries and (each not in named or each == page)]
    entries = [each for each in entries if each != f"/{app.config.root_doc}"]
    listed = "\n".join(entries)
    return (
        f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n:maxdepth: 2\n\n{listed}\n```\n"
        if entries
        else ""
    )


def _matching(root: Path, pattern: str) -> set[str]:
    return {
        "/" + str(path.relative_to(root).with_suffix(""))
        for path in root.glob(pattern.removeprefix("/") + ".md")
        if "node_modules" not in path.parts
    }


def _lead_to_the_first_page(app: Sphinx, error: Exception | None) -> None:
    if error is None:
        first = f"{app.config.root_doc}.html"
        page = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={first}">'
        Path(os.fspath(app.outdir), "index.html").write_text(f'{page}<a href="{first}">Triumvir</a>\n')
