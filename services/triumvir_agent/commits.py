"""Group commit of an agent: the begins and the finishes that are there together share one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from triumvir.contracts.messages import StepRequest
from triumvir.runtime.gather import Gatherer
from triumvir.telemetry import events
from triumvir.telemetry.logs import get_logger
from triumvir_agent.inbox import Inbox
from triumvir_agent.requests import Begun, Finish

Answer: TypeAlias = Begun | bool | Exception
log = get_logger(__name__)


class Commits:
    """Begins requests and finishes them, ``limit`` at most in one commit; nothing waits for more to come."""

    def __init__(self, inbox: Inbox, limit: int) -> None:
        self._inbox = inbox
        self._gatherer: Gatherer[StepRequest | Finish, Answer] = Gatherer(self._commit, limit, "inbox")

    async def begin(self, request: StepRequest) -> Begun:
        """Takes the request's row, or says why not. Raises what the database raised."""
        answer = await self._gatherer.submit(request)
        if isinstance(answer, Exception):
            raise answer
        assert not isinstance(answer, bool)
        return answer

    async def finish(self, finish: Finish) -> bool:
        """Writes an outcome; whether the row was still this attempt's. Returns once it is committed."""
        return await self._gatherer.submit(finish) is True

    async def _commit(self, items: Sequence[StepRequest | Finish]) -> list[Answer]:
        finishes = [item for item in items if isinstance(item, Finish)]
        requests = [item for item in items if not isinstance(item, Finish)]
        begun, landed = await self._together(requests, finishes)
        answers, outcomes = iter(begun), iter(landed)
        return [next(outcomes) if isinstance(item, Finish) else next(answers) for item in items]

    async def _together(
        self, requests: Sequence[StepRequest], finishes: Sequence[Finish]
    ) -> tuple[Sequence[Begun | Exception], Sequence[bool]]:
        if requests and finishes:
            try:
                return await self._inbox.begin_and_finish(requests, finishes)
            except Exception as error:  # noqa: BLE001 - both are repeatable: apart, each is told of its own
                log.info(events.BATCH_REPEATED, batch="inbox", error=f"{type(error).__name__}: {error}")
        landed = await self._inbox.finish(finishes) if finishes else []
        return await self._begin(requests), landed

    async def _begin(self, requests: Sequence[StepRequest]) -> Sequence[Begun | Exception]:
        """What a begin raises must not reach those who finish."""
        if not requests:
            return []
        try:
            return await self._inbox.begin(requests)
        except Exception as error:  # noqa: BLE001 - it is raised to each who began
            return [error] * len(requests)
