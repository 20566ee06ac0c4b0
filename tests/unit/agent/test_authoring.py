"""An agent that is wrong as written says so when it is defined, or checked at its start."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from triumvir import Agent, Context
from triumvir.errors import DefinitionError


async def nothing(ctx: Context, order: dict[str, int]) -> None:
    """An operation."""


async def undone(ctx: Context, order: dict[str, int], result: None) -> None:
    """An undo."""


def test_an_agent_offers_its_operations_and_undos_by_name() -> None:
    agent = Agent("till")
    assert agent.operation("charge", undo="refund")(nothing) is nothing
    agent.undo("refund")(undone)
    agent.check()
    assert agent.offers == ["till/charge", "till/refund"]
    assert agent.find("refund", "do") is None


def broken_name() -> None:
    Agent("The Till")


def doubled() -> None:
    agent = Agent("till")
    agent.operation("charge")(nothing)
    agent.operation("charge")(nothing)


def too_few_arguments() -> None:
    Agent("till").operation("charge")(lambda ctx: None)


def undo_without_result() -> None:
    Agent("till").undo("refund")(nothing)


def missing_undo() -> None:
    agent = Agent("till")
    agent.operation("charge", undo="refund")(nothing)
    agent.check()


def empty() -> None:
    Agent("till").check()


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (broken_name, "must match"),
        (doubled, "registered twice"),
        (too_few_arguments, r"must take \(ctx, order\), it takes 1"),
        (undo_without_result, r"must take \(ctx, order, result\), it takes 2"),
        (missing_undo, "names the undo 'refund', which does not exist"),
        (empty, "offers nothing"),
    ],
)
def test_a_fault_in_an_agent_is_named_with_its_fix(fault: Callable[[], None], says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        fault()
