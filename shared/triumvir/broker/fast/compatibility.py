"""Whether the fast path may stand under the client library that is installed."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

TESTED: Final = frozenset({"7.2"})
"""Releases of aiormq, major and minor, under which all tests of the broker room pass."""

FIX: Final = "install a release that was tested, or set TRIUMVIR_TRANSPORT=stock to be rid of this warning"


def misfit() -> str | None:
    """Why the fast path is not to be used, in words; None if it may be."""
    installed = version("aiormq")
    if ".".join(installed.split(".")[:2]) in TESTED:
        return None
    return f"aiormq {installed} is installed; tested with {', '.join(sorted(TESTED))}"
