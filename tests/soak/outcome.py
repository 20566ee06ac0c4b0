"""What is left of a soak: the auditor's findings, and all that is known of the orders they are about."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tests.soak.journal import Clock, Done, Journal
from tests.soak.system import System
from triumvir.runtime.service import EXIT_FAILED
from triumvir.telemetry import events
from triumvir.testing import Finding, audit

AWAY: Final = (
    "cannot be reached",
    "no RabbitMQ answered",
    "connection unexpectedly closed",
    "connection was closed",
    "could be opened in",
)
"""What a service says at its start of a server that is away, or goes away meanwhile."""
BEFORE: Final = 5.0
"""Seconds before an order's first line of history in which faults are shown with it, too."""


@dataclass(frozen=True)
class Outcome:
    """``findings`` are the auditor's, ``ills`` what else is wrong; ``around``: the faults in the life of each order
    that a finding names.
    """

    seed: int
    accepted: int
    states: Counter[str]
    calls: int
    copies: int
    journal: Journal
    findings: Sequence[Finding]
    ills: Sequence[str]
    around: dict[str, list[Done]]

    @property
    def is_clean(self) -> bool:
        return not self.findings and not self.ills


async def examined(system: System, clock: Clock, journal: Journal) -> Outcome:
    """The audit, and what became of everything."""
    cluster = system.cluster
    findings = await audit(
        cluster.settings,
        ledger=await cluster.ledger(),
        statuses=cluster.load.received,
        accepted=cluster.load.accepted,
        alerts=cluster.alerts,
    )
    named = list(dict.fromkeys(finding.order for finding in findings if finding.order))
    await _keep_evidence(system, named)
    return Outcome(
        seed=system.seed,
        accepted=len(cluster.load.accepted),
        states=Counter((await cluster.states()).values()),
        calls=len(cluster.downstream.calls()),
        copies=len((system.folder / "tap.log").read_text().splitlines()),
        journal=journal,
        findings=findings,
        ills=[*_unasked_exits(system), *cluster.illnesses(), *cluster.unfollowed()],
        around={order: await _around(system, clock, journal, order) for order in named},
    )


def _unasked_exits(system: System) -> Iterator[str]:
    """Exits with code 1, but for those of a service that found a server away, when it started or when it drained."""
    for service in system.cluster.services.values():
        lines = [line for line in service.log.read_text().splitlines() if '"level":"error"' in line]
        excused = sum(_found_nobody(json.loads(line)) for line in lines)
        failed = service.exits.count(EXIT_FAILED)
        if failed > excused:
            yield f"{service.name} failed {failed} times, {excused} of them because a server was away"


def _found_nobody(line: dict[str, object]) -> bool:
    if line["event"] in (events.SERVICE_DRAIN_INCOMPLETE, events.DRAIN_STEP_FAILED):
        return True
    starting = line["event"] == events.TASK_FAILED and line["task"] == "start"
    return starting and any(words in str(line["error"]) for words in AWAY)


async def _around(system: System, clock: Clock, journal: Journal, order: str) -> list[Done]:
    row = await system.cluster.database.fetchrow(
        "select min(t.at) as since, max(t.at) as until from transitions t join orders o using (no)"
        " where o.client = $1 and o.order_id = $2",
        *order.split("/", 1),
    )
    if row is None or row["since"] is None:
        return journal.done[-10:]
    since, until = (row[name].timestamp() - clock.began_at for name in ("since", "until"))
    return journal.between(since - BEFORE, until)


async def _keep_evidence(system: System, orders: Sequence[str]) -> None:
    """All that the store and the remote service know of these orders, in ``evidence.jsonl``."""
    ids = [order.partition("/")[2] for order in orders]
    with (system.folder / "evidence.jsonl").open("w") as file:
        for table in ("orders", "steps", "inbox", "transitions"):
            found = await system.cluster.database.fetch(
                f"select t.* from {table} t join orders o using (no) where o.order_id = any($1)", ids
            )
            for row in found:
                file.write(json.dumps({"table": table, **row}, default=str) + "\n")
        for entry in system.cluster.downstream.entries():
            if entry[2] in orders:
                file.write(json.dumps(entry) + "\n")
