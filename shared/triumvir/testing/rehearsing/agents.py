"""The agents of a rehearsal: an author's functions, called as the agent service calls them, and what befalls them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Protocol

from triumvir.agent import Agent, Context
from triumvir.agent.authoring import Operation
from triumvir.agent.calling import NEVER_BEGUN, OUTCOME_UNKNOWN, CallPolicy, Success, call
from triumvir.agent.calling import Outcome as Answer
from triumvir.agent.progress import Reporter
from triumvir.agent.running import Runner
from triumvir.contracts.messages import AgentMessage, StepReply, StepRequest
from triumvir.settings import Settings
from triumvir.testing.inbox import Inbox, InboxRow, Known, Refused, UnderWay
from triumvir.testing.rehearsing.clock import Clock
from triumvir.testing.rehearsing.faults import Fault, Faults, Point
from triumvir.testing.rehearsing.instances import Instance, Instances
from triumvir.testing.rehearsing.outcome import RehearsedCall
from triumvir.testing.rehearsing.replies import attempt_of, direction_of, progress, refusal, reply
from triumvir.testing.rehearsing.transaction import Connect, Desk, Transaction


class Order(Protocol):
    """What the agents of a rehearsal know of the order that they work for."""

    @property
    def moves(self) -> int:
        """How many moves it has made."""

    def reply(self, reply: AgentMessage) -> None:
        """Takes a reply."""

    def cancel(self) -> None:
        """Takes the client's cancel, where a fault says so."""

    def moved(self) -> None:
        """Work has ended: look again."""

    def orphaned(self) -> None:
        """Whoever sent the request is gone."""


class RehearsedAgents:
    """The processes of all agents, their inbox, and the messages to and from them."""

    def __init__(
        self,
        agents: Mapping[str, Agent],
        settings: Settings,
        faults: Faults,
        connect: Connect | None,
        order: Order,
    ) -> None:
        self.clock = Clock()
        self.calls: list[RehearsedCall] = []
        self._instances = Instances(agents, self.clock, settings)
        self.inbox: Inbox[Answer] = Inbox(self._instances.is_leased)
        self.desk = Desk(self.inbox, connect)
        self._agents, self._settings, self._faults = agents, settings, faults
        self._order = order
        self._runner = Runner()
        self._tasks: set[asyncio.Task[None]] = set()
        self._errors: list[BaseException] = []

    @property
    def busy(self) -> bool:
        """Whether a message is under way or a call is being made."""
        return bool(self._tasks)

    def post(self, agent: str, request: StepRequest) -> None:
        """A request for an agent, on its way through the broker."""
        self._on_its_way("request", request, lambda: self._deliver(agent, request))

    async def stop(self) -> None:
        """Ends what is still under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.desk.close()

    # Messages

    def _on_its_way(
        self, point: Point, request: StepRequest, arrive: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        delay, copies = 0.0, 1
        for fault in self._faults.strike(point, request.step, direction_of(request)):
            delay += fault.seconds
            copies = {"drop": 0, "double": 2}.get(fault.kind, copies)
            if fault.kind == "orphan":
                self._order.orphaned()
                delay += self._settings.outbox_lease / timedelta(seconds=1)
        for _ in range(copies):
            task = asyncio.create_task(_later(delay, arrive))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._errors.append(error)
        self._order.moved()

    def check(self) -> None:
        """Raises what keeps the rehearsal from meaning anything."""
        for problem in [*self.desk.problems, *self._errors]:
            raise problem

    async def _deliver(self, agent: str, request: StepRequest) -> None:
        """To the process that serves. If it dies in it, the broker hands the request to the next one."""
        while True:
            instance = self._instances.serving(agent)
            served = asyncio.create_task(self._serve(instance, request))
            instance.tasks.add(served)
            try:
                await asyncio.wait([served])
            finally:
                served.cancel()  # nothing, unless the rehearsal ends before it
                instance.tasks.discard(served)
            if not instance.dead:
                break
        made = served.result()
        if made is not None:
            self._on_its_way("reply", request, lambda: self._arrive(made))

    async def _arrive(self, made: AgentMessage) -> None:
        self._order.reply(made)

    # One request, from its begin to its reply

    async def _serve(self, instance: Instance, request: StepRequest) -> StepReply | None:
        operation = self._agents[instance.agent].find(request.operation, direction_of(request))
        if operation is None:
            raise LookupError(f"{instance.agent} does not offer {request.operation}")
        if not request.attempts_allowed:
            return self._told(request)
        match self._begin(instance, request):
            case UnderWay():
                return None
            case Refused(reason):
                return refusal(request, reason)
            case Known(answer):
                return reply(request, answer, self.inbox.row(attempt_of(request).key).calls)
            case InboxRow() as row:
                return await self._call(instance, operation, request, row)

    def _told(self, request: StepRequest) -> StepReply:
        """A request that only asks is answered from the inbox; nothing is called for it."""
        known = self.inbox.ask(attempt_of(request))
        calls = self.inbox.row(attempt_of(request).key).calls
        match known:
            case Refused(reason):
                return refusal(request, reason)
            case Known(answer):
                return reply(request, answer, calls)
            case InboxRow(state=state):
                return reply(request, NEVER_BEGUN if state == "fenced" else OUTCOME_UNKNOWN, calls)

    def _begin(
        self, instance: Instance, request: StepRequest
    ) -> Known[Answer] | Refused | UnderWay | InboxRow[Answer]:
        attempt = attempt_of(request)
        known = self.inbox.look_up(attempt, self.clock.now())
        if known is not None:
            return known
        if direction_of(request) == "undo" and not self.inbox.close_forward(attempt, self.clock.now()):
            return UnderWay()
        return self.inbox.take(attempt, instance.no)

    async def _call(
        self, instance: Instance, operation: Operation[Any], request: StepRequest, row: InboxRow[Answer]
    ) -> StepReply | None:
        attempt, calls, policy = attempt_of(request), row.calls, self._policy(row)
        left = (request.complete_by - self.clock.now()) / timedelta(seconds=1)
        transaction = Transaction(self.desk, attempt, instance.no)

        async def tell(text: str, count: int) -> None:
            await self._arrive(progress(request, text, count, calls + max(0, ctx.call - 1)))

        reporter = Reporter(tell)
        ctx = Context(request, left, transaction, None, reporter.report, self.clock.seconds)

        async def count_call() -> int | None:
            return self.inbox.count_call(attempt, self.clock.now())

        watched = self._watched(instance, operation, request)
        try:
            answer = await call(watched, request, ctx, count_call, policy)
        finally:
            reporter.close()
        await self._befall("before_record", instance, request)
        if not isinstance(answer, Success) or not answer.recorded:
            succeeded = isinstance(answer, Success)
            if not self.inbox.finish(attempt, instance.no, answer, succeeded=succeeded) and not succeeded:
                return None
        await self._befall("before_reply", instance, request)
        return reply(request, answer, calls + max(0, ctx.call - 1))

    def _policy(self, row: InboxRow[Answer]) -> CallPolicy:
        settings = self._settings
        most = settings.max_payload_bytes, settings.max_json_depth
        return CallPolicy(
            settings.call_backoff, *most, spent=row.tries - 1, doubt=row.doubt, runner=self._runner
        )

    def _watched(self, instance: Instance, operation: Operation[Any], request: StepRequest) -> Operation[Any]:
        """The operation, written down with each call, and with what befalls it."""

        async def function(ctx: Context, *arguments: Any) -> Any:
            place = len(self.calls)
            self.calls.append(self._called(operation, request, ctx))
            try:
                await self._befall("before_call", instance, request)
                self.calls[place] = replace(self.calls[place], ran=True)
                returned = await self._invoke(operation, (ctx, *arguments))
                await self._befall("after_call", instance, request)
            except Exception as error:
                said = f"raised {type(error).__name__}: {error}"
                self.calls[place] = replace(self.calls[place], ended=said)
                raise
            self.calls[place] = replace(self.calls[place], ended="returned")
            return returned

        return replace(operation, function=function, is_async=True)

    async def _invoke(self, operation: Operation[Any], arguments: tuple[Any, ...]) -> Any:
        if operation.is_async:
            return await operation.function(*arguments)
        return await self._runner.in_thread(operation.function, arguments)

    def _called(self, operation: Operation[Any], request: StepRequest, ctx: Context) -> RehearsedCall:
        return RehearsedCall(
            step=request.step,
            operation=operation.name,
            direction=operation.direction,
            attempt=request.attempt,
            call=ctx.call,
            idempotency_key=ctx.idempotency_key,
            fence=ctx.fence,
            at=timedelta(seconds=self.clock.seconds()),
            after=self._order.moves,
        )

    # What befalls them

    async def _befall(self, point: Point, instance: Instance, request: StepRequest) -> None:
        for fault in self._faults.strike(point, request.step, direction_of(request)):
            await self._suffer(fault, instance)

    async def _suffer(self, fault: Fault, instance: Instance) -> None:
        match fault.kind:
            case "fail":
                assert fault.error is not None
                raise fault.error()
            case "delay":
                await asyncio.sleep(fault.seconds)
            case "cancel":
                self._order.cancel()
            case "pause":
                self._instances.silence(instance)
                await asyncio.sleep(fault.seconds)
                instance.silent_since = None
            case "die":
                self._instances.kill(instance)
                await asyncio.Event().wait()  # its task was cancelled: this never goes on
            case _:
                raise AssertionError(f"{fault}: strikes messages only")


async def _later(delay: float, arrive: Callable[[], Coroutine[Any, Any, None]]) -> None:
    if delay:
        await asyncio.sleep(delay)
    await arrive()
