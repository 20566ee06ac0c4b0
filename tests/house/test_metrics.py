"""A metric that is declared is recorded somewhere."""

from __future__ import annotations

from tests.house.source import PRODUCT, modules
from triumvir.telemetry import metrics
from triumvir.telemetry.instruments import Instrument


def test_every_metric_is_recorded() -> None:
    text = "".join(module.text for module in modules(*PRODUCT) if not module.path.endswith("metrics.py"))
    declared = [name for name, value in vars(metrics).items() if isinstance(value, Instrument)]
    assert [name for name in declared if f"metrics.{name}." not in text] == []
