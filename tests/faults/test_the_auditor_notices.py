"""Tests of the tests: with one guard taken away and the fault it is there for, the auditor must find what broke."""

from __future__ import annotations

import signal
from collections import Counter
from functools import partial

import pytest

from tests.faults.cluster import STRAIGHT, Cluster
from tests.waiting import eventually, eventually_true
from triumvir.testing import Call, Finding, describe

pytestmark = pytest.mark.slow
LAUNCHER = "tests.faults.sabotaged"


async def start(cluster: Cluster, sabotaged: str, sabotage: str, *, doubling: tuple[str, ...] = ()) -> None:
    """Everything runs, ``sabotaged`` without its guard; what ``doubling`` publish comes more than once."""
    tap = {"FAULTS_TAP_LOG": str(cluster.folder / "tap.log")}
    for kind in STRAIGHT:
        if kind == sabotaged:
            env = {"FAULTS_SABOTAGE": sabotage, **(tap if kind in doubling else {})}
            await cluster.add(kind, launcher=LAUNCHER, **env)
        elif kind in doubling:
            await cluster.add(kind, launcher="tests.faults.tap", **tap)
        else:
            await cluster.add(kind)
    for service in cluster.services.values():
        await service.ready()


def found(findings: list[Finding], rule: str, text: str) -> int:
    """How often this was found."""
    return Counter(finding.rule == rule and text in finding.text for finding in findings)[True]


async def test_the_auditor_notices_an_acknowledgement_before_the_commit(cluster: Cluster) -> None:
    await start(cluster, "submitter", "ack_first")
    victim = await cluster.arm("submitter", "submitter.before_commit", 1)
    await victim.ready()
    await cluster.load.submit(12, "good")
    assert await victim.dies()
    findings = await cluster.findings(within=30)
    assert found(findings, "A7", "its submission was confirmed, and there is no such order"), describe(
        findings
    )


async def test_the_auditor_notices_that_replies_are_folded_without_their_token(cluster: Cluster) -> None:
    await start(cluster, "scheduler", "fold_every_reply", doubling=("agent",))
    await cluster.load.submit(30, "good")
    findings = await cluster.findings(within=30)
    assert found(findings, "A4", "was completed 2 times"), describe(findings)


async def test_the_auditor_notices_an_outbox_row_that_goes_before_its_confirm(cluster: Cluster) -> None:
    await start(cluster, "scheduler", "forget_outbox_first")
    scheduler = cluster.services["scheduler"]
    await scheduler.restart({"FAULTS_DIE": "yes"})
    await cluster.load.submit(12, "good")
    assert await scheduler.dies()
    findings = await cluster.findings(within=30)
    assert found(findings, "A6", "its client never got status"), describe(findings)


async def test_the_auditor_notices_that_the_inbox_is_ignored(cluster: Cluster) -> None:
    await start(cluster, "agent", "ignore_inbox", doubling=("scheduler",))
    await cluster.load.submit(30, "good")
    findings = await cluster.findings(within=30)
    assert found(findings, "A2", "effects under one idempotency key"), describe(findings)
    assert found(findings, "A5", "written down"), describe(findings)


async def test_the_auditor_notices_an_outcome_written_over_that_of_a_newer_attempt(cluster: Cluster) -> None:
    """An agent sleeps through its deadline in a call that then fails; meanwhile another one succeeded."""
    await start(cluster, "agent", "finish_without_fence")
    zombie = cluster.services["agent"]
    first: list[Call] = []

    async def sleep(call: Call) -> None:
        if not first:
            first.append(call)
            zombie.send(signal.SIGSTOP)

    cluster.downstream.before = sleep
    cluster.downstream.drop_reply = lambda call: call is first[0]
    order = await cluster.load.submit_one("overwritten")
    await eventually(lambda: first, what="the call of the zombie")
    await (await cluster.add("agent", "second agent")).ready()
    await order.result(timeout=60)
    zombie.send(signal.SIGCONT)
    await eventually_true(partial(is_overwritten, cluster), within=60, what="the outcome written over")
    findings = await cluster.findings(within=30)
    assert found(findings, "A4", "do of reserve is done, its inbox row failed"), describe(findings)


async def is_overwritten(cluster: Cluster) -> bool:
    return bool(await cluster.database.fetchval("select exists (select from inbox where state = 'failed')"))
