"""The tables of a measurement, and the same as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median, quantiles
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks.rounds import Result
from benchmarks.systems import RAW, SUITE

TARGETS: Final = {
    "orders/s, of raw": (">=", 0.9),
    "commits per order, saturated": ("<=", 0.5),
    "commits per order, light": ("<=", 12.0),
    "messages per order": ("<=", 9.0),  # beside them one hint to the scheduler per batch of submissions
    "p50 at light load, ms": ("<=", 18.0),
    "p99 at light load, ms": ("<=", 40.0),
}
_LOADS: Final = ("saturated", "light")


def percentile(values: Sequence[float], percent: int) -> float:
    """Of latencies in seconds: milliseconds."""
    return quantiles(values, n=100, method="inclusive")[percent - 1] * 1000


def summary(results: Sequence[Result]) -> dict[str, float]:
    """The figures that have a target, and the ratios to the ceiling: medians over the rounds."""

    def middle(system: str, load: str, read: Callable[[Result], float | None]) -> float:
        return median(read(result) or 0.0 for result in _of(results, system, load))

    light, raw = (
        [latency for result in _of(results, system, "light") for latency in result.latencies]
        for system in (SUITE, RAW)
    )
    return {
        "orders/s, of raw": _ratio(results, "saturated", lambda result: result.per_second),
        "CPU, of raw": _ratio(results, "saturated", lambda result: result.cpu_total),
        "commits per order, saturated": middle(SUITE, "saturated", lambda result: result.commits),
        "commits per order, light": middle(SUITE, "light", lambda result: result.commits),
        "messages per order": middle(SUITE, "saturated", lambda result: result.messages),
        "p50 at light load, ms": percentile(light, 50),
        "p99 at light load, ms": percentile(light, 99),
        "p50 at light load, of raw": percentile(light, 50) / percentile(raw, 50),
        "CPU at light load, of raw": _ratio(results, "light", lambda result: result.cpu_total),
    }


def as_json(results: Sequence[Result], **context: Any) -> dict[str, Any]:
    """Everything that was measured."""
    rounds = [
        {**result.as_json(), **{f"p{n}_ms": percentile(result.latencies, n) for n in (50, 99)}}
        for result in results
    ]
    return {**context, "summary": summary(results), "rounds": rounds}


def show(results: Sequence[Result], console: Console) -> None:
    """Rounds with their medians, where the CPU went, and how the targets were met."""
    console.print(_rounds(results), _processes(results), _targets(summary(results)))


def _rounds(results: Sequence[Result]) -> Table:
    table = Table("load", "system", "round", title="Rounds", title_justify="left")
    for column in ("orders/s", "p50 ms", "p99 ms", "CPU-s/1000", "commits/order", "messages/order"):
        table.add_column(column, justify="right")
    for load in _LOADS:
        for system in (SUITE, RAW):
            found = _of(results, system, load)
            for result in found:
                table.add_row(load, system, str(result.round), *_cells([result]))
            table.add_row(load, system, "median", *_cells(found), style="bold", end_section=True)
    return table


def _cells(results: Sequence[Result]) -> list[str]:
    def cell(read: Callable[[Result], float | None], digits: int) -> str:
        values = [value for result in results if (value := read(result)) is not None]
        return f"{median(values):.{digits}f}" if values else "-"

    return [
        cell(lambda result: result.per_second, 0),
        cell(lambda result: percentile(result.latencies, 50), 1),
        cell(lambda result: percentile(result.latencies, 99), 1),
        cell(lambda result: result.cpu_total, 2),
        cell(lambda result: result.commits, 2),
        cell(lambda result: result.messages, 2),
    ]


def _processes(results: Sequence[Result]) -> Table:
    table = Table("process", title="CPU seconds per 1000 orders, medians", title_justify="left")
    columns = [(system, load) for system in (SUITE, RAW) for load in _LOADS]
    for system, load in columns:
        table.add_column(f"{system}, {load}", justify="right")
    names = list(dict.fromkeys(name for result in results for name in result.cpu))
    for name in names:
        cells = []
        for system, load in columns:
            values = [result.cpu[name] for result in _of(results, system, load) if name in result.cpu]
            cells.append(f"{median(values):.2f}" if values else "")
        table.add_row(name, *cells)
    return table


def _targets(found: dict[str, float]) -> Table:
    table = Table("figure", "target", "measured", "", title="Targets", title_justify="left")
    for name, value in found.items():
        if name not in TARGETS:
            table.add_row(name, "", f"{value:.2f}", "")
            continue
        sense, bound = TARGETS[name]
        rounded = round(value, 1)
        met = rounded >= bound if sense == ">=" else rounded <= bound
        table.add_row(name, f"{sense} {bound:g}", f"{value:.2f}", "met" if met else "missed")
    return table


def _of(results: Sequence[Result], system: str, load: str) -> list[Result]:
    return [result for result in results if (result.system, result.load) == (system, load)]


def _ratio(results: Sequence[Result], load: str, read: Callable[[Result], float]) -> float:
    """Suite to ceiling, round by round; the median of that."""
    pairs = zip(_of(results, SUITE, load), _of(results, RAW, load), strict=True)
    return median(read(ours) / read(theirs) for ours, theirs in pairs)
