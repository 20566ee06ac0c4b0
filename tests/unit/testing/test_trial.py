"""A trial finds what an agent does not keep, and nothing in one that keeps it all."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

import pytest

from triumvir.agent import Agent, Context, Permanent
from triumvir.errors import DefinitionError
from triumvir.testing import AgentTrial, TrialReport


@dataclass
class Till:
    """A remote service that dedupes by key, and every call of which takes a while."""

    net: Counter[str] = field(default_factory=Counter)
    served: set[str] = field(default_factory=set)

    async def charge(self, order: str, key: str) -> None:
        await asyncio.sleep(0)
        if key not in self.served:
            self.served.add(key)
            self.net[order] += 1
        await asyncio.sleep(0)

    async def refund(self, order: str, key: str) -> None:
        await asyncio.sleep(0)
        if key not in self.served:
            self.served.add(key)
            self.net[order] = 0
        await asyncio.sleep(0)

    def count(self, order: str, operation: str) -> int:
        return self.net[order]


def agent_of(till: Till, flaw: str = "") -> Agent:
    """An agent that keeps everything, but for one flaw."""
    agent = Agent("payments")

    @agent.operation("charge", undo="refund")
    async def charge(ctx: Context, order: dict[str, int]) -> str:
        if flaw == "does not work":
            raise Permanent("closed")
        if order["amount"] < 0:
            if flaw == "lies":
                await till.charge(ctx.order_key, ctx.idempotency_key)
            raise Permanent("no such amount", effect="none")
        if flaw == "own key at every call":
            await till.charge(ctx.order_key, f"{ctx.idempotency_key}/{object()}/{ctx.fence}")
        elif flaw == "key of the attempt":
            await till.charge(ctx.order_key, f"{ctx.idempotency_key}/{ctx.attempt}")
        elif flaw == "looks before it leaps":
            if till.net[ctx.order_key] == 0:
                await asyncio.sleep(0)
                till.net[ctx.order_key] += 1
        else:
            await till.charge(ctx.order_key, ctx.idempotency_key)
        if flaw == "never ends":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.Event().wait()
        return "charged"

    @agent.undo("refund")
    async def refund(ctx: Context, order: dict[str, int], result: str | None) -> None:
        if flaw == "needs the result" and result is None:
            raise Permanent("which charge?")
        if flaw == "insists on an effect" and till.net[ctx.order_key] == 0:
            raise Permanent("nothing to refund")
        if flaw == "one key for every undo":
            await till.refund(ctx.order_key, f"refund of {ctx.order_key}")
        elif flaw == "undoes nothing":
            return
        elif flaw == "takes back too much":
            till.net[ctx.order_key] -= 1
        else:
            await till.refund(ctx.order_key, ctx.idempotency_key)

    return agent


async def tried(flaw: str = "", seconds: float = 10.0) -> TrialReport:
    till = Till()
    trial = AgentTrial(
        agent_of(till, flaw),
        {"charge": {"amount": 5}},
        failing={"charge": {"amount": -5}},
        count_effects=till.count,
        seconds=seconds,
    )
    return await trial.run()


async def test_an_agent_that_keeps_everything_is_sound() -> None:
    report = await tried()
    assert report.sound, report
    assert len(report.lines) == 13
    assert str(report).splitlines()[0] == "charge: works: holds"


@pytest.mark.parametrize(
    ("flaw", "promise", "said"),
    [
        ("does not work", "works", "the call failed (permanent, effect none): closed"),
        (
            "key of the attempt",
            "takes effect once, however often it is called under one key",
            "3 net effects",
        ),
        ("looks before it leaps", "takes effect once when two calls under one key are made at once", "2 net"),
        (
            "own key at every call",
            "takes effect once when it is killed at any of its waits and called again",
            "2 net",
        ),
        ("lies", "a failure that says it had no effect had none", "1 net effects after a failure"),
        ("undoes nothing", "its undo takes the effect back", "1 net effects after the undo"),
        ("needs the result", "its undo needs no result to take the effect back", "which charge?"),
        ("insists on an effect", "its undo accepts that there is nothing to undo", "nothing to refund"),
        ("takes back too much", "its undo may be called again under one key", "-1 net effects"),
        (
            "one key for every undo",
            "its undo under a new key takes back what landed after the undo before it",
            "1 net effects after a call that landed between two undos",
        ),
    ],
)
async def test_a_flaw_is_found_and_told(flaw: str, promise: str, said: str) -> None:
    report = await tried(flaw)
    assert not report.sound
    found = {line.promise: line.broken or "" for line in report.broken}
    assert promise in found, report
    assert said in found[promise]
    assert f"charge: {promise}: BROKEN: " in str(report)


async def test_an_operation_that_does_not_work_at_all_is_told_once() -> None:
    assert [line.promise for line in (await tried("does not work")).lines] == ["works"]


async def test_an_operation_that_does_not_end_with_its_time_fails_at_once() -> None:
    report = await tried("never ends", seconds=0.05)
    (line,) = report.lines
    assert "it went on when its time was over" in (line.broken or "")


async def test_a_plain_function_is_tried_too_and_an_operation_without_undo_owes_none() -> None:
    till = Till()
    agent = Agent("mail")

    @agent.operation("send")
    def send(ctx: Context, order: str) -> None:
        if ctx.idempotency_key not in till.served:
            till.served.add(ctx.idempotency_key)
            till.net[ctx.order_key] += 1

    report = await AgentTrial(agent, {"send": "hello"}, count_effects=till.count).run()
    assert report.sound, report
    assert [line.promise for line in report.lines if "undo" in line.promise] == []


def test_what_cannot_be_tried_is_refused_by_name() -> None:
    till = Till()
    with pytest.raises(DefinitionError, match=r"it has no operation 'chrage'; it offers \['payments/charge'"):
        AgentTrial(agent_of(till), {"chrage": {}}, count_effects=till.count)
    with pytest.raises(DefinitionError, match="no payload is given"):
        AgentTrial(agent_of(till), {}, count_effects=till.count)
