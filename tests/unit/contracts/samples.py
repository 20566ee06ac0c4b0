"""One message of each type, for the golden files beside this.

A golden file that changes means that the wire changes: old and new processes run side by side during a deploy,
so only a new optional member may appear under a known type. ``python -m tests.unit.contracts.samples`` writes
the files of types that have none yet.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from triumvir.contracts.account import Account, StepAccount, UndoAccount
from triumvir.contracts.codec import encode
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import (
    Alert,
    AnyMessage,
    OrderCancel,
    OrderQuery,
    OrderSignal,
    OrderSubmit,
    SchedulerWake,
    Status,
    StepCompensate,
    StepExecute,
    StepFailed,
    StepProgressed,
    StepSucceeded,
)

GOLDEN = Path(__file__).parent / "golden"

_AT = datetime(2026, 3, 4, 5, 6, 7, 890_000, tzinfo=UTC)
_LOCK = UUID("6f2c1c1e-0f4b-4c53-9f0a-2b1f5b0a7a11")
_PAYLOAD = JsonText.of({"lines": [{"sku": "A-1", "count": 2, "price": 9.5}], "note": "für Zoë"})
_CHARGE = UndoAccount(
    step="charge",
    effect="certain",
    outcome="failed",
    step_no=2,
    operation="charge-card",
    undo="refund",
    state="completed",
    calls=2,
    undo_calls=9,
    undo_tries=4,
    undo_error="the bank is closed",
    argument=JsonText.of({"amount": 19.0}),
    result=JsonText.of({"charge": "c-1"}),
)

_SAMPLES: tuple[AnyMessage, ...] = (
    OrderSubmit(
        order_id="2026-0001",
        workflow="order-fulfilment",
        version=3,
        payload=_PAYLOAD,
        priority=5,
        not_before=_AT,
        progress=True,
    ),
    OrderCancel(order_id="2026-0001", reason="changed my mind"),
    OrderSignal(order_id="2026-0001", name="approval", data=JsonText.of({"approved": True, "by": "Zoë"})),
    OrderQuery(order_id="2026-0001", from_sequence=2),
    StepExecute(
        order_no=7,
        client="shop-a",
        order_id="2026-0001",
        workflow="order-fulfilment",
        version=3,
        step="charge",
        step_no=2,
        operation="charge-card",
        payload=_PAYLOAD,
        results={"reserve": JsonText.of({"reservation": "r-1"})},
        complete_by=_AT,
        time_left_ms=9_500,
        attempts_allowed=3,
        idempotency_key="shop-a/2026-0001/charge/do/0",
        lock=_LOCK,
        fence=1_772_600_767_890_000,
        attempt=2,
        retry=1,
    ),
    StepCompensate(
        order_no=7,
        client="shop-a",
        order_id="2026-0001",
        workflow="order-fulfilment",
        version=3,
        step="charge",
        step_no=2,
        operation="refund",
        payload=_PAYLOAD,
        complete_by=_AT,
        time_left_ms=9_500,
        attempts_allowed=3,
        idempotency_key="shop-a/2026-0001/charge/undo/0",
        lock=_LOCK,
        fence=1_772_600_767_890_001,
        attempt=3,
        confidential=True,
        effect="certain",
        result=JsonText.of({"charge": "c-1"}),
    ),
    StepSucceeded(
        order_no=7,
        client="shop-a",
        order_id="2026-0001",
        step="charge",
        step_no=2,
        direction="do",
        lock=_LOCK,
        fence=1_772_600_767_890_000,
        calls=2,
        result=JsonText.of({"charge": "c-1"}),
    ),
    StepProgressed(
        order_no=7,
        client="shop-a",
        order_id="2026-0001",
        step="charge",
        step_no=2,
        direction="do",
        lock=_LOCK,
        fence=1_772_600_767_890_000,
        calls=2,
        text="12 of 40 pages",
        count=3,
    ),
    StepFailed(
        order_no=7,
        client="shop-a",
        order_id="2026-0001",
        step="charge",
        step_no=2,
        direction="do",
        lock=_LOCK,
        fence=1_772_600_767_890_000,
        calls=3,
        kind="refused",
        effect="none",
        error="no such operation: charge-card",
        reason="unknown_operation",
    ),
    Status(
        order_id="2026-0001",
        status="step_completed",
        sequence=3,
        at=_AT,
        workflow="order-fulfilment",
        step="charge",
        detail="charged",
        result=JsonText.of({"charge": "c-1"}),
        submission="shop-a/2026-0001/submit",
        steps=(StepAccount(step="charge", effect="certain", outcome="failed"),),
    ),
    Alert(
        kind="order-halted",
        subject="shop-a/2026-0001",
        detail="step charge failed 4 times",
        at=_AT,
        order="shop-a/2026-0001",
        account=Account(payload=_PAYLOAD, steps=(_CHARGE,), left_out=("result of ship: 70000 characters",)),
    ),
    SchedulerWake(),
)

SAMPLES = {sample.TYPE: sample for sample in _SAMPLES}


def golden_file(type_: str) -> Path:
    """Where the body of that type is kept."""
    return GOLDEN / f"{type_}.json"


def _write_missing() -> None:
    for type_, sample in SAMPLES.items():
        if not golden_file(type_).exists():
            body = json.dumps(json.loads(encode(sample)), indent=2, ensure_ascii=False)
            golden_file(type_).write_text(f"{body}\n")


if __name__ == "__main__":
    _write_missing()
