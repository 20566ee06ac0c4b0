"""What an agent reports while it is at work: kept, told, and of no consequence. Retries and deadlines stay as they are,
whatever a report says: only an answer shows that somebody will come to an end.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct, json
from msgspec.structs import replace

from triumvir.contracts.messages import StatusName, StepProgressed
from triumvir.lifecycle.draft import Draft
from triumvir.lifecycle.record import StepRecord
from triumvir.lifecycle.secrecy import plain

TOLD_EVERY: Final = timedelta(seconds=1)
"""A client is told of one step's progress at most so often."""


class Progress(Struct, frozen=True):
    """The last report of a step, or of its undo. Reports of an order's ``attempt`` come in the order of their
    ``calls``, and of the reports made in one call by their ``count``. ``told_at``: when a client was told last.
    """

    text: str
    attempt: int
    calls: int
    count: int
    told_at: datetime | None = None

    def comes_after(self, other: Progress | None) -> bool:
        """Whether it is news: neither the same once more, nor one that was overtaken."""
        return other is None or self._place > other._place

    @property
    def _place(self) -> tuple[int, int, int]:
        return self.attempt, self.calls, self.count

    def written(self) -> str:
        """As a step's record keeps it."""
        return json.encode(self).decode()


def progress_of(step: StepRecord) -> Progress | None:
    """The last report of a step; None if there was none."""
    return None if step.progress is None else json.decode(step.progress, type=Progress)


def progressed(draft: Draft, reply: StepProgressed) -> None:
    """Keeps a report of the request that the order waits for, and tells a client that asked for progress. While its
    steps are undone a client hears of no steps.
    """
    step = draft.record.step_record(reply.step_no)
    if step is None:
        raise LookupError(f"{draft.record.key}: step {reply.step_no} is under way without its record")
    before, now = progress_of(step), draft.moment.now
    report = Progress(plain(reply.text), draft.record.attempt, reply.calls, reply.count)
    if not report.comes_after(before):
        return
    last = None if before is None else before.told_at
    tells = draft.record.progress and reply.direction == "do" and (last is None or now - last >= TOLD_EVERY)
    tell: StatusName | None = "progressed" if tells else None
    draft.set_step(replace(step, progress=replace(report, told_at=now if tells else last).written()))
    draft.move(f"{draft.workflow.step(reply.step_no).name}: {reply.text}", tell=tell, step_no=reply.step_no)
