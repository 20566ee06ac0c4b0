"""The end of the demo on the screen: what became of the orders, ledgers beside store, time, and one last line."""

from __future__ import annotations

from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from shop.demo.report import Report, Tally

MOST_LINES: Final = 20


def show(report: Report, console: Console) -> None:
    """Three tables, and what does not agree."""
    for table in (_orders(report), _ledgers(report), _times(report)):
        console.print()
        console.print(table)
    console.print()
    wrong = report.differences + report.amiss
    for line in wrong[:MOST_LINES]:
        console.print(line, style="red", markup=False, highlight=False, soft_wrap=True)
    if len(wrong) > MOST_LINES:
        console.print(f"… and {len(wrong) - MOST_LINES} more", style="red")


def last_line(report: Report, seconds: float, seed: int) -> str:
    """All of it in one line."""
    ends = ", ".join(f"{count} {end}" for end, count in sorted(report.ends.items(), reverse=True))
    undone = sum(count for (_, why), count in report.groups.items() if why.startswith("undone"))
    verdict = "ledgers, store and client agree" if report.is_good else "they do NOT agree"
    total = sum(report.ends.values())
    return f"{total} orders: {ends} ({undone} with real undos); {verdict}; {seconds:.0f} s; seed {seed}"


def _table(title: str, *headings: str, numbers: tuple[str, ...] = ()) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _orders(report: Report) -> Table:
    table = _table("Orders", "end", "why", numbers=("orders",))
    for (end, why), count in sorted(report.groups.items(), reverse=True):
        table.add_row(end, why, str(count))
    table.add_row("all", "", str(sum(report.ends.values())))
    return table


def _ledgers(report: Report) -> Table:
    numbers = ("calls", "effects", "undone", "left", "in store", "amount left", "in store")
    table = _table("The shop's ledgers against the store", "service", numbers=numbers)
    table.add_column("")
    for tally in report.tallies:
        style = "" if tally.agrees else "red"
        table.add_row(tally.service, *_numbers(tally), "=" if tally.agrees else "!=", style=style)
    return table


def _numbers(tally: Tally) -> list[str]:
    counts = (tally.calls, tally.effects, tally.undone, tally.effects - tally.undone, tally.kept)
    sign = "" if tally.service == "inventory" else "£"
    return [f"{count:,}" for count in counts] + [
        f"{sign}{sum_:,}" for sum_ in (tally.amount, tally.kept_amount)
    ]


def _times(report: Report) -> Table:
    table = _table("Time", "what", numbers=("seconds",))
    for what, seconds in report.seconds.items():
        table.add_row(what, f"{seconds:.1f}")
    return table
