"""One request from delivery to acknowledgement. Until its reply is confirmed the delivery is the outbox, or the inbox
row of a request that is let go early.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from triumvir.agent import Agent, Context
from triumvir.agent.calling import CallPolicy, Outcome, Success, call
from triumvir.agent.progress import Reporter
from triumvir.agent.running import Runner
from triumvir.broker import Delivery, OutMessage, Publisher
from triumvir.broker import Outcome as Published
from triumvir.contracts.codec import decode
from triumvir.contracts.messages import StepCompensate, StepExecute, StepRequest
from triumvir.contracts.names import order_key
from triumvir.errors import ContractError
from triumvir.lifecycle import HIDDEN
from triumvir.runtime.crash import crash_point
from triumvir.runtime.gather import Gatherer
from triumvir.runtime.letters import refused
from triumvir.runtime.undeliverable import Undeliverable
from triumvir.settings import Settings
from triumvir.telemetry import events, metrics, tracing
from triumvir.telemetry.logs import get_logger
from triumvir_agent import replies
from triumvir_agent.commits import Commits
from triumvir_agent.early import InHand
from triumvir_agent.inbox import Inbox
from triumvir_agent.requests import Begun, Finish, Known, Refused, Taken, UnderWay, direction_of, key_of
from triumvir_agent.transactions import Connections, RequestTransaction

FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 5.0
SUSPECT_ATTEMPT: Final = 3
"""From this attempt on it is looked at whether the earlier ones ended with their process."""
log = get_logger(__name__)


@dataclass(slots=True)
class Desk:
    """What all requests of this process share."""

    inbox: Inbox
    commits: Commits
    publishes: Gatherer[OutMessage, Published]
    connections: Connections
    undeliverable: Undeliverable
    policy: CallPolicy
    suspects: asyncio.Lock


def open_desk(
    inbox: Inbox,
    publisher: Publisher,
    connections: Connections,
    undeliverable: Undeliverable,
    settings: Settings,
) -> Desk:
    """Begins, finishes and replies are gathered: one commit, one publish for what is there, without waiting."""
    limit = settings.batch_limit

    async def publish(messages: Sequence[OutMessage]) -> list[Published]:
        return await publisher.publish(messages)

    return Desk(
        inbox,
        Commits(inbox, 2 * limit),
        Gatherer(publish, limit, "replies"),
        connections,
        undeliverable,
        CallPolicy(settings.call_backoff, settings.max_payload_bytes, settings.max_json_depth),
        asyncio.Lock(),
    )


class Worker:
    """Serves the requests of one agent, ``slots`` at once. Its ``runner`` knows which calls outlived their time."""

    def __init__(self, agent: Agent, desk: Desk, slots: int) -> None:
        self._agent = agent
        self._desk = desk
        self.runner = Runner(slots)

    async def serve(self, delivery: Delivery, hand: InHand) -> None:
        """Returns once the delivery may be acknowledged, if it was not let go before; raises if it may not."""
        try:
            request = _read(delivery)
        except ContractError as error:
            await self._desk.undeliverable.keep([refused(delivery, error)])
            return
        key = order_key(request.client, request.order_id)
        trace = tracing.adopt(delivery.headers)
        with tracing.process(delivery.queue, delivery.message_id or "", key, trace) as span:
            reply = await self._answer(request, hand, span.traceparent)
        if reply is not None:
            await self._send(reply)
            crash_point("agent.reply.after_confirm")
            if hand.early:
                await self._desk.inbox.mark_replied(request)

    async def _answer(self, request: StepRequest, hand: InHand, trace: str) -> OutMessage | None:
        """One of those that may have ended their process is called at a time, and the others are not begun: what
        ends the next one costs nobody else an attempt. None waits for its turn beyond its time: then the inbox says
        that none is left.
        """
        if request.attempt < SUSPECT_ATTEMPT or not await self._desk.inbox.was_cut_off(request):
            return await self._begin(request, hand, trace)
        log.warning(events.REQUEST_SUSPECTED, order=request.order_id, operation=request.operation)
        try:
            async with asyncio.timeout(request.time_left_ms / 1000):
                await self._desk.suspects.acquire()
        except TimeoutError:
            return await self._begin(request, hand, trace)
        try:
            return await self._begin(request, hand, trace)
        finally:
            self._desk.suspects.release()

    async def _begin(self, request: StepRequest, hand: InHand, trace: str) -> OutMessage | None:
        operation = self._agent.find(request.operation, direction_of(request))
        begun: Begun
        if not request.attempts_allowed:
            begun = await self._desk.inbox.ask(request)
        elif operation is None:
            log.warning(events.OPERATION_REFUSED, order=request.order_id, operation=request.operation)
            begun = await self._desk.inbox.refuse_unknown(request)
        else:
            begun = await self._desk.commits.begin(request)
        match begun:
            case UnderWay():
                return None
            case Refused(reason):
                return replies.refusal(request, reason, trace)
            case Known(outcome, calls):
                return replies.reply(request, outcome, calls, trace)
            case Taken():
                try:
                    left = await self._let_go(request, hand, begun)
                    return await self._run(request, left, trace)
                finally:
                    self._desk.inbox.leave(request)

    async def _let_go(self, request: StepRequest, hand: InHand, taken: Taken) -> Taken:
        """Acknowledges a request that the broker would not wait for. The time it takes is not the operation's."""
        if not self._desk.inbox.early.take(request):
            return taken
        began = time.monotonic()
        await hand.let_go()
        return replace(taken, seconds_left=max(0.0, taken.seconds_left - (time.monotonic() - began)))

    async def _run(self, request: StepRequest, taken: Taken, trace: str) -> OutMessage | None:
        operation = self._agent.find(request.operation, direction_of(request))
        if operation is None:
            raise LookupError(f"{request.operation} is gone")
        transaction = RequestTransaction(self._desk.connections, self._desk.inbox, request)

        async def tell(text: str, count: int) -> None:
            made = taken.calls + max(0, ctx.call - 1)
            await self._tell(replies.progress(request, text, count, made, trace))

        reporter = Reporter(tell)
        ctx = Context(request, taken.seconds_left, transaction, trace, reporter.report)
        policy = replace(self._desk.policy, spent=taken.tries - 1, doubt=taken.doubt, runner=self.runner)
        try:
            outcome = await call(
                operation, request, ctx, lambda: self._desk.inbox.count_call(request), policy
            )
        finally:
            reporter.close()
        calls = taken.calls + max(0, ctx.call - 1)
        _report(operation.full_name, request, outcome, calls)
        if not isinstance(outcome, Success) or not outcome.recorded:
            landed = await self._desk.commits.finish(Finish(key_of(request), request.fence, outcome))
            if not landed and not isinstance(outcome, Success):
                return None
        return replies.reply(request, outcome, calls, trace)

    async def _tell(self, report: OutMessage) -> None:
        """Publishes once: the next report says more than a repetition of this one would."""
        outcome = await self._desk.publishes.submit(report)
        if outcome is not Published.CONFIRMED:
            log.warning(events.PUBLISH_UNCONFIRMED, message_id=report.message_id, outcome=outcome.value)

    async def _send(self, reply: OutMessage) -> None:
        """Publishes until it is confirmed: an unanswered request would be called again."""
        pause = FIRST_PAUSE
        while (outcome := await self._desk.publishes.submit(reply)) is not Published.CONFIRMED:
            log.warning(events.PUBLISH_UNCONFIRMED, message_id=reply.message_id, outcome=outcome.value)
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE, pause * 2)


def _read(delivery: Delivery) -> StepRequest:
    message = decode(delivery.type, delivery.body)
    if not isinstance(message, StepExecute | StepCompensate):
        raise ContractError(
            "unexpected_type", "type", f"{delivery.type!r} is no request", "send step.execute.v1"
        )
    return message


def _report(operation: str, request: StepRequest, outcome: Outcome, calls: int) -> None:
    if isinstance(outcome, Success):
        metrics.OPERATION_CALLS.add(1, operation, "succeeded")
        return
    metrics.OPERATION_CALLS.add(1, operation, outcome.kind)
    log.warning(
        events.OPERATION_FAILED,
        order=order_key(request.client, request.order_id),
        operation=operation,
        kind=outcome.kind,
        effect=outcome.effect,
        calls=calls,
        error=HIDDEN if request.confidential else outcome.error,
    )
