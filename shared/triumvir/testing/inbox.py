"""The agents' inbox in memory, after the rules of the protocol: begin, count, finish, refuse, close.

What the statements of ``store/sql/inbox.sql`` do with rows, for rehearsals and for the tests of the heart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, Literal, TypeVar

from triumvir.contracts.messages import RefusalReason
from triumvir.contracts.names import Direction
from triumvir.lifecycle import Expired, OrderRecord, Shown

Reply = TypeVar("Reply")
Key = tuple[int, int, Direction]
"""Order number, step number, direction."""
EVERY_FENCE: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Attempt:
    """What the inbox looks at of a request. ``allowed``: the calls it may make."""

    key: Key
    fence: int
    generation: int
    complete_by: datetime
    allowed: int


@dataclass(slots=True)
class InboxRow(Generic[Reply]):
    """A row. ``tries``: calls under its fence. ``doubt``: one of them was made by a process that died.
    ``unheard_until``: until then a call that nobody listens to may still take effect.
    """

    fence: int = 0
    generation: int = 0
    owner: int | None = None
    complete_by: datetime | None = None
    state: Literal["running", "succeeded", "failed", "fenced"] = "fenced"
    calls: int = 0
    tries: int = 0
    doubt: bool = False
    reply: Reply | None = None
    refuse_upto: int = 0
    unheard_until: datetime | None = None

    def may_take_effect(self, now: datetime) -> bool:
        """Whether a call of this row may still be on its way."""
        running = self.state == "running" and self.complete_by is not None and self.complete_by > now
        return running or (self.unheard_until is not None and self.unheard_until > now)


@dataclass(frozen=True, slots=True)
class Known(Generic[Reply]):
    """The answer is there already."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing may be called."""

    reason: RefusalReason


@dataclass(frozen=True, slots=True)
class UnderWay:
    """Somebody is calling, or an undo waits for a forward call: nothing is to be done now."""


class Inbox(Generic[Reply]):
    """The rows of every agent. ``lives`` says whether the lease of an instance, by its number, still runs."""

    def __init__(self, lives: Callable[[int], bool]) -> None:
        self.rows: dict[Key, InboxRow[Reply]] = {}
        self._lives = lives

    def row(self, key: Key) -> InboxRow[Reply]:
        """The row of that key; a new one if there is none."""
        return self.rows.setdefault(key, InboxRow())

    def look_up(self, attempt: Attempt, now: datetime) -> Known[Reply] | Refused | UnderWay | None:
        """What stands in the way of beginning; None if the row may be taken."""
        row = self.row(attempt.key)
        if row.state == "succeeded" and row.generation >= attempt.generation and row.reply is not None:
            return Known(row.reply)
        if attempt.fence <= row.refuse_upto or attempt.fence < row.fence:
            return Refused("stale")
        if attempt.complete_by <= now:
            return Refused("no_time")
        if row.fence == attempt.fence and row.generation == attempt.generation:
            if row.state == "failed" and row.reply is not None:
                return Known(row.reply)
            if row.state == "running" and row.owner is not None and self._lives(row.owner):
                return UnderWay()
        return None

    def ask(self, attempt: Attempt) -> Known[Reply] | Refused | InboxRow[Reply]:
        """What is known of an attempt that may not be called any more; the row, if it holds no outcome."""
        row = self.row(attempt.key)
        if row.state == "succeeded" and row.generation >= attempt.generation and row.reply is not None:
            return Known(row.reply)
        if row.fence > attempt.fence:
            return Refused("stale")
        row.refuse_upto = max(row.refuse_upto, attempt.fence)
        return Known(row.reply) if row.state == "failed" and row.reply is not None else row

    def refuse_unknown(self, attempt: Attempt) -> Refused | UnderWay:
        """A refusal asserts that nothing was and nothing will be called under this fence, by any instance."""
        row = self.row(attempt.key)
        if row.fence == attempt.fence:
            return UnderWay()
        row.refuse_upto = attempt.fence
        return Refused("unknown_operation")

    def close_forward(self, attempt: Attempt, now: datetime) -> bool:
        """Shuts out the forward call of what is to be undone. False: one may still be on its way."""
        no, step_no, _ = attempt.key
        forward = self.row((no, step_no, "do"))
        if forward.may_take_effect(now):
            return False
        forward.refuse_upto = EVERY_FENCE
        return True

    def take(self, attempt: Attempt, owner: int) -> InboxRow[Reply]:
        """Begins: the row is ``owner``'s, and its first call is counted."""
        row = self.row(attempt.key)
        again = row.fence == attempt.fence
        row.doubt = again and (row.doubt or row.state == "running")
        if row.state == "running":
            self.unheard(row)
        row.calls += not again or row.tries < attempt.allowed
        row.tries = row.tries + 1 if again else 1
        row.fence, row.generation, row.complete_by = attempt.fence, attempt.generation, attempt.complete_by
        row.state, row.owner, row.reply = "running", owner, None
        return row

    @staticmethod
    def unheard(row: InboxRow[Reply]) -> None:
        """A call was made that nobody listens to any more: until its deadline it may still take effect."""
        assert row.complete_by is not None
        row.unheard_until = max(row.unheard_until or row.complete_by, row.complete_by)

    def count_call(self, attempt: Attempt, now: datetime) -> int | None:
        """One more call is about to be made. None: the attempt was fenced off, is out of time, or has none left."""
        row = self.row(attempt.key)
        mine = row.fence == attempt.fence and row.state == "running" and row.refuse_upto < attempt.fence
        if not mine or attempt.complete_by <= now or row.tries >= attempt.allowed:
            return None
        row.calls += 1
        row.tries += 1
        return row.calls

    def finish(self, attempt: Attempt, owner: int, reply: Reply, *, succeeded: bool) -> bool:
        """Writes an outcome; whether the row was still this attempt's. A failure is the owner's to tell; a success
        also stands where another process, which had taken over, has failed.
        """
        row = self.row(attempt.key)
        if row.fence != attempt.fence or row.generation != attempt.generation:
            return False
        lands = (
            row.state in ("running", "failed") if succeeded else row.state == "running" and row.owner == owner
        )
        if not lands:
            return False
        row.state, row.reply, row.owner = "succeeded" if succeeded else "failed", reply, None
        return True

    def may_commit(self, attempt: Attempt) -> bool:
        """Whether a success may be committed with the operation's own writes: not once anybody fenced it off."""
        row = self.row(attempt.key)
        return row.fence == attempt.fence and row.state == "running" and row.refuse_upto < attempt.fence

    def close_expired(self, key: Key, fence: int) -> Expired:
        """The supervisor's write: nobody may begin under this fence any more. What it sees there."""
        row = self.row(key)
        row.refuse_upto = max(row.refuse_upto, fence)
        begun = row.fence == fence and row.state != "fenced"
        return Expired(begun, row.calls, recorded=begun and row.state in ("succeeded", "failed"))

    def close_all(self, record: OrderRecord) -> Expired:
        """The same for every request that the order waits for: one, or those of some undos."""
        shown = {
            out.step_no: self.close_expired((record.no, out.step_no, out.direction), record.fence)
            for out in record.under_way
        }
        if record.direction == "do":
            (one,) = shown.values()
            return one
        undos = tuple(Shown(step_no, each.begun, each.calls) for step_no, each in shown.items())
        return Expired(begun=False, undos=undos)

    def fence_off(self, key: Key, fence: int, now: datetime) -> bool:
        """A scheduler's write before an operator's hand: nobody may begin any more, neither what is undone by hand
        nor its undo. May a call still take effect?
        """
        no, step_no, direction = key
        rows = [self._fenced_upto((no, step_no, "do"), fence if direction == "do" else EVERY_FENCE)]
        if direction == "undo":
            rows.append(self._fenced_upto(key, fence))
        return any(row.may_take_effect(now) for row in rows)

    def _fenced_upto(self, key: Key, fence: int) -> InboxRow[Reply]:
        row = self.row(key)
        row.refuse_upto = max(row.refuse_upto, fence)
        return row
