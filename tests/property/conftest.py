"""How far the histories go: for many more of them, ``pytest tests/property --hypothesis-profile=deep``."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("deep", max_examples=5_000, stateful_step_count=100, print_blob=True)
