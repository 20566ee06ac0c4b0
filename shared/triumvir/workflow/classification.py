"""How the data of a kind of order is to be handled: everything that its steps, undos and alerts hold inherits it."""

from __future__ import annotations

from typing import Final, Literal, get_args

from triumvir.errors import DefinitionError

Classification = Literal["open", "confidential"]
MOST_DAYS: Final = 36_500


def check_classification(classification: object, where: str) -> None:
    """Raises DefinitionError."""
    if classification not in get_args(Classification):
        problem = f"classification is {classification!r:.80}; give 'open' or 'confidential'"
        raise DefinitionError(problem, where=where, path=("classification",))


def check_retention(days: object, where: str) -> None:
    """Raises DefinitionError."""
    if days is None:
        return
    if isinstance(days, bool) or not isinstance(days, int) or not 1 <= days <= MOST_DAYS:
        problem = f"retention_days is {days!r:.80}; give a whole number of days from 1 to {MOST_DAYS}, or leave it out"
        raise DefinitionError(problem, where=where, path=("retention_days",))
