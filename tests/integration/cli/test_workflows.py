"""Definitions on a real database: from YAML, from Python, shown, and refused when they changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.cli.conftest import Triumvir
from tests.integration.cli.test_store_commands import execute
from triumvir.settings import Settings

YAML = """
name: gift-order
version: {version}
on_error: compensate
steps:
  - name: redeem
    agent: cards
    operation: redeem
    undo: restore
    when: payload.gift != `null`
  - name: charge
    agent: cards
    operation: charge
    complete_within: 1m30s
    select: {{amount: {amount}}}
"""
PYTHON = """
from datetime import timedelta
from triumvir import Step, Workflow
gift_order = Workflow("gift-order", version=1, on_error="compensate", steps=[
    Step("redeem", agent="cards", operation="redeem", undo="restore", when="payload.gift != `null`"),
    Step("charge", agent="cards", operation="charge", complete_within=timedelta(seconds=90),
         select={"amount": "payload.total"}),
])
"""


@pytest.fixture
def applied(triumvir: Triumvir, tmp_path: Path) -> Path:
    """A file of two versions."""
    file = tmp_path / "gifts.yaml"
    versions = [YAML.format(version=version, amount="payload.total") for version in (1, 2)]
    file.write_text("---".join(versions))
    said = triumvir("workflows", "apply", str(file))
    assert said == "gift-order v1: applied\ngift-order v2: applied\n"
    return file


def test_the_same_definition_in_python_changes_nothing(
    triumvir: Triumvir, applied: Path, tmp_path: Path
) -> None:
    (tmp_path / "gifts.py").write_text(PYTHON)
    assert triumvir("workflows", "apply", str(tmp_path / "gifts.py")) == "gift-order v1: unchanged\n"
    assert "gift-order v2: unchanged" in triumvir("workflows", "apply", str(applied))
    assert "redeem (when, undo) → charge" in triumvir("workflows", "list")


def test_a_changed_condition_or_selection_is_refused_under_the_old_version(
    triumvir: Triumvir, applied: Path
) -> None:
    applied.write_text(
        YAML.format(version=2, amount="payload.sum").replace("payload.gift !=", "payload.card !=")
    )
    said = triumvir("workflows", "apply", str(applied), code=1)
    assert "step 'redeem': when was 'payload.gift != `null`', is 'payload.card != `null`'" in said
    assert "step 'charge': select was {'amount': 'payload.total'}, is {'amount': 'payload.sum'}" in said
    assert "version=3" in said


def test_nothing_of_a_file_with_a_fault_is_applied(triumvir: Triumvir, tmp_path: Path) -> None:
    file = tmp_path / "half.yaml"
    good, bad = YAML.format(version=1, amount="payload.total"), YAML.format(version=2, amount="paylod.total")
    file.write_text(f"{good}---{bad}")
    said = triumvir("workflows", "apply", str(file), code=1)
    assert said == (
        f"{file}:30:22: steps[1].select.amount: looks at 'paylod', which is not there; did you mean 'payload'?\n"
    )
    assert triumvir("workflows", "list", "--json") == []


def test_a_registered_workflow_is_shown_by_name_and_version(
    triumvir: Triumvir, applied: Path, tmp_path: Path
) -> None:
    assert "gift-order v2, on error: compensate" in triumvir("workflows", "show", "gift-order")
    shown = triumvir("workflows", "show", "gift-order", "--version", "1", "--format", "json")
    assert json.loads(shown)["steps"][1]["complete_within_ms"] == 90_000
    (tmp_path / "again.json").write_text(shown)
    assert "gift-order v1: unchanged" in triumvir("workflows", "apply", str(tmp_path / "again.json"))
    mermaid = triumvir("workflows", "show", "gift-order", "--format", "mermaid")
    assert mermaid.startswith("flowchart TD\n")
    from_file = triumvir("workflows", "show", str(applied), "--version", "2", "--format", "mermaid")
    assert from_file == mermaid


def test_a_workflow_that_is_not_there_is_told_with_those_that_are(triumvir: Triumvir, applied: Path) -> None:
    assert "gift-order has no version 3; there is 1, 2" in triumvir(
        "workflows", "show", "gift-order", "--version", "3", code=1
    )
    assert "no workflow 'gift-oder' is registered; did you mean 'gift-order'?" in triumvir(
        "workflows", "show", "gift-oder", code=1
    )


def test_a_skipped_step_is_shown_with_its_condition(
    triumvir: Triumvir, applied: Path, settings: Settings
) -> None:
    execute(
        settings,
        "insert into orders (client, order_id, workflow, version, digest, rank, status_queue)"
        " values ('shop-a', '1', 'gift-order', 1, sha256('x'), 1, 'status.shop-a')",
        "insert into steps (no, step_no, attempt, state) select no, 1, 0, 'skipped' from orders",
    )
    shown = triumvir("orders", "show", "shop-a/1")
    (line,) = [line for line in shown.splitlines() if "cards/redeem" in line]
    assert "skipped" in line
    assert "when payload.gift != `null`" in line
