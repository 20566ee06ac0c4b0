"""What a soak tells when it is over."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from tests.soak.outcome import Outcome
from tests.soak.schedule import STRANDS
from triumvir.testing import describe

MOST_ORDERS = 5
MOST_FAULTS = 25


def show(outcome: Outcome, console: Console) -> None:
    """Tables of what was done and what came of it; of a soak that is not clean, what broke and what was done then."""
    console.print(_faults(outcome))
    console.print(_orders(outcome))
    for line in _wrong(outcome):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _faults(outcome: Outcome) -> Table:
    table = Table("fault", "fired", "met nobody")
    fired, missed = outcome.journal.fired, outcome.journal.missed
    for strand in STRANDS.values():
        for sort in strand.sorts:
            table.add_row(sort.name, str(fired[sort.name]), str(missed[sort.name]))
        table.add_section()
    table.add_row("message sent once more, some late", str(outcome.copies), "")
    return table


def _orders(outcome: Outcome) -> Table:
    table = Table("orders", "")
    for state, count in sorted(outcome.states.items()):
        table.add_row(state, str(count))
    table.add_section()
    table.add_row("accepted", str(outcome.accepted))
    table.add_row("calls of the remote service", str(outcome.calls))
    return table


def _wrong(outcome: Outcome) -> Iterator[str]:
    yield describe(outcome.findings)
    yield from outcome.ills
    if outcome.ills:
        yield "the last faults:"
        yield from (f"    {done}" for done in outcome.journal.done[-MOST_FAULTS:])
    for order, around in list(outcome.around.items())[:MOST_ORDERS]:
        yield f"while {order} was under way:"
        yield from (f"    {done}" for done in around[-MOST_FAULTS:])
