"""What a change of a workflow meets, asked of a real database: ``triumvir workflows check --live``."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from tests.integration.cli.conftest import Triumvir
from tests.integration.store.rows import hold, live_instance, lock, make_orders
from tests.servers import SCHEMA, blocking
from triumvir.settings import Settings

TRIO = """
name: trio
version: {version}
on_error: compensate
steps:
{steps}"""
STEP = "  - {{name: {name}, agent: cards, operation: {operation}, undo: un-{operation}{more}}}\n"


def trio(version: int, *steps: tuple[str, str, str]) -> str:
    written = "".join(
        STEP.format(name=name, operation=operation, more=more) for name, operation, more in steps
    )
    return TRIO.format(version=version, steps=written)


V1 = trio(1, ("reserve", "reserve", ""), ("charge", "charge", ""), ("ship", "ship", ""))
V2 = trio(
    2, ("reserve", "reserve", ", complete_within: 5s"), ("dispatch", "ship", ""), ("thank", "thank", "")
)


async def live(url: str) -> None:
    """By v1: one not begun, one held, one charging, one being undone at the second step, one at rest at the last."""
    connection = await asyncpg.connect(url, server_settings={"search_path": SCHEMA})
    try:
        nos = await make_orders(connection, ["fresh", "held", "charging", "undoing", "resting"])
        await hold(connection, [nos[1]], "operation:cards/charge")
        await lock(connection, nos[2])
        await lock(connection, nos[3])
        await lock(connection, nos[4])
        done = (
            "insert into steps (no, step_no, attempt, state, effect, result)"
            " values ($1, 1, 1, 'completed', 'certain', '1')"
        )
        for no in nos[1:]:
            await connection.execute(done, no)
        await connection.execute("update orders set state = 'compensating', step = 2 where no = $1", nos[3])
        await connection.execute(
            "update orders set state = 'error', step = 3, locked_by = null, complete_by = null where no = $1",
            nos[4],
        )
        await live_instance(connection, operations=("cards/reserve", "cards/un-reserve", "cards/ship"))
    finally:
        await connection.close()


@pytest.fixture
def met(triumvir: Triumvir, tmp_path: Path, settings: Settings) -> Path:
    """Orders live by v1; the file holds v2."""
    file = tmp_path / "trio.yaml"
    file.write_text(V1)
    triumvir("workflows", "apply", str(file))
    blocking(lambda: live(settings.database_url))
    file.write_text(V2)
    return file


def test_a_change_is_told_which_live_orders_it_meets(triumvir: Triumvir, met: Path) -> None:
    (found,) = triumvir("workflows", "check", str(met), "--live", "--json")
    assert (found["workflow"], found["version"], found["standing"]) == ("trio", 2, "new")
    assert found["not_offered"] == ["cards/thank", "cards/un-ship", "cards/un-thank"]
    (v1,) = found["applied"]
    assert v1["orders"] == [
        {"step": "reserve", "state": "pending", "orders": 1},
        {"step": "charge", "state": "compensating", "orders": 1},
        {"step": "charge", "state": "pending", "orders": 1},
        {"step": "charge", "state": "processing", "orders": 1},
        {"step": "ship", "state": "error", "orders": 1},
    ]
    assert (v1["removed"], v1["added"]) == (["charge"], ["thank"])
    assert v1["renamed"] == [{"was": "ship", "now": "dispatch"}]
    assert v1["changed"] == ["step 'reserve': complete_within was None, is 0:00:05"]
    assert v1["not_offered"] == ["cards/charge", "cards/un-charge", "cards/un-ship"]
    assert v1["only_here"] == ["cards/charge", "cards/un-charge"]
    assert not v1["retirable"]


def test_people_read_it_in_words(triumvir: Triumvir, met: Path) -> None:
    said = triumvir("workflows", "check", str(met), "--live")
    assert said.splitlines() == [
        "trio v2: not applied yet",
        "  no live agent offers cards/thank, cards/un-ship, cards/un-thank: orders would be held there",
        "  v1: 4 live orders, 1 at rest; they keep this definition to their end",
        "    1 pending at reserve",
        "    1 compensating at charge, a step that is gone from the checked version",
        "    1 pending at charge, a step that is gone from the checked version",
        "    1 processing at charge, a step that is gone from the checked version",
        "    1 error at ship",
        "    v2: step 'charge' is gone",
        "    v2: step 'thank' is new",
        "    v2: step 'ship' is called 'dispatch'",
        "    v2: step 'reserve': complete_within was None, is 0:00:05",
        "    v2 does not use cards/charge, cards/un-charge: keep an agent for these orders",
        "    no live agent offers cards/charge, cards/un-charge, cards/un-ship: these orders are held there",
    ]


def test_a_version_that_nobody_needs_could_be_retired_and_a_changed_one_is_told(
    triumvir: Triumvir, tmp_path: Path
) -> None:
    file = tmp_path / "trio.yaml"
    for version in (V1, V2):
        file.write_text(version)
        triumvir("workflows", "apply", str(file))
    (found,) = triumvir("workflows", "check", str(file), "--live", "--json")
    assert [(each["version"], each["retirable"]) for each in found["applied"]] == [(1, True), (2, False)]
    assert found["standing"] == "unchanged"
    file.write_text(V2.replace("5s", "6s"))
    said = triumvir("workflows", "check", str(file), "--live")
    assert "trio v2: applied with another definition; give the changed one a new version" in said
    assert "  step 'reserve': complete_within was 0:00:05, is 0:00:06" in said
    assert "  v1: 0 live orders; it could be retired" in said


def test_without_live_no_database_is_asked(
    triumvir: Triumvir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "trio.yaml"
    file.write_text(V1)
    monkeypatch.setenv("TRIUMVIR_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nothing")
    assert triumvir("workflows", "check", str(file)) == "trio v1: 3 steps, nothing is wrong\n"
    assert triumvir("workflows", "check", str(file), "--json") == [{"workflow": "trio", "version": 1}]
    assert "TRIUMVIR_DATABASE_URL" in triumvir("workflows", "check", str(file), "--live", code=1)
