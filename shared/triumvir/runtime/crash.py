"""Named crash points: where the fault tests kill a process, between any two lines that matter.

Armed by ``TRIUMVIR_CRASH_AT=name`` or ``name:n`` (the n-th time it is reached); otherwise a crash point
costs one look into an empty dict. Nothing is flushed or closed: the process ends as by ``kill -9``.
"""

from __future__ import annotations

import os
from typing import Final, Literal, get_args

from triumvir.errors import ConfigurationError
from triumvir.settings import Settings

CrashPoint = Literal[
    "submitter.documents.after_commit",
    "submitter.before_commit",
    "submitter.after_commit",
    "submitter.after_publish",
    "submitter.after_ack",
    "submitter.replay.before_commit",
    "submitter.replay.after_commit",
    "submitter.replay.after_publish",
    "scheduler.claim.before_commit",
    "scheduler.claim.after_commit",
    "scheduler.claim.after_publish",
    "scheduler.reply.before_commit",
    "scheduler.reply.after_commit",
    "scheduler.reply.after_publish",
    "scheduler.reply.after_ack",
    "scheduler.timer.before_commit",
    "scheduler.timer.after_commit",
    "scheduler.timer.after_publish",
    "scheduler.command.before_commit",
    "scheduler.command.after_commit",
    "scheduler.command.after_publish",
    "outbox.before_delete",
    "outbox.after_sweep_publish",
    "agent.begin.before_commit",
    "agent.begin.after_commit",
    "agent.call.before",
    "agent.call.after",
    "agent.finish.before_commit",
    "agent.finish.after_commit",
    "agent.reply.after_confirm",
    "agent.after_ack",
    "agent.early.before_ack",
    "agent.early.after_ack",
    "agent.replied.before_commit",
    "agent.replied.after_commit",
    "agent.sweep.after_commit",
    "agent.sweep.after_publish",
    "supervisor.before_commit",
    "supervisor.after_commit",
    "supervisor.after_publish",
    "supervisor.check.before_commit",
    "supervisor.check.after_commit",
    "supervisor.purge.before_commit",
    "supervisor.purge.after_commit",
    "supervisor.purge.documents",
]
CRASH_POINTS: Final[tuple[str, ...]] = get_args(CrashPoint)

EXIT_CODE: Final = 137
"""What a shell reports for a process that was killed by SIGKILL."""

_armed: dict[str, int] = {}
_logs: list[str] = []


def configure(settings: Settings) -> None:
    """Arm what ``settings.crash_at`` names. ConfigurationError when it names no crash point."""
    _armed.clear()
    _logs[:] = [settings.crash_log] if settings.crash_log is not None else []
    if settings.crash_at is not None:
        name, count = _parse(settings.crash_at)
        _armed[name] = count


def crash_point(name: CrashPoint) -> None:
    """Die here, if this point is armed and its turn has come."""
    if name in _armed:
        _reach(name)


def _parse(text: str) -> tuple[str, int]:
    name, colon, count = text.partition(":")
    if name not in CRASH_POINTS:
        raise ConfigurationError(
            f"TRIUMVIR_CRASH_AT: {name!r} is no crash point; known are {', '.join(CRASH_POINTS)}"
        )
    if not colon:
        return name, 1
    if not (count.isdecimal() and int(count) >= 1):
        raise ConfigurationError(
            f"TRIUMVIR_CRASH_AT: {count!r} is no count; write {name}:2 for the second time"
        )
    return name, int(count)


def _reach(name: str) -> None:
    _armed[name] -= 1
    if _armed[name] > 0:
        return
    for path in _logs:
        with open(path, "a", encoding="ascii") as log:
            log.write(f"{name} pid={os.getpid()}\n")
    os._exit(EXIT_CODE)
