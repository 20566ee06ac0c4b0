"""In which order a workflow takes effects back, and the rank of a step where that is by rank."""

from __future__ import annotations

from typing import Final, Literal, get_args

from triumvir.errors import DefinitionError

UndoOrder = Literal["reverse", "by-rank", "parallel"]
MAX_RANK: Final = 1000
Path = tuple[str | int, ...]


def check_undo_order(undo_order: object, where: str) -> None:
    """Raises DefinitionError."""
    if undo_order not in get_args(UndoOrder):
        problem = f"undo_order is {undo_order!r:.80}; give 'reverse', 'by-rank' or 'parallel'"
        raise DefinitionError(problem, where=where, path=("undo_order",))


def check_rank(rank: object, undo: str | None, where: str) -> None:
    """The rank of a step by itself. Raises DefinitionError."""
    if isinstance(rank, bool) or not isinstance(rank, int) or not 1 <= rank <= MAX_RANK:
        problem = f"undo_rank is {rank!r:.80}; give a whole number from 1 to {MAX_RANK}"
    elif undo is None:
        problem = "undo_rank stands without undo; name the operation that undoes the step, or leave it out"
    else:
        return
    raise DefinitionError(problem, where=where, path=("undo_rank",))


def check_is_ranked(
    rank: int | None, undo: str | None, undo_order: UndoOrder, where: str, path: Path
) -> None:
    """A step has a rank where it is undone by rank, and nowhere else. Raises DefinitionError."""
    by_rank = undo_order == "by-rank"
    if by_rank and undo is not None and rank is None:
        problem = f"undo_rank is missing; add one of 1 to {MAX_RANK}: the workflow is undone by rank"
    elif rank is not None and not by_rank:
        problem = f"undo_rank says nothing where undo_order is {undo_order}; make that by-rank"
    else:
        return
    raise DefinitionError(problem, where=where, path=(*path, "undo_rank"))
