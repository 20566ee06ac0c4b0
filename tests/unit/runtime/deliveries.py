"""Deliveries as they come from a queue."""

from __future__ import annotations

from typing import Any

from triumvir.broker import Delivery


def delivery(body: bytes = b"{}", **changed: Any) -> Delivery:
    """One delivery of ``orders`` by the client ``shop-a``."""
    members: dict[str, Any] = {
        "queue": "orders",
        "message_id": "m-1",
        "type": "order.submit.v1",
        "correlation_id": None,
        "user_id": "shop-a",
        "reply_to": None,
        "content_type": "application/json",
        "headers": {},
        "redelivered": False,
        "timestamp": None,
        "tag": 1,
        "channel": None,
        **changed,
    }
    return Delivery(body=body, **members)
