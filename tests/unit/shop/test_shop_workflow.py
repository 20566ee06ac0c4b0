"""The shop's workflow is the same in YAML and in Python."""

from __future__ import annotations

from shop.workflow import order_fulfilment
from tests.house.source import ROOT
from triumvir.cli.loading import load_workflows


def test_the_yaml_file_of_the_shop_is_its_python_definition() -> None:
    (written,) = load_workflows(str(ROOT / "examples" / "shop" / "workflow.yaml"))
    assert written == order_fulfilment
    assert written.digest() == order_fulfilment.digest()
