"""Requests to agents, and what two agent processes do with them, on the real inbox."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import UUID, uuid4

from triumvir.agent.calling import Failure, Outcome, Success
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import StepCompensate, StepExecute, StepRequest
from triumvir.settings import Settings
from triumvir.store.session import Session
from triumvir_agent.early import EarlyAcks
from triumvir_agent.inbox import USUAL, Inbox
from triumvir_agent.requests import Begun, Finish, key_of

FAILED = Failure("transient", "none", "not now")
DONE = Success('"done"')


def request(
    direction: Literal["do", "undo"] = "do",
    *,
    fence: int = 10,
    seconds: float = 600,
    generation: int = 0,
    no: int = 1,
    step_no: int = 1,
) -> StepRequest:
    """A request with this many seconds left (negative: too late)."""
    members: dict[str, Any] = {
        "order_no": no,
        "client": "shop-a",
        "order_id": "one",
        "workflow": "trio",
        "version": 1,
        "step": "a",
        "step_no": step_no,
        "operation": "a",
        "payload": JsonText(text="{}"),
        "complete_by": datetime.now(UTC) + timedelta(seconds=seconds),
        "time_left_ms": 1000,
        "attempts_allowed": 3,
        "idempotency_key": f"shop-a/one/a/{direction}/{generation}",
        "generation": generation,
        "lock": uuid4(),
        "fence": fence,
        "attempt": 1,
    }
    if direction == "undo":
        return StepCompensate(effect="unknown", **members)
    return StepExecute(**members)


@dataclass
class AgentProcess:
    """One owner of inbox rows, with sessions of its own."""

    owner: UUID
    inbox: Inbox
    sessions: list[Session]

    async def begin(self, *requests: StepRequest) -> list[Begun]:
        return await self.inbox.begin(requests)

    async def begin_one(self, asked: StepRequest) -> Begun:
        (begun,) = await self.inbox.begin([asked])
        return begun

    async def finish(self, asked: StepRequest, outcome: Outcome) -> bool:
        """As a worker does it: the outcome is written, then the request is left."""
        (landed,) = await self.inbox.finish([Finish(key_of(asked), asked.fence, outcome)])
        self.inbox.leave(asked)
        return landed

    async def close(self) -> None:
        for session in self.sessions:
            await session.close()


def agent_process(settings: Settings, owner: UUID, early: EarlyAcks = USUAL) -> AgentProcess:
    """An agent process that holds the lease of ``owner``."""
    sessions: list[Session] = []

    def session(name: str) -> Session:
        sessions.append(Session(settings, f"agent {name}"))
        return sessions[-1]

    return AgentProcess(owner, Inbox(session, owner, early), sessions)
