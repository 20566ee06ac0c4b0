"""What users import from ``triumvir`` is pinned: a name that goes, or comes, is a decision."""

from __future__ import annotations

import subprocess
import sys

import triumvir

NAMES = [
    "Agent", "Client", "Context", "Order", "OrderCancelled", "OrderCompensated", "OrderCompensationFailed",
    "OrderError", "OrderHalted", "OrderRejected", "Permanent", "Status", "Step", "Submission", "Transient",
    "TriumvirError", "Wait", "Workflow",
]  # fmt: skip


def test_the_public_surface_is_these_names_and_no_others() -> None:
    assert triumvir.__all__ == [*NAMES, "__version__"]
    assert all(getattr(triumvir, name).__name__ == name for name in NAMES)


def test_a_client_loads_neither_the_database_driver_nor_the_chassis() -> None:
    code = "import sys, triumvir; triumvir.Client; print(*sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    loaded = set(answer.stdout.split())
    assert "triumvir.client" in loaded, answer.stderr
    assert {
        module for module in loaded if module.startswith(("asyncpg", "triumvir.store", "triumvir.runtime"))
    } == set()
