"""F36: every message comes one to three times, in any order, some copies late."""

from __future__ import annotations

import random

import pytest

from tests.faults.cluster import Cluster
from tests.faults.tap import doubled
from triumvir.broker import Publisher

pytestmark = pytest.mark.slow


async def test_f36_every_message_doubled_and_shuffled_changes_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: list[str] = []
    monkeypatch.setattr(Publisher, "publish", doubled(Publisher.publish, random.Random(36), copies.append))
    log = cluster.folder / "tap.log"
    await cluster.start(launcher="tests.faults.tap", FAULTS_TAP_LOG=str(log))
    for _ in range(4):
        await cluster.load.submit(16)
        await cluster.settle()
    await cluster.assert_sound()
    assert sum(copy.endswith("/submit") for copy in copies) > 20, "the client's messages were doubled"
    sent = log.read_text().splitlines()
    for part in ("/do/", "/undo/", "/reply/", "/received/", "/completed/", "/compensated/"):
        assert sum(part in copy for copy in sent) > 5, f"{part} was doubled"
