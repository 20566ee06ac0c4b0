"""Many more histories from plain seeds; and deliberate breakages, each of which these histories must notice."""

from __future__ import annotations

import sys
from typing import Any, Final

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from tests.property.play import play
from triumvir.contracts.json_text import JsonText
from triumvir.lifecycle import (
    PAUSED,
    Expired,
    OperatorAsked,
    StepRecord,
    argument,
    budget,
    dispatch,
    failure,
    operators,
    pauses,
    policy,
    progress,
    replies,
    signals,
    undoing,
    waves,
)
from triumvir.lifecycle.draft import Draft
from triumvir.lifecycle.retry import next_attempt
from triumvir.testing.inbox import Inbox

_DECIDE: Final = sys.modules["triumvir.lifecycle.decide"]
pytestmark = pytest.mark.timeout(3600)  # the deep profile takes long


@settings(max_examples=10 * settings().max_examples, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**64 - 1))
def test_every_order_comes_to_a_right_end_whatever_the_seed(seed: int) -> None:
    play(seed)


_reopened = undoing.undo_reopened


def _nothing(*_: Any) -> None:
    return None


def _skip(draft: Draft, step_no: int) -> None:
    dispatch._skip(draft, step_no)
    dispatch.run_next_step(draft)


def _only_forward(draft: Draft, step_no: int, *, bounded: bool = False) -> JsonText | None:
    return argument(draft.record, draft.workflow, step_no, draft.moment.payload) if bounded else None


def _pause_at_once(draft: Draft, asked: OperatorAsked) -> None:
    pauses.pause(draft, asked)
    if draft.record.state == "processing":
        dispatch.hold(draft, PAUSED)


def _ends_wave(draft: Draft, entry: StepRecord, why: str) -> None:
    """The others of the wave are sent again at once, under the same attempt."""
    draft.set_step(entry)
    draft.move(why)
    undoing.undo_next(draft)


def _waits_for_the_first(draft: Draft) -> dict[str, Any]:
    first = draft.record.under_way[0]
    return {"step": first.step_no, "complete_by": first.complete_by, "wake_at": first.wake_at}


def _all_or_nothing(wave: list[StepRecord]) -> list[StepRecord]:
    return [] if any(entry.undo_state == "undo_failed" for entry in wave) else wave


def _waits_on(draft: Draft, entry: StepRecord, why: str) -> None:
    """What was sent to undo it before its success was known still counts."""
    out = [each for each in draft.record.undos_out if each.step_no == entry.step_no]
    _reopened(draft, replace(entry, undo_state="undoing") if out else entry, why)


def _is_open(step: StepRecord | None) -> bool:
    return step is None or (step.state not in ("completed", "skipped") and step.led_to is None)


BREAKAGES: dict[str, tuple[object, str, object]] = {
    "late-success-forgotten": (replies, "_late_success", _nothing),
    "doubt-forgotten": (replies, "_worse", lambda before, now: now),
    "in-doubt-not-undone": (waves, "needs_undo", lambda workflow, step: step.effect == "certain"),
    "any-reply-counts": (replies, "_is_awaited", lambda draft, reply: draft.record.locked_by is not None),
    "cancelled-though-begun": (
        failure,
        "cancel_now",
        lambda draft, why: draft.move(why, to="cancelled", tell="cancelled", **draft.unlocked()),
    ),
    "failures-not-counted": (
        failure,
        "_reopen",
        lambda draft, why, wait: failure.reopen_unbegun(draft, why),
    ),
    "cool-offs-without-end": (
        failure,
        "_wait",
        lambda draft, step_no, failures: next_attempt(
            draft.step_policy(step_no), min(failures, draft.policy.max_failures + 1), draft.moment.draw
        ),
    ),
    "condition-not-asked": (dispatch, "holds", lambda *_: True),
    "condition-not-worked-out-skips": (
        dispatch,
        "_cannot_run",
        lambda draft, step_no, _: _skip(draft, step_no),
    ),
    "undo-gets-the-payload": (undoing, "argument_of", _only_forward),
    "undos-ranks-not-kept": (
        undoing,
        "next_wave",
        waves.left_to_undo,
    ),
    "undos-answered-end-the-wave": (undoing, "_settled", _ends_wave),
    "undos-deadlines-of-the-first-only": (undoing, "waits_for_undos", _waits_for_the_first),
    "undos-given-up-with-one-that-failed": (undoing, "can_go_on", _all_or_nothing),
    "undo-before-a-late-success-counts": (replies, "undo_reopened", _waits_on),
    "second-signal-counts": (signals, "_SURPLUS", {}),
    "held-wait-begins-anew": (dispatch, "keep_time_left", _nothing),
    "kept-signal-forgotten": (dispatch, "take_kept_signal", lambda draft, step_no: False),
    "default-never-counts": (sys.modules["triumvir.lifecycle.decide"], "wait_expired", lambda draft: False),
    "agent-forgets-calls-unheard": (Inbox, "unheard", staticmethod(_nothing)),
    "pause-forgotten-at-the-deadline": (_DECIDE, "stand_still", _nothing),
    "pause-ends-what-is-under-way": (operators, "pause", _pause_at_once),
    "waiting-frees-a-hold": (
        _DECIDE,
        "aged",
        lambda draft, kind, seconds: draft.move("waits", held_by=None),
    ),
    "budget-not-charged": (budget, "spent", lambda record: 0),
    "undo-charges-no-budget": (undoing, "_called", lambda entry, calls: entry),
    "supervisor-does-not-fence": (Inbox, "close_expired", lambda self, key, fence: Expired(begun=False)),
    "once-is-tried-again": (policy, "binding_lines", lambda workflow, step: ()),
    "what-is-not-on-the-way-is-run": (
        dispatch,
        "ahead",
        lambda record, workflow: (
            n for n in range(1, len(workflow.steps) + 1) if _is_open(record.step_record(n))
        ),
    ),
    "progress-ends-retries": (replies, "progressed", lambda draft, reply: draft.move("works", wake_at=None)),
    "progress-of-the-past-is-kept": (progress.Progress, "comes_after", lambda self, other: True),
    "operator-does-not-fence": (Inbox, "fence_off", lambda self, key, fence, now: False),
}


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_a_broken_rule_is_noticed(breakage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, broken = BREAKAGES[breakage]
    monkeypatch.setattr(where, name, broken)
    monkeypatch.setattr("tests.property.test_histories.note", _nothing)
    with pytest.raises((AssertionError, LookupError)):
        _play_many()


def _play_many() -> None:
    for seed in range(8_000):
        play(seed)
