"""The auditor: compares store, broker and outside world once nothing moves any more. One for all purposes.

::

    findings = await audit(settings, ledger=ledger, statuses=statuses, accepted=keys, alerts=alerted)
    assert not findings, describe(findings)

Stop the faults and wait for quiet first: an order that still runs is a finding. Of a purged order only that is
compared which is kept of it; one whose key is forgotten is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

from triumvir.broker.admin import BrokerAdmin
from triumvir.contracts.messages import Status
from triumvir.settings import Settings
from triumvir.testing import effects, history, rest
from triumvir.testing.budgets import budgets
from triumvir.testing.evidence import Evidence, Ledger
from triumvir.testing.findings import Finding
from triumvir.testing.purged import purged
from triumvir.testing.snapshot import Snapshot, look

QUEUES_WITHIN: Final = 12.0
"""Seconds. The broker's figures about its queues are some seconds old."""
_POLL: Final = 0.25


async def audit(
    settings: Settings,
    *,
    ledger: Ledger | None = None,
    statuses: Mapping[str, Sequence[Status]] | None = None,
    accepted: Collection[str] = (),
    alerts: Collection[str] | None = None,
    expected_dead: Collection[str] | None = (),
    queues_within: float = QUEUES_WITHIN,
) -> list[Finding]:
    """What is broken; an empty list if nothing is. Orders are named ``client/order_id``.

    ``ledger``: effects and calls that remote services wrote down. ``statuses``: what clients got, by order, as it
    came. ``accepted``: orders whose submission was confirmed. ``alerts``: orders that operators were alerted of.
    ``expected_dead``: message ids that were meant to be refused. None: not compared. Raises StoreError or
    BrokerError if it cannot look.
    """
    evidence = Evidence(ledger, accepted, statuses, alerts, expected_dead)
    findings = compare(await look(settings), evidence, settings)
    return [*findings, *await _queues(settings, queues_within)]


def compare(snapshot: Snapshot, evidence: Evidence, settings: Settings) -> list[Finding]:
    """Everything but the queues."""
    findings = [
        *rest.ends(snapshot, evidence),
        *history.tokens(snapshot),
        *effects.calls(snapshot, evidence.ledger, settings),
        *budgets(snapshot, evidence.ledger, settings),
        *history.statuses(snapshot, evidence.statuses),
        *rest.submissions(snapshot, evidence),
        *rest.leftovers(snapshot),
        *rest.dead_letters(snapshot, evidence),
        *purged(snapshot),
    ]
    if evidence.ledger is not None:
        findings += effects.net_effects(snapshot, evidence.ledger)
        findings += effects.compensations(snapshot, evidence.ledger)
    return findings


async def _queues(settings: Settings, within: float) -> list[Finding]:
    vhost = unquote(urlsplit(settings.broker_url).path.removeprefix("/")) or "/"
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    async with BrokerAdmin(settings.management_url) as admin:
        while True:
            findings = list(rest.depths(await admin.queue_depths(vhost)))
            if not findings or loop.time() > deadline:
                return findings
            await asyncio.sleep(_POLL)
