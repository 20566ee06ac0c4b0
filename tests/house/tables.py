"""Tables of the documentation that are made from the code. ``python -m tests.house.tables`` writes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, get_args

from pydantic.fields import FieldInfo

from tests.house.source import ROOT
from triumvir.broker.topology import QueueSpec, agent_topology, client_topology, core_topology
from triumvir.settings import SecondsList, Settings
from triumvir.telemetry import metrics
from triumvir.telemetry.instruments import Counter, Histogram, Instrument

_FOR_FAULT_TESTS = ("crash_at", "crash_log")


def settings_table() -> str:
    """Every setting with its variable, default, unit, bounds and what it means."""
    rows = (
        (_code(name), _code(f"TRIUMVIR_{name.upper()}"), _default(field), _unit(name, field), _meaning(field))
        for name, field in Settings.model_fields.items()
        if name not in _FOR_FAULT_TESTS
    )
    return _table(("setting", "environment variable", "default", "unit", "meaning"), rows)


def metrics_table() -> str:
    """Every metric with its kind and labels."""
    declared = (*metrics.COUNTERS, *metrics.GAUGES, *metrics.HISTOGRAMS)
    rows = (
        (_code(each.name), _kind(each), ", ".join(map(_code, each.labels)) or "-", each.description)
        for each in sorted(declared, key=lambda each: each.name)
    )
    return _table(("metric", "kind", "labels", "what"), rows)


def queues_table() -> str:
    """Every queue with its limits; ``<name>`` stands for an agent, ``<client>`` for a client."""
    found = core_topology() + agent_topology("name") + client_topology("client")
    named = {
        re.sub(r"^(agent\.)name", r"\1<name>", queue.name).replace("status.client", "status.<client>"): queue
        for queue in found.queues
    }
    return _table(
        ("queue", "arguments"), ((_code(name), _arguments(queue)) for name, queue in sorted(named.items()))
    )


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "settings": ("docs/reference/settings.md", settings_table),
    "metrics": ("docs/operations.md", metrics_table),
    "queues": ("docs/protocol.md", queues_table),
}
"""Each table with the page it stands on, between ``<!-- name:begin -->`` and ``<!-- name:end -->``."""


def written(name: str) -> str:
    """The table as it stands on its page."""
    match = _pattern(name).search((ROOT / TABLES[name][0]).read_text())
    assert match is not None, f"{TABLES[name][0]} has no place for the table {name!r}"
    return match[2].strip()


def write(name: str) -> None:
    """Puts the table on its page."""
    page, made = TABLES[name]
    text = (ROOT / page).read_text()
    (ROOT / page).write_text(_pattern(name).sub(lambda match: f"{match[1]}\n{made()}\n{match[3]}", text))


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {name}:begin -->)(.*?)(<!-- {name}:end -->)", re.DOTALL)


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def _code(text: str) -> str:
    return f"`{text}`"


def _default(field: FieldInfo) -> str:
    value: Any = field.default
    if value is None:
        return "-"
    if isinstance(value, timedelta):
        return _code(f"{value.total_seconds():.15g}")
    if value == ():
        return "-"
    return _code(str(value).lower() if isinstance(value, bool) else str(value))


def _unit(name: str, field: FieldInfo) -> str:
    """Of durations and sizes; a plain number counts what its meaning says."""
    if field.annotation in (timedelta, get_args(SecondsList)[0]):
        return "seconds"
    return "bytes" if name.endswith("_bytes") else ""


def _meaning(field: FieldInfo) -> str:
    bounds = []
    for each in field.metadata:
        for attribute, sign in (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<")):
            bound = getattr(each, attribute, None)
            if bound is not None:
                bounds.append(f"{sign} {bound}")
        choices = getattr(each, "pattern", None)
        if isinstance(choices, str) and re.fullmatch(r"\^\([A-Za-z|]+\)\$", choices):
            bounds.append(", ".join(choices[2:-2].split("|")))
    said = field.description or ""
    return f"{said} ({', '.join(bounds)})" if said and bounds else said or ", ".join(bounds)


def _kind(instrument: Instrument) -> str:
    if isinstance(instrument, Counter):
        return "counter"
    return f"histogram ({instrument.unit})" if isinstance(instrument, Histogram) else "gauge"


def _arguments(queue: QueueSpec) -> str:
    return ", ".join(
        _code(f"{name}={value}".replace("agent.name", "agent.<name>")) for name, value in queue.arguments
    )


if __name__ == "__main__":
    for table in TABLES:
        write(table)
