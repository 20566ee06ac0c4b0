"""Each sort of fault, and what does it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from tests.faults.pressure import time_passes
from tests.soak import operators, strikes
from tests.soak.remote import Mood
from tests.soak.schedule import Fault
from tests.soak.system import System

Do = Callable[[System, Fault], Awaitable[bool]]


async def _spoil(mood: Mood, system: System, fault: Fault) -> bool:
    met = system.remote.met[mood]
    with system.remote.being(mood):
        await time_passes(fault.lasts)
    return system.remote.met[mood] > met


ACTIONS: Final[Mapping[str, Do]] = {
    "kill": strikes.kill,
    "restart": strikes.restart,
    "clock ahead": strikes.clock_ahead,
    "clock behind": strikes.clock_behind,
    "rolling restart": strikes.rolling_restart,
    "sleep past the lease": strikes.sleep,
    "broker kill": strikes.kill_broker,
    "broker cut": strikes.cut_broker,
    "broker silent": strikes.silence_broker,
    "Postgres crash": strikes.crash_postgres,
    "database out of reach of": strikes.cut_off_supervisor,
    "lost answer to a commit of": strikes.lose_commit,
    "remote slow": partial(_spoil, "slow"),
    "remote fails": partial(_spoil, "fails"),
    "remote hangs before its effect": partial(_spoil, "hangs before its effect"),
    "remote hangs after its effect": partial(_spoil, "hangs after its effect"),
    "pause of an order": operators.pause_order,
    "pause of workflow": operators.pause_workflow,
    "pause of agent": operators.pause_agent,
    "cancel": operators.cancel,
    "move of a resting order": operators.move,
}
"""By the name that the schedule has for it. Each returns whether it happened to somebody."""
