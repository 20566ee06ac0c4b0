"""Conditions and selections for the steps of a world, and what must become of a step by its rule alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from triumvir.contracts.json_text import JsonText

PAYLOAD: Final = JsonText.of({"yes": True, "no": False, "number": 3})
Rule = Literal["holds", "fails", "follows", "broken", "selects", "cannot-select", "waits", "waits-or-fails"]
Rules = Mapping[int, Rule]
"""By the number of the step."""
Fate = Literal["runs", "waits", "skipped", "cannot run"]


def members(rule: Rule | None, step_no: int) -> dict[str, Any]:
    """What a step of this rule is written with. The one that follows runs if the step before it was not skipped."""
    before = f"steps.s{step_no - 1}"
    match rule:
        case "holds":
            return {"when": "payload.yes"}
        case "fails":
            return {"when": "payload.number > `7`"}
        case "follows":
            return {"when": f"{before}.state == 'completed'" if step_no > 1 else "payload.yes"}
        case "broken":
            return {"when": "payload.missing"}
        case "selects":
            told = {"before": f"{before}.result.step"} if step_no > 1 else {}
            return {"select": {"number": "payload.number", "id": "order.order_id", **told}}
        case "cannot-select":
            return {"select": "sum(payload.number)"}
        case "waits" | "waits-or-fails" | None:
            return {}


def fate(rules: Rules, step_no: int) -> Fate:
    """What becomes of a step that is reached."""
    match rules.get(step_no):
        case "fails":
            return "skipped"
        case "follows" if step_no > 1 and fate(rules, step_no - 1) == "skipped":
            return "skipped"
        case "broken" | "cannot-select":
            return "cannot run"
        case "waits" | "waits-or-fails":
            return "waits"
        case _:
            return "runs"


def selected(rules: Rules, step_no: int, order_id: str) -> str | None:
    """What a request of the step carries instead of the payload."""
    if rules.get(step_no) != "selects":
        return None
    chosen: dict[str, Any] = {"id": order_id, "number": 3}
    if step_no > 1:
        chosen["before"] = f"s{step_no - 1}" if fate(rules, step_no - 1) in ("runs", "waits") else None
    return JsonText.of(dict(sorted(chosen.items()))).text
