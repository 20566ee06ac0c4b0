"""The public surface of Triumvir and nothing else.

A name is loaded when it is first used, so that a client needs neither the database driver nor the chassis.
Every other exception is in :mod:`triumvir.errors`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triumvir.agent import Agent, Context
    from triumvir.client import Client, Order, Submission
    from triumvir.contracts.messages import Status
    from triumvir.errors import (
        OrderCancelled,
        OrderCompensated,
        OrderCompensationFailed,
        OrderError,
        OrderHalted,
        OrderRejected,
        Permanent,
        Transient,
        TriumvirError,
    )
    from triumvir.workflow import Step, Wait, Workflow

__all__ = [
    "Agent",
    "Client",
    "Context",
    "Order",
    "OrderCancelled",
    "OrderCompensated",
    "OrderCompensationFailed",
    "OrderError",
    "OrderHalted",
    "OrderRejected",
    "Permanent",
    "Status",
    "Step",
    "Submission",
    "Transient",
    "TriumvirError",
    "Wait",
    "Workflow",
    "__version__",
]

__version__ = version("triumvir")

_HOMES = {
    "triumvir.agent": ("Agent", "Context"),
    "triumvir.client": ("Client", "Order", "Submission"),
    "triumvir.contracts.messages": ("Status",),
    "triumvir.errors": (
        "OrderCancelled",
        "OrderCompensated",
        "OrderCompensationFailed",
        "OrderError",
        "OrderHalted",
        "OrderRejected",
        "Permanent",
        "Transient",
        "TriumvirError",
    ),
    "triumvir.workflow": ("Step", "Wait", "Workflow"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

if not TYPE_CHECKING:  # a type checker is to complain of names that do not exist

    def __getattr__(name: str) -> object:
        if name not in _HOME_OF:
            raise AttributeError(f"module 'triumvir' has no attribute {name!r}")
        return getattr(import_module(_HOME_OF[name]), name)

    def __dir__() -> list[str]:
        return [*globals(), *__all__]
