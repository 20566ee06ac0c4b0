"""The file that the demo submits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_orders(path: Path) -> list[dict[str, Any]]:
    """The orders of an NDJSON file. Raises ValueError naming the line that is none."""
    orders: list[dict[str, Any]] = []
    lines: dict[str, int] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip():
            continue
        try:
            order = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path}:{number}: not JSON: {error}") from None
        has_id = isinstance(order, dict) and isinstance(order.get("order_id"), str)
        if not has_id:
            raise ValueError(
                f"{path}:{number}: order_id is missing; each line is an object with a text order_id"
            )
        if (before := lines.setdefault(order["order_id"], number)) != number:
            raise ValueError(
                f"{path}:{number}: order_id {order['order_id']!r} stands in line {before} already"
            )
        orders.append(order)
    if not orders:
        raise ValueError(f"{path}: holds no orders; give a file with one JSON object a line")
    return orders
