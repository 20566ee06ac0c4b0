"""The auditor looks at a world in memory as it looks at a store."""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache
from typing import Any, Final

from msgspec import structs

from tests.property.remote import Outcome, Remote, StepKey
from tests.property.world import World
from triumvir.contracts.names import Direction
from triumvir.lifecycle import RESTING, Policy
from triumvir.settings import Settings
from triumvir.testing.auditor import compare
from triumvir.testing.evidence import Call, Effect, Evidence, Ledger
from triumvir.testing.findings import Finding
from triumvir.testing.snapshot import OrderFacts, Snapshot

_NOTHING_LEFT: Final[Any] = dict.fromkeys(
    ("outbox", "commands", "marks", "replays", "replies", "admitted", "open"), 0
)
_DIGEST: Final = b""


class WrittenRemote(Remote):
    """Writes down every effect and every call, in the order in which they happen."""

    def __init__(self) -> None:
        super().__init__()
        self.effects: list[tuple[StepKey, Direction, str]] = []
        self.called: list[tuple[StepKey, Direction, str]] = []

    def serve(self, step: StepKey, direction: Direction, key: str, outcome: Outcome) -> Outcome:
        before = self.net[step]
        seen = super().serve(step, direction, key, outcome)
        self.called.append((step, direction, key))
        if self.net[step] != before:
            self.effects.append((step, direction, key))
        return seen

    def by_hand(self, step: StepKey, direction: Direction) -> None:
        before = self.net[step]
        super().by_hand(step, direction)
        if self.net[step] != before:
            self.effects.append((step, direction, f"by hand, {len(self.effects)}"))


def findings_of(world: World, policy: Policy) -> list[Finding]:
    """What the auditor has to say of a world at rest whose remote service is a WrittenRemote."""
    orders = {order.record.key: _facts(world, n) for n, order in enumerate(world.orders)}
    remote = world.remote
    assert isinstance(remote, WrittenRemote)
    ledger = Ledger(
        [
            Effect(world.orders[no - 1].record.key, f"s{step}", way, key)
            for (no, step), way, key in remote.effects
        ],
        [
            Call(world.orders[no - 1].record.key, f"s{step}", way, key, 0)
            for (no, step), way, key in remote.called
        ],
    )
    alerts = [order.record.key for order in world.orders if order.alerts and order.record.state in RESTING]
    snapshot = Snapshot(orders, _NOTHING_LEFT, [], [], dict.fromkeys(orders, _DIGEST))
    return compare(snapshot, Evidence(ledger, alerts=alerts), _settings(policy))


@lru_cache
def _settings(policy: Policy) -> Settings:
    return Settings(
        max_failures=policy.max_failures,
        step_timeout=policy.step_timeout,
        retry_interval=policy.retry_interval,
        calls_per_request=policy.calls_per_request,
        retry_budget=policy.retry_budget,
        undo_retry_budget=policy.undo_retry_budget,
    )


def _facts(world: World, n: int) -> OrderFacts:
    order = world.orders[n]
    history: list[Any] = [
        {
            "n": row.n,
            "at": row.at,
            "from_state": row.before,
            "to_state": row.after,
            "why": row.why,
            "step_no": row.step_no,
            "status": row.status,
            "sequence": row.sequence,
        }
        for row in order.log
    ]
    inbox: dict[tuple[int, Direction], Any] = {
        (step, way): asdict(row)
        for (no, step, way), row in world.fleet.inbox.rows.items()
        if no == order.record.no and (row.state != "fenced" or row.refuse_upto)
    }
    steps: dict[int, Any] = {step.step_no: structs.asdict(step) for step in order.record.steps}
    record: Any = {**_members(order.record), "digest": _DIGEST, "purged": False, "document_left": False}
    return OrderFacts(record, world.workflow, steps, history, inbox)


def _members(record: Any) -> dict[str, Any]:
    return structs.asdict(record)
