"""The workflow that is measured, and its agent: three steps that do nothing, so that only the way there counts."""

from __future__ import annotations

from typing import Any, Final

from triumvir.agent import Agent, Context
from triumvir.workflow import Step, Workflow

AGENT: Final = "bench"
STEPS: Final = ("reserve", "charge", "ship")
PAYLOAD: Final = {"sku": "A-1042", "quantity": 3, "city": "Ghent", "note": "leave it with the neighbours"}

agent = Agent(AGENT)
workflow = Workflow("bench", 1, [Step(name, agent=AGENT, operation=name) for name in STEPS])


def _offer(name: str) -> None:
    @agent.operation(name)
    async def operation(ctx: Context, order: dict[str, Any]) -> dict[str, Any]:
        return {"done": name, "quantity": order["quantity"]}


for _name in STEPS:
    _offer(_name)
