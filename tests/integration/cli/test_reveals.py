"""The data of a confidential order is shown to nobody who is not written down first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cli.conftest import Triumvir
from tests.integration.cli.test_store_commands import execute
from triumvir.settings import Settings

DEFINITION = """
from triumvir import Step, Workflow
secrets = Workflow("secrets", version=1, classification="confidential", steps=[Step("a", agent="x", operation="a")])
plain = Workflow("plain", version=1, steps=[Step("a", agent="x", operation="a")])
"""
SECRET = "canary-4711"


@pytest.fixture(autouse=True)
def orders(triumvir: Triumvir, tmp_path: Path, settings: Settings) -> None:
    """One of each workflow, with the secret in its payload and its result."""
    file = tmp_path / "definitions.py"
    file.write_text(DEFINITION)
    triumvir("workflows", "apply", str(file))
    execute(
        settings,
        "insert into orders (client, order_id, workflow, version, digest, rank, status_queue)"
        " select 'shop', name, name, 1, sha256('x'), 1, 'status.shop' from workflows",
        "insert into steps (no, step_no, attempt, state, effect, result)"
        f" select no, 1, 1, 'completed', 'certain', '\"{SECRET}\"' from orders",
        "insert into order_documents (client, order_id, payload, digest)"
        f" select client, order_id, '\"{SECRET}\"', digest from orders",
    )


def test_a_look_at_confidential_data_is_written_down_with_who_when_which_and_why(triumvir: Triumvir) -> None:
    assert SECRET in triumvir("orders", "show", "shop/secrets", "--reveal", "--reason", "ticket 1")
    assert SECRET in str(triumvir("orders", "show", "shop/secrets", "--reveal", "--json"))
    second, first = triumvir("orders", "reveals", "--json")
    assert (first["client"], first["order_id"], first["workflow"]) == ("shop", "secrets", "secrets")
    assert (first["command"], first["reason"], second["reason"]) == ("orders show", "ticket 1", None)
    assert first["who"].startswith("operator:")
    assert first["by_user"]
    assert first["at"] < second["at"]
    assert "ticket 1" in triumvir("orders", "reveals")
    assert "nobody looked" in triumvir("orders", "reveals", "--client", "other", err=True)
    assert len(triumvir("orders", "reveals", "--order", "secrets", "--limit", "1", "--json")) == 1


def test_what_is_not_confidential_or_not_revealed_leaves_no_line(triumvir: Triumvir) -> None:
    assert SECRET in triumvir("orders", "show", "shop/plain", "--reveal")
    assert SECRET not in triumvir("orders", "show", "shop/secrets")
    assert triumvir("orders", "reveals", "--json") == []


@pytest.mark.parametrize("how", ["read-only", "refused"])
def test_where_nothing_can_be_written_down_nothing_is_shown(
    triumvir: Triumvir, settings: Settings, how: str
) -> None:
    name = settings.database_url.rpartition("/")[2].partition("?")[0]
    execute(
        settings,
        f'alter database "{name}" set default_transaction_read_only = on'
        if how == "read-only"
        else "alter table reveal_log add constraint never check (false)",
    )
    said = triumvir("orders", "show", "shop/secrets", "--reveal", code=1)
    assert SECRET not in said
    assert "Postgres" in said
    assert SECRET not in triumvir("orders", "show", "shop/secrets")
