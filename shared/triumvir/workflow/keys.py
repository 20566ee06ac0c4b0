"""The keys of a workflow file: which there are, which are needed, and what is meant by words that are none."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

WORKFLOW_KEYS: Final = (
    "name",
    "version",
    "on_error",
    "undo_order",
    "classification",
    "retention_days",
    "steps",
)
STEP_KEYS: Final = (
    "name", "agent", "operation", "undo", "undo_rank", "complete_within", "complete_within_ms", "when", "select",
    "on_timeout", "main_line", "recoverable",
)  # fmt: skip
WORKFLOW_NEEDS: Final = ("name", "version", "steps")
STEP_NEEDS: Final = ("name", "agent", "operation")
WAIT_KEYS: Final = ("name", "signal", "within", "within_ms", "default", "when")
WAIT_NEEDS: Final = ("name", "signal")
_MEANT: Final = {
    "timeout": "complete_within", "if": "when", "condition": "when", "input": "select", "arguments": "select",
    "compensate": "undo", "compensation": "undo",
}  # fmt: skip
"""Keys of other systems, by what they are called here."""


def suggestion(key: str, known: tuple[str, ...]) -> str:
    """What to write instead of a key that is none of these."""
    near = get_close_matches(key, known, n=1)
    meant = _MEANT.get(key) or (near[0] if near else None)
    return f"did you mean {meant!r}?" if meant in known else f"the keys are {', '.join(known)}"
