"""How a call goes, and whether an order is refused: drawn from the seed, the key and the number of the call.

Nothing else is drawn from, so two runs with one seed meet the same faults, in whatever order the calls arrive.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Fault(StrEnum):
    """What goes wrong with one call. Only the first two lines leave the effect in no doubt."""

    NONE = "none"
    BUSY = "busy"  # 429 with Retry-After; nothing was done
    ERROR_BEFORE = "error before"  # 500; nothing was done
    ERROR_AFTER = "error after"  # 500, and yet it was done
    DROP_BEFORE = "drop before"  # the connection is cut; nothing was done
    DROP_AFTER = "drop after"  # the connection is cut, and yet it was done
    HANG = "hang"  # the answer comes long after any caller gave up; it was done


RATES: Final = {
    Fault.NONE: 0.917,
    Fault.BUSY: 0.02,
    Fault.ERROR_BEFORE: 0.02,
    Fault.ERROR_AFTER: 0.015,
    Fault.DROP_BEFORE: 0.01,
    Fault.DROP_AFTER: 0.015,
    Fault.HANG: 0.003,
}
SLOW_SHARE: Final = 0.1
HANG_SECONDS: Final = 4.0
LAST_FLAKY_UNDO_CALL: Final = 3
"""An undo goes well from the call after this on: what was done can always be undone in the end."""


@dataclass(frozen=True)
class Conduct:
    """How one call goes: ``delay`` in seconds before anything is done, then ``fault``."""

    delay: float
    fault: Fault


def conduct(seed: int, key: str, call: int, *, undo: bool = False) -> Conduct:
    """How the ``call``-th call (from 1) under ``key`` goes."""
    draw = random.Random(f"{seed}/{key}/{call}")
    fault = draw.choices(list(RATES), list(RATES.values()))[0]
    slow = draw.random() < SLOW_SHARE
    delay = draw.uniform(0.05, 0.2) if slow else draw.uniform(0.002, 0.015)
    if undo and call > LAST_FLAKY_UNDO_CALL:
        return Conduct(delay, Fault.NONE)
    return Conduct(HANG_SECONDS if fault is Fault.HANG else delay, fault)


def is_unlucky(seed: int, key: str, share: float) -> bool:
    """Whether this key is among the ``share`` (0 to 1) that a service refuses for no other reason."""
    return random.Random(f"{seed}/{key}/refused").random() < share
