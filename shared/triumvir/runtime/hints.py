"""Hints to the schedulers: there is pending work. They may be lost, and everything is also found by polling."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import uuid4

from triumvir.broker import INTERNAL_EXCHANGE, WAKE, OutMessage
from triumvir.contracts.messages import SchedulerWake
from triumvir.runtime.batches import FEW

RELEASED_HEADER: Final = "triumvir-released"
COMMANDS_HEADER: Final = "triumvir-commands"
ORDERS_HEADER: Final = "triumvir-orders"
_NUMBERS: Final = re.compile(r"[0-9]{1,18}(,[0-9]{1,18})*")


def wake(*, released: bool = False, commands: bool = False, orders: Sequence[int] = ()) -> OutMessage:
    """The hint that there is pending work. ``released``: because agents came back; ``commands``: because somebody
    asked something of an order; ``orders``: the numbers of new ones, left out if they are more than a few.
    """
    told = {RELEASED_HEADER: released, COMMANDS_HEADER: commands}
    headers = {name: "1" for name, is_so in told.items() if is_so}
    if 0 < len(orders) <= FEW:
        headers[ORDERS_HEADER] = ",".join(map(str, orders))
    return OutMessage(INTERNAL_EXCHANGE, WAKE, f"wake/{uuid4().hex}", SchedulerWake.TYPE, "", b"{}", headers)


def named_orders(headers: Mapping[str, object]) -> list[int]:
    """The orders that a hint names; none if it names none, or in words of another release."""
    text = headers.get(ORDERS_HEADER)
    is_list = isinstance(text, str) and _NUMBERS.fullmatch(text)
    return [int(no) for no in str(text).split(",")] if is_list else []
