"""A service with one of its guards taken away: ``FAULTS_SABOTAGE=ack_first python -m tests.faults.sabotaged agent``.

What the product must never do is done here on purpose, from outside, so that the auditor can be seen to notice.
``FAULTS_TAP_LOG`` also doubles the messages, ``FAULTS_DIE`` has the process die where the sabotage hurts.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.faults import tap
from triumvir.broker import OutMessage
from triumvir.contracts.messages import StepReply, StepRequest
from triumvir.lifecycle import replies
from triumvir.lifecycle.draft import Draft
from triumvir.runtime.intake import Intake
from triumvir.runtime.relay import Relay
from triumvir.store import statements
from triumvir_agent.inbox import Inbox
from triumvir_agent.requests import Begun, Finish, Taken
from triumvir_agent.transactions import RequestTransaction


def ack_first() -> None:
    """Acknowledge before the commit."""

    async def step(self: Intake) -> bool:
        deliveries = await self._take()
        if deliveries:
            await self._consumer.settle(deliveries)
            await self._handle(deliveries)
        return True

    replace_in(Intake, "step", step)


def fold_every_reply() -> None:
    """Take any reply for the awaited one, whatever its token and step."""

    def is_awaited(draft: Draft, reply: StepReply) -> bool:
        return draft.record.state == ("processing" if reply.direction == "do" else "compensating")

    replace_in(replies, "_is_awaited", is_awaited)


def finish_without_fence() -> None:
    """Write the outcome of a request whoever holds its row by now."""
    known = statements.statement("finish_requests")
    guard = re.search(r"and i\.fence = u\.fence.*?(\$\d+::uuid).*?(?=returning)", known.sql, re.DOTALL)
    assert guard is not None
    unguarded = known.sql.replace(guard[0], f"and {guard[1]} is not null\n")
    statements._loaded()["finish_requests"] = replace(known, sql=unguarded)


def forget_outbox_first() -> None:
    """Delete the outbox row before what it stands for is published."""
    genuine = Relay.send

    async def send(self: Relay, messages: Sequence[OutMessage], outbox_id: int | None, *after: Any) -> None:
        if outbox_id is not None:
            self._confirmed.append(outbox_id)
            await self._flush()
            if "FAULTS_DIE" in os.environ and any(b'"completed"' in message.body for message in messages):
                os._exit(137)
        await genuine(self, messages, outbox_id, *after)

    replace_in(Relay, "send", send)


def ignore_inbox() -> None:
    """Call for every delivery."""

    async def begin(self: Inbox, requests: Sequence[StepRequest]) -> list[Begun]:
        return [Taken(1, 1, False, 3.0) for _ in requests]

    async def begin_and_finish(
        self: Inbox, requests: Sequence[StepRequest], finishes: Sequence[Finish]
    ) -> tuple[list[Begun], list[bool]]:
        return await begin(self, requests), await self.finish(finishes)

    async def commit(self: RequestTransaction, result: str) -> bool | None:
        connection = self._connection
        if connection is None:
            return None
        await connection.execute("commit")
        self._connection = None
        self._connections.release(connection, sound=True)
        return True

    replace_in(Inbox, "begin", begin)
    replace_in(Inbox, "begin_and_finish", begin_and_finish)
    replace_in(RequestTransaction, "commit", commit)


def replace_in(owner: Any, name: str, value: Any) -> None:
    """Only what exists is replaced, so that a sabotage cannot miss after a renaming."""
    assert hasattr(owner, name)
    setattr(owner, name, value)


SABOTAGES = {
    act.__name__: act
    for act in (ack_first, fold_every_reply, finish_without_fence, forget_outbox_first, ignore_inbox)
}

if __name__ == "__main__":
    if "FAULTS_TAP_LOG" in os.environ:
        tap.install()
    SABOTAGES[os.environ["FAULTS_SABOTAGE"]]()
    importlib.import_module(f"triumvir_{sys.argv[1]}.main").main(sys.argv[2:])
