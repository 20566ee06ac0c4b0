"""The agent's inbox: rows taken before the first call, finished after the last; one commit for all that is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from triumvir.agent.calling import Failure
from triumvir.contracts.messages import StepRequest
from triumvir.runtime.crash import crash_point
from triumvir.store.faults import Fault, fault
from triumvir.store.session import Session
from triumvir.store.statements import Connection, statement
from triumvir.telemetry import events
from triumvir.telemetry.logs import get_logger
from triumvir_agent.early import DueReply, EarlyAcks, due_reply
from triumvir_agent.requests import (
    Begun,
    Finish,
    Key,
    Known,
    Refused,
    Taken,
    UnderWay,
    answer,
    columns,
    key_of,
    newest,
    rounds,
    row_key,
    state_of,
    taken,
    told,
    written,
)

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
USUAL: Final = EarlyAcks()
log = get_logger(__name__)


class Inbox:
    """The rows of this process' requests."""

    def __init__(self, store: Callable[[str], Session], owner: UUID, early: EarlyAcks = USUAL) -> None:
        """``store`` opens a session by name; ``early`` says whose reply the row is the outbox of."""
        self.early = early
        self._begins, self._finishes, self._counts = store("begins"), store("finishes"), store("calls")
        self._both = store("inbox")
        self._owner = owner
        self._calling: set[tuple[Key, int]] = set()

    async def begin(self, requests: Sequence[StepRequest]) -> list[Begun]:
        """Takes the rows of these requests, or says why not. One row is asked for once, by the newest attempt; any
        other request for it in the same batch is under way.
        """
        async with self._begins.connection() as connection:  # one statement is its own transaction
            crash_point("agent.begin.before_commit")
            answers = await self._begin(connection, requests)
            crash_point("agent.begin.after_commit")
        return self._begun(requests, answers)

    async def begin_and_finish(
        self, requests: Sequence[StepRequest], finishes: Sequence[Finish]
    ) -> tuple[list[Begun], list[bool]]:
        """Both in one commit. If it raises, nothing is known of it: both may be run again."""
        async with self._both.transaction() as connection:
            landed = await self._finish(connection, finishes)
            answers = await self._begin(connection, requests)
            crash_point("agent.finish.before_commit")
            crash_point("agent.begin.before_commit")
        crash_point("agent.finish.after_commit")
        crash_point("agent.begin.after_commit")
        return self._begun(requests, answers), landed

    def _begun(self, requests: Sequence[StepRequest], answers: Mapping[Key, Begun]) -> list[Begun]:
        """Notes what was taken, once it is committed."""
        asking = newest(requests)
        self._calling.update(
            (key, request.fence) for key, request in asking.items() if isinstance(answers[key], Taken)
        )
        return [
            answers[key_of(request)] if asking[key_of(request)] is request else UnderWay()
            for request in requests
        ]

    async def _begin(self, connection: Connection, requests: Sequence[StepRequest]) -> dict[Key, Begun]:
        answers: dict[Key, Begun] = {}
        for part in rounds(list(newest(requests).values())):
            rows = await statement("begin_requests").rows(
                connection,
                owner=self._owner,
                idle=self._idle(part),
                early=self._addresses(part),
                **columns(part),
            )
            mine: dict[Key, Begun] = {row_key(row): taken(row) for row in rows}
            left = [request for request in part if key_of(request) not in mine]
            answers |= mine | await self._look_up(connection, left)
        return answers

    def _idle(self, requests: Iterable[StepRequest]) -> list[bool]:
        """Whether this process is not calling for them: a row it took in a commit whose answer was lost is its
        own, and nobody else will call.
        """
        ordered = sorted(requests, key=key_of)
        return [(key_of(request), request.fence) not in self._calling for request in ordered]

    def _addresses(self, requests: Iterable[StepRequest]) -> list[str | None]:
        return [self.early.address(request) for request in sorted(requests, key=key_of)]

    def leave(self, request: StepRequest) -> None:
        """This process has stopped calling for a request it took."""
        self._calling.discard((key_of(request), request.fence))

    async def _look_up(self, connection: Connection, requests: Sequence[StepRequest]) -> dict[Key, Begun]:
        if not requests:
            return {}
        asked = columns(requests)
        wanted = {name: asked[name] for name in ("nos", "step_nos", "directions", "complete_by")}
        rows = await statement("read_inbox").rows(connection, **wanted)
        by_key = {row_key(row): row for row in rows}
        return {key_of(request): answer(request, by_key[key_of(request)]) for request in requests}

    async def finish(self, finishes: Sequence[Finish]) -> list[bool]:
        """Writes outcomes; for each, whether the row was still this attempt's. Repeated until it is committed."""
        pause = FIRST_PAUSE
        while True:
            try:
                return await self._finish_alone(finishes)
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001 - an outcome is never dropped: the database comes back
                if fault(error) is Fault.DATA:
                    return await self._finish_storable(finishes, error)
                log.warning(
                    events.INBOX_UNREACHABLE, finishes=len(finishes), error=str(error) or type(error).__name__
                )
                await asyncio.sleep(pause)
                pause = min(LONGEST_PAUSE, pause * 2)

    async def _finish_storable(self, finishes: Sequence[Finish], error: Exception) -> list[bool]:
        """One outcome that Postgres refuses must not keep the others; its own is told as a failure."""
        if len(finishes) > 1:
            return [(await self.finish([finish]))[0] for finish in finishes]
        problem = Failure("permanent", "unknown", f"the outcome cannot be stored: {type(error).__name__}")
        return await self.finish([replace(finishes[0], outcome=problem)])

    async def _finish_alone(self, finishes: Sequence[Finish]) -> list[bool]:
        async with self._finishes.connection() as connection:  # one statement is its own transaction
            crash_point("agent.finish.before_commit")
            landed = await self._finish(connection, finishes)
        crash_point("agent.finish.after_commit")
        return landed

    async def _finish(self, connection: Connection, finishes: Sequence[Finish]) -> list[bool]:
        ordered = sorted(finishes, key=lambda finish: finish.key)
        rows = await statement("finish_requests").rows(
            connection,
            owner=self._owner,
            lease_seconds=self.early.lease.total_seconds(),
            nos=[finish.key[0] for finish in ordered],
            step_nos=[finish.key[1] for finish in ordered],
            directions=[finish.key[2] for finish in ordered],
            fences=[finish.fence for finish in ordered],
            states=[state_of(finish.outcome) for finish in ordered],
            replies=[written(finish.outcome) for finish in ordered],
        )
        landed = {(*row_key(row), row["fence"]) for row in rows}
        return [(*finish.key, finish.fence) in landed for finish in finishes]

    async def mark_replied(self, request: StepRequest) -> None:
        """The broker has the reply of an early acknowledged request; nobody else sends it from now on."""
        no, step_no, direction = key_of(request)
        async with self._counts.connection() as connection:
            crash_point("agent.replied.before_commit")
            await statement("mark_replied").rows(
                connection, no=no, step_no=step_no, direction=direction, fence=request.fence
            )
        crash_point("agent.replied.after_commit")

    async def take_due(self, most: int) -> list[DueReply]:
        """Replies that nobody got out, ``most`` at most; they are this process' own for the time of a lease."""
        async with self._counts.connection() as connection:
            rows = await statement("take_due_replies").rows(
                connection, most=most, lease_seconds=self.early.lease.total_seconds()
            )
        if rows:
            crash_point("agent.sweep.after_commit")
        return [due_reply(row) for row in rows]

    async def refuse_unknown(self, request: StepRequest) -> Begun:
        """Closes the attempt to an operation that is not offered here, unless somebody has begun it elsewhere."""
        no, step_no, direction = key_of(request)
        async with self._counts.connection() as connection:
            closed = await statement("refuse_unknown").value(
                connection, no=no, step_no=step_no, direction=direction, fence=request.fence
            )
            if closed is not None:
                return Refused("unknown_operation")
            known = await self._look_up(connection, [request])
        return known[key_of(request)]

    async def ask(self, request: StepRequest) -> Known | Refused:
        """What is known of a request that nobody may call any more, this attempt of it included."""
        no, step_no, direction = key_of(request)
        async with self._counts.connection() as connection:
            row = await statement("ask_inbox").row(
                connection, no=no, step_no=step_no, direction=direction, fence=request.fence
            )
        assert row is not None
        return told(request, row)

    async def was_cut_off(self, request: StepRequest) -> bool:
        """Whether earlier attempts of this step called, more than once, and the last one's process ended with it."""
        no, step_no, direction = key_of(request)
        async with self._counts.connection() as connection:
            cut_off: bool = await statement("was_cut_off").value(
                connection, no=no, step_no=step_no, direction=direction, fence=request.fence
            )
        return cut_off

    async def count_call(self, request: StepRequest) -> int | None:
        """Writes down one more call. None if the attempt was fenced off, is out of time, or has none left."""
        no, step_no, direction = key_of(request)
        async with self._counts.connection() as connection:
            calls: int | None = await statement("count_call").value(
                connection,
                no=no,
                step_no=step_no,
                direction=direction,
                fence=request.fence,
                allowed=request.attempts_allowed,
            )
        return calls

    async def is_recorded(self, request: StepRequest) -> bool:
        """Whether a success under this fence stands in the inbox, after a commit of unknown outcome. Waits for
        the row's lock, so that a commit still under way is seen.
        """
        no, step_no, direction = key_of(request)
        async with self._counts.transaction() as connection:
            row = await statement("lock_inbox").row(connection, no=no, step_no=step_no, direction=direction)
        return row is not None and row["state"] == "succeeded" and row["fence"] == request.fence
