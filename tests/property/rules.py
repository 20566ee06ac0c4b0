"""Conditions and selections for the steps of a world, and what must become of a step by its rule alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from triumvir.contracts.json_text import JsonText
from triumvir.lifecycle import OrderRecord
from triumvir.workflow import Workflow

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


Trait = Literal["once", "leads", "leads-far", "standby", "once-leads"]
Traits = Mapping[int, Trait]
"""By the number of the step. A world has rules or traits."""


def trait_members(trait: Trait | None, step_no: int, steps: int) -> dict[str, Any]:
    """What a step of this trait is written with. The first step stands in the main line."""
    once = {"recoverable": False} if trait in ("once", "once-leads") else {}
    if trait in ("leads", "leads-far", "once-leads") and step_no < steps:
        return {"on_timeout": f"s{steps if trait == 'leads-far' else step_no + 1}", **once}
    return {"main_line": False} if trait == "standby" and step_no > 1 else once


def course(record: OrderRecord, workflow: Workflow) -> Iterator[int]:
    """The steps on the way of an order that has come to its end, by what its records say of time-outs."""
    step_no, led_to = 1, 0
    while step_no <= len(workflow.steps):
        entry = record.step_record(step_no)
        if not workflow.step(step_no).main_line and step_no != led_to:
            step_no += 1
            continue
        yield step_no
        led_to = (entry.led_to if entry is not None else None) or 0
        step_no = led_to or step_no + 1
