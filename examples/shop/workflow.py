"""The workflow of the shop: data, pinned per order by its version."""

from __future__ import annotations

from datetime import timedelta

from triumvir.workflow import Step, Workflow

order_fulfilment = Workflow(
    "order-fulfilment",
    version=1,
    steps=[
        Step("check", agent="orders", operation="check-order"),
        Step("reserve", agent="inventory", operation="reserve-stock", undo="release-stock"),
        Step("charge", agent="payments", operation="charge-card", undo="refund"),
        Step(
            "ship",
            agent="shipping",
            operation="book-courier",
            undo="cancel-courier",
            complete_within=timedelta(seconds=30),
        ),
    ],
    on_error="compensate",
)
