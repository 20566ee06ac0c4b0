"""Where a step leads when its time is over. Orders only ever go down the list of steps: nothing goes round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from triumvir.errors import DefinitionError

if TYPE_CHECKING:
    from triumvir.workflow.model import Stage

ROUTE_MEMBERS: Final = ("on_timeout", "main_line", "recoverable")
"""Members of a step, of which each may be left out."""


def check_routes(steps: Sequence[Stage], where: str) -> None:
    """Whether each ``on_timeout`` names a later step, and some step is of the main line. Raises DefinitionError."""
    if not any(step.main_line for step in steps):
        problem = "no step is of the main line; leave main_line out where a step is always run"
        raise DefinitionError(problem, where=where, path=("steps", 0, "main_line"))
    for index, step in enumerate(steps):
        if step.on_timeout is None:
            continue
        problem_ = unfit_target([each.name for each in steps], step.name, step.on_timeout)
        if problem_ is not None:
            raise DefinitionError(
                f"on_timeout {problem_}",
                where=f"{where}: step {step.name!r}",
                path=("steps", index, "on_timeout"),
            )


def unfit_target(names: Sequence[str], step: str, target: str) -> str | None:
    """Why a step, one of ``names`` in the order of the definition, cannot lead to ``target``; None if it can."""
    later = names[names.index(step) + 1 :]
    if target in later:
        return None
    fix = (
        f"name a later step: {', '.join(later)}" if later else "the last step has no later one; leave it out"
    )
    if target == step:
        return f"leads to the step itself; {fix}"
    if target in names:
        return f"leads back to {target!r}, which comes earlier; {fix}"
    return f"is {target!r}, which is no step of the workflow; {fix}"
