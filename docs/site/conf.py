"""How the documentation becomes a site. ``make docs`` builds it into ``build/site``, with warnings as errors.

Pages are plain Markdown, linked as they lie in the repository, so the source of the site is the repository itself.
The names here are Sphinx's.
"""

from __future__ import annotations

import sys
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any, Final

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))  # the extensions beside this file

project = "Triumvir"
author = "the authors of Triumvir"
copyright = author  # noqa: A001 - Sphinx's name
version = release = installed_version("triumvir")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinxcontrib.mermaid", "navigation", "commands"]
root_doc = "docs/index"
include_patterns = [
    "README.md", "CHANGELOG.md", "docs/**.md", "services/*/README.md", "examples/**/README.md",
]  # fmt: skip
exclude_patterns = [".*", "build", "dist", "**/node_modules"]

nitpicky = True  # a name that leads nowhere is a warning, and so an error
nitpick_ignore_regex = [
    ("py:class", r"triumvir\.store\.business\.BusinessConnection"),  # an asyncpg.Connection; the page says so
    (r"py:.*", r"(?!triumvir).*"),  # the standard library and pydantic: the build asks no other site
    (r"py:.*", r"triumvir\.agent\.authoring\.F"),  # a type variable: what is decorated stays what it is
    (r"py:.*", r"triumvir\.store\.business\.BusinessConnection"),  # a connection of asyncpg
    (r"py:.*", r"triumvir\.contracts\.json_text\..*"),  # a payload that is JSON text already
]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
myst_fence_as_directive = ["mermaid"]
suppress_warnings = ["misc.highlighting_failure"]  # messages and consoles carry a word after the fence

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
add_module_names = False
maximum_signature_line_length = 90

html_theme = "furo"
html_title = f"Triumvir {release}"
html_copy_source = False
html_show_sphinx = False

MADE_BY_TRIUMVIR: Final = (
    "Order",
    "BlockingOrder",
    "Context",
    "Status",
    "Submitted",
    "Outcome",
    "RehearsedCall",
    "StepRecord",
    "LogRow",
    "Alert",
)
"""Users are handed these; how they are made is nothing to them."""


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-signature", _signature)


def _signature(*event: Any) -> tuple[str, str] | None:
    _, kind, name, *_ = event
    return ("", "") if kind == "class" and name.rpartition(".")[2] in MADE_BY_TRIUMVIR else None
