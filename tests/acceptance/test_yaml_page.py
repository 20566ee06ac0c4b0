"""docs/workflows-in-yaml.md, word for word, on real servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.acceptance.walkthrough import Shell, dev, write_files
from tests.house.pages import blocks, files

PAGE = "docs/workflows-in-yaml.md"


def test_the_page_about_yaml_does_what_it_says(tmp_folder: Path) -> None:
    write_files(tmp_folder, files(PAGE))
    (command,) = [
        line for block in blocks(PAGE) for line in block.text.splitlines() if line.startswith("triumvir dev")
    ]
    with dev(tmp_folder, command) as shell:
        told = shell.run("triumvir submit orders.ndjson --workflow gift-order --follow")
        for order_id, end in (
            ("all-by-gift", "completed"),
            ("half-by-gift", "completed"),
            ("by-card", "completed"),
            ("no-lines", "compensated"),
        ):
            assert f"{order_id}  {end}" in told
        _check_steps(shell)
        _check_commands(shell)


def _check_steps(shell: Shell) -> None:
    shown = {name: _shown(shell, name) for name in ("all-by-gift", "half-by-gift", "by-card", "no-lines")}
    assert _states(shown["all-by-gift"]) == ["completed", "skipped", "completed"]
    assert _result(shown["all-by-gift"], 0) == {"paid": 80, "left": 0}
    assert _result(shown["all-by-gift"], 2) == {"wrapped": ["tea"]}
    assert _states(shown["half-by-gift"]) == ["completed", "completed", "skipped"]
    assert _result(shown["half-by-gift"], 1) == {"charged": 60}
    assert _states(shown["by-card"]) == ["skipped", "completed", "skipped"]
    assert _result(shown["by-card"], 1) == {"charged": 80}
    assert _states(shown["no-lines"]) == ["completed", "completed", "failed"]
    assert [step["undo_state"] for step in shown["no-lines"]["steps"]] == ["undone", "undone", None]
    assert "length() was given a value of type null" in shown["no-lines"]["steps"][2]["error"]
    drawn = shell.run("triumvir orders show dev/all-by-gift")
    assert "charge skipped: not_null(steps.redeem.result.left, payload.total) > `0` is false" in drawn


def _check_commands(shell: Shell) -> None:
    assert "gift-order v1: 3 steps, nothing is wrong" in shell.run("triumvir workflows check gifts.yaml")
    assert "gift-order v1: unchanged" in shell.run("triumvir workflows apply gifts.yaml")
    exported = "triumvir workflows show gift-order --version 1 --format json > again.json"
    assert "unchanged" in shell.run(f"{exported}; triumvir workflows apply again.json")
    (said,) = [block.text for block in blocks(PAGE) if "output=wrong" in block.info]
    assert shell.run("triumvir workflows check wrong.yaml 2>&1 || true") == said
    assert shell.run("triumvir workflows apply wrong.yaml 2>&1 || true") == said


def _shown(shell: Shell, order_id: str) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(shell.run(f"triumvir orders show dev/{order_id} --json"))
    return shown


def _states(shown: dict[str, Any]) -> list[str]:
    return [step["state"] for step in shown["steps"]]


def _result(shown: dict[str, Any], index: int) -> Any:
    result = shown["steps"][index]["result"]
    return json.loads(result) if isinstance(result, str) else result
