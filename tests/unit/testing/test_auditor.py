"""The auditor's rules, each on an order that is sound but for one thing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from triumvir.broker.admin import QueueDepth
from triumvir.contracts.messages import Status
from triumvir.settings import Settings
from triumvir.testing import Call, Effect, Evidence, Ledger, describe
from triumvir.testing.auditor import compare
from triumvir.testing.history import NEVER_AGAIN
from triumvir.testing.rest import depths
from triumvir.testing.snapshot import OrderFacts, Snapshot
from triumvir.workflow import Step, UndoOrder, Workflow

KEY = "shop/1"
AT = datetime(2026, 1, 1, tzinfo=UTC)
WORKFLOW = Workflow(
    "trade",
    1,
    [
        Step("reserve", agent="goods", operation="reserve", undo="release"),
        Step("charge", agent="money", operation="charge", undo="refund"),
    ],
    on_error="compensate",
)


class Case:
    """An order that was charged and then undone, with the evidence that belongs to it; tests spoil one thing."""

    def __init__(self, workflow: Workflow = WORKFLOW) -> None:
        self.workflow = workflow
        self.record: dict[str, Any] = {
            "no": 1, "client": "shop", "order_id": "1", "digest": b"d", "workflow": "trade", "version": 1,
            "state": "compensated", "locked": False, "held_by": None, "fence": 9, "attempt": 2,
            "sequence": 3, "history": 5, "budget": 30, "purged": False, "document_left": False,
        }  # fmt: skip
        self.history = [
            self.row(1, "pending", "pending", "received", status="received", sequence=1),
            self.row(2, "pending", "processing", "run reserve", step_no=1),
            self.row(3, "processing", "compensating", "refused", status="compensating", sequence=2),
            self.row(4, "compensating", "compensating", "reserve undone", step_no=1),
            self.row(5, "compensating", "compensated", "all", status="compensated", sequence=3),
        ]
        self.steps = {number: self.step(number) for number in (1, 2)}
        self.inbox: dict[Any, dict[str, Any]] = {
            (number, direction): {
                "fence": 5, "generation": 0, "state": "succeeded", "calls": 1,
                "refuse_upto": NEVER_AGAIN if direction == "do" else 0,
            }
            for number in (1, 2) for direction in ("do", "undo")
        }  # fmt: skip
        self.leftovers = {
            "outbox": 0,
            "commands": 0,
            "marks": 0,
            "replays": 0,
            "replies": 0,
            "admitted": 0,
            "open": 0,
        }
        self.documents = {KEY: b"d"}
        self.emptied: frozenset[str] = frozenset()
        self.dead: list[dict[str, Any]] = []
        self.effects = [
            self.effect("reserve", "do"), self.effect("charge", "do"),
            self.effect("charge", "undo"), self.effect("reserve", "undo"),
        ]  # fmt: skip
        self.calls = [Call(e.order, e.step, e.direction, e.key, 5) for e in self.effects]
        self.accepted = {KEY}
        self.alerts: set[str] = set()
        self.told = {1: "received", 2: "compensating", 3: "compensated"}

    @staticmethod
    def row(n: int, before: str, after: str, why: str, **more: Any) -> dict[str, Any]:
        base = {"n": n, "at": AT + timedelta(seconds=n), "from_state": before, "to_state": after, "why": why}
        return base | {"step_no": None, "status": None, "sequence": None} | more

    @staticmethod
    def step(number: int) -> dict[str, Any]:
        return {
            "step_no": number, "attempt": 1, "state": "completed", "calls": 1, "effect": "certain",
            "undo_state": "undone", "undo_generation": 0, "by_hand": False, "undo_limit": 31,
            "led_to": None,
        }  # fmt: skip

    @staticmethod
    def effect(step: str, direction: Any, generation: int = 0) -> Effect:
        return Effect(KEY, step, direction, f"{KEY}/{step}/{direction}/{generation}")

    def found(self) -> list[str]:
        facts: Any = OrderFacts(self.record, self.workflow, self.steps, self.history, self.inbox)  # type: ignore[arg-type]
        snapshot = Snapshot({KEY: facts}, self.leftovers, [], self.dead, self.documents, self.emptied)  # type: ignore[arg-type]
        statuses: Any = [
            Status(order_id="1", status=name, sequence=n, at=AT) for n, name in self.told.items()
        ]
        evidence = Evidence(Ledger(self.effects, self.calls), self.accepted, {KEY: statuses}, self.alerts)
        findings = compare(snapshot, evidence, Settings())
        assert (describe(findings) == "the audit found nothing") == (not findings)
        return [str(finding) for finding in findings]


def test_a_sound_order_is_no_finding() -> None:
    assert Case().found() == []


@pytest.mark.parametrize("answer", ["cancel_refused", "signal_refused", "signalled"])
def test_what_somebody_is_answered_after_the_end_says_nothing_of_the_order(answer: str) -> None:
    case = Case()
    case.history.append(
        case.row(6, "compensated", "compensated", "asked too late", status=answer, sequence=4)
    )
    case.record |= {"sequence": 4, "history": 6}
    case.told[4] = answer
    assert case.found() == []


def purged() -> Case:
    """The same order, of which nothing is left but what must be."""
    case = Case()
    case.steps, case.inbox, case.emptied = {}, {}, frozenset({KEY})
    case.record |= {"purged": True, "budget": None, "history": 6}
    case.history = [case.history[-1], case.row(6, "compensated", "compensated", "purged")]
    return case


def test_a_purged_order_is_no_finding_although_its_effects_and_calls_are_written_nowhere_any_more() -> None:
    assert purged().found() == []


@pytest.mark.parametrize(
    "what, text",
    [
        ("live", "A1 shop/1: was purged, and is compensating"),
        ("steps", "A8 shop/1: was purged, and 1 steps are left"),
        ("inbox", "A8 shop/1: was purged, and 1 inbox rows are left"),
        ("payload", "A8 shop/1: was purged, and its payload is left"),
        ("answer", "A6 shop/1: was purged as compensated, and answers []"),
        ("other answer", "A6 shop/1: was purged as compensated, and answers ['completed']"),
        ("doubled effect", "A2 shop/1: 2 effects under one idempotency key, shop/1/reserve/do/0"),
    ],
)
def test_the_auditor_finds_of_a_purged_order(what: str, text: str) -> None:
    case = purged()
    match what:
        case "live":
            case.record["state"] = "compensating"
        case "steps":
            case.steps = {1: case.step(1)}
        case "inbox":
            case.inbox = {(1, "do"): {"state": "succeeded"}}
        case "payload":
            case.emptied = frozenset()
        case "answer":
            case.history = case.history[1:]
        case "other answer":
            case.history[0]["status"] = "completed"
        case "doubled effect":
            case.effects.insert(1, case.effects[0])
    assert text in case.found()


def test_an_order_that_lost_its_payload_without_a_purge_is_found() -> None:
    case = Case()
    case.emptied = frozenset({KEY})
    assert case.found() == ["A7 shop/1: its document is empty, and it was not purged"]


def spoil(case: Case, what: str) -> None:
    """One thing that is wrong."""
    match what:
        case "stuck":
            case.record["state"] = case.history[-1]["to_state"] = "compensating"
        case "unalerted":
            case.record["state"] = case.history[-1]["to_state"] = "compensation_failed"
            case.history[-1]["status"] = case.told[3] = "compensation_failed"
        case "doubled effect":
            case.effects.insert(1, case.effects[0])
        case "effect left":
            del case.effects[2]
        case "forward undo":
            case.effects[2:] = reversed(case.effects[2:])
        case "not undone":
            case.steps[1]["undo_state"] = "undoing"
        case "gap in history":
            del case.history[1]
        case "illegal arrow":
            case.history[2]["from_state"] = case.history[1]["to_state"] = "closed"
        case "completed twice":
            case.history[1]["why"] = case.history[3]["why"] = "reserve completed"
        case "left out":
            case.record["state"] = case.history[-1]["to_state"] = "processed"
            case.steps[2] |= {"state": "failed", "effect": "none", "undo_state": None}
        case "skipped and begun":
            case.steps[1] |= {"state": "skipped", "effect": "none", "undo_state": None}
        case "open to be run":
            case.inbox[1, "do"]["refuse_upto"] = 0
        case "overwritten":
            case.inbox[1, "undo"]["state"] = "failed"
        case "never folded":
            case.steps[1] |= {"state": "failed", "effect": "unknown"}
        case "too many calls":
            case.calls += case.calls * 50
            case.inbox[1, "do"]["calls"] = 400
        case "budget exceeded":
            case.record["budget"] = 1
            case.calls += case.calls * 2
            case.inbox[1, "do"]["calls"] = 3
        case "budget granted by nobody":
            case.record["budget"] = 60
        case "undo beyond its limit":
            case.inbox[1, "undo"]["calls"] = 3
            case.steps[1]["undo_limit"] = 0
        case "unwritten call":
            case.calls.append(case.calls[0])
        case "gap in statuses":
            case.history[2]["sequence"] = 3
        case "lost status":
            del case.told[2]
        case "other status":
            case.told[3] = "completed"
        case "lost order":
            case.accepted.add("shop/2")
        case "lone document":
            case.documents["shop/2"] = b"d"
        case "lost document":
            del case.documents[KEY]
        case "other document":
            case.documents[KEY] = b"e"
        case "replayed into nothing":
            case.dead.append(letter("replayed", b'{"order_id":"lost"}'))
        case "outbox":
            case.leftovers["outbox"] = 1
        case "reply":
            case.leftovers["replies"] = 1
        case "replay":
            case.leftovers["replays"] = 1
        case "admission":
            case.leftovers["admitted"] = 3
        case "dead letter":
            case.dead.append(letter(None))


def letter(settlement: str | None, body: bytes | None = None) -> dict[str, Any]:
    """A dead letter as the audit reads it."""
    return {
        "id": "d", "message_id": "m", "queue": "orders", "reason": "invalid", "detail": "x", "client": "shop",
        "type": "order.submit.v1", "settlement": settlement, "body": body,
    }  # fmt: skip


def test_a_dead_letter_that_became_an_order_is_no_finding() -> None:
    case = Case()
    case.dead.append(letter("replayed", b'{"order_id":"1"}'))
    assert case.found() == []


@pytest.mark.parametrize(
    ("undo_order", "ranks", "allowed"),
    [
        ("parallel", (None, None), True),
        ("by-rank", (3, 3), True),
        ("by-rank", (1, 2), True),
        ("by-rank", (2, 1), False),
    ],
)
def test_undos_may_come_in_any_order_that_the_workflow_allows(
    undo_order: UndoOrder, ranks: tuple[int | None, int | None], allowed: bool
) -> None:
    defined = [step for step in WORKFLOW.steps if isinstance(step, Step)]
    steps = [replace(step, undo_rank=rank) for step, rank in zip(defined, ranks, strict=True)]
    case = Case(replace(WORKFLOW, steps=steps, undo_order=undo_order))
    spoil(case, "forward undo")
    found = [] if allowed else ["A3 shop/1: undone in the order reserve, charge, not charge, reserve"]
    assert case.found() == found


@pytest.mark.parametrize(
    "what, rule, text",
    [
        ("stuck", "A1", "is still compensating"),
        ("unalerted", "A1", "no alert was raised"),
        ("doubled effect", "A2", "2 effects under one idempotency key"),
        ("effect left", "A2", "charge: net effect 1, not 0"),
        ("forward undo", "A3", "undone in the order reserve, charge"),
        ("not undone", "A3", "compensated although reserve is undoing"),
        ("gap in history", "A4", "history rows [1, 3, 4, 5], 5 were written"),
        ("illegal arrow", "A4", "illegal arrow pending -> closed"),
        ("completed twice", "A4", "reserve was completed 2 times"),
        ("left out", "A4", "processed, and charge is failed"),
        ("skipped and begun", "A4", "reserve was skipped, and its do was begun"),
        ("skipped and begun", "A4", "reserve was skipped, and has no condition"),
        ("open to be run", "A4", "reserve is being undone and may still be run"),
        ("overwritten", "A4", "undo of reserve is done, its inbox row failed"),
        ("never folded", "A4", "reserve succeeded, and the order was never told"),
        ("too many calls", "A5", "do of reserve: 51 calls, 12 allowed"),
        ("budget exceeded", "A5", "calls beyond the first of each step, 1 granted"),
        ("budget granted by nobody", "A5", "60 calls granted: 30 at first, and 0 moves"),
        ("undo beyond its limit", "A5", "undo of reserve: 1 calls, 0 granted"),
        ("unwritten call", "A5", "do of reserve: 2 calls made, 1 written down"),
        ("gap in statuses", "A6", "statuses [1, 3, 3] of 3 were written"),
        ("lost status", "A6", "its client never got status 2, compensating"),
        ("other status", "A6", "its client got status 3 as completed"),
        ("lost order", "A7", "its submission was confirmed, and there is no such order"),
        ("lone document", "A7", "its document has no state record"),
        ("lost document", "A7", "its document is missing"),
        ("other document", "A7", "its document is that of another submission"),
        ("replayed into nothing", "A7", "dead letter d was replayed, and there is no such order"),
        ("outbox", "A8", "1 outbox rows are left"),
        ("reply", "A8", "1 replies of early acknowledged requests not sent are left"),
        ("replay", "A8", "1 replays not answered are left"),
        ("admission", "A8", "admission counts 3 open orders, there are 0"),
        ("dead letter", "A9", "m was set aside: orders: invalid: x"),
    ],
)
def test_the_auditor_finds(what: str, rule: str, text: str) -> None:
    case = Case()
    spoil(case, what)
    found = case.found()
    assert any(line.startswith(rule) and text in line for line in found), found


def test_messages_that_nobody_takes_are_found_unless_they_are_kept_for_somebody() -> None:
    queues = {
        name: QueueDepth(name, ready, unacknowledged, 1)
        for name, ready, unacknowledged in [
            ("orders", 1, 0), ("agent.goods", 0, 2), ("status.shop", 5, 0), ("alerts", 3, 0), ("orders.dead", 4, 0),
        ]
    }  # fmt: skip
    assert [finding.text for finding in depths(queues)] == [
        "2 messages of agent.goods are unacknowledged",
        "1 messages wait in orders",
    ]
