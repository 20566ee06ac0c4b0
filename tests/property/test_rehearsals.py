"""Random faults in rehearsals: whatever is injected, the order comes to a right end, by bounded calls."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import Phase, given, note, settings

from tests.unit.testing.troupe import SALE, Remote, till_of
from triumvir import Workflow
from triumvir.lifecycle import END, RESTING, STATUS_OF_STATE, Expired, is_legal
from triumvir.testing import Outcome, Rehearsal

pytestmark = pytest.mark.timeout(3600)  # the deep profile takes long

MAX_FAILURES, CALLS_PER_REQUEST = 2, 3
STEPS = ("reserve", "charge", "ship")
STEP = st.sampled_from(STEPS)
TIMES = st.integers(1, 4)
OFTEN = st.one_of(TIMES, st.none())
SECONDS = st.sampled_from([0.5, 4.0, 11.0, 40.0, 700.0])
MESSAGE = st.sampled_from(["request", "reply"])
UNDO = st.sampled_from([False, False, True])
Injection = tuple[str, dict[str, Any]]


def injection(name: str, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Injection]:
    return st.tuples(st.just(name), st.fixed_dictionaries(arguments))


HITS = {"step": STEP, "skip": st.integers(0, 2), "undo": UNDO}
INJECTION = st.one_of(
    injection("fail", permanently=st.just("no"), times=OFTEN, **HITS),
    injection("fail", transiently=st.just("busy"), times=OFTEN, **HITS),
    injection("fail", transiently=st.just("busy"), effect=st.just("none"), times=TIMES, **HITS),
    injection("fail", transiently=st.just("lost"), at=st.just("after_call"), times=OFTEN, **HITS),
    injection(
        "fail",
        permanently=st.just("lost"),
        effect=st.just("unknown"),
        at=st.just("after_call"),
        times=TIMES,
        **HITS,
    ),
    injection("die", at=st.sampled_from(["before_call", "after_call", "before_reply"]), times=TIMES, **HITS),
    injection("pause", by=SECONDS, times=TIMES, **HITS),
    injection(
        "delay", by=SECONDS, what=st.sampled_from(["request", "call", "answer", "reply"]), times=TIMES, **HITS
    ),
    injection("double", what=MESSAGE, times=OFTEN, **HITS),
    injection("drop", what=MESSAGE, times=TIMES, **HITS),
    injection("cancel_at", time=st.floats(0, 60)),
    injection("cancel_during", step=STEP, undo=UNDO),
    injection("absent", agent=st.just("till"), until=st.floats(0, 100)),
)


def rehearse(injections: list[Injection], on_error: Any, seed: int) -> tuple[Outcome, Remote]:
    remote = Remote()
    workflow = Workflow(SALE.name, SALE.version, SALE.steps, on_error)
    rehearsal = Rehearsal(
        workflow,
        agents=[till_of(remote)],
        settings={"max_failures": MAX_FAILURES, "calls_per_request": CALLS_PER_REQUEST},
        seed=seed,
    )
    for name, arguments in injections:
        getattr(rehearsal, name)(**arguments)
    return rehearsal.run_blocking({"pence": 500}), remote


@settings(deadline=None)
@given(
    injections=st.lists(INJECTION, max_size=6),
    on_error=st.sampled_from(["compensate", "compensate", "halt"]),
    seed=st.integers(0, 3),
)
def test_whatever_is_injected_the_order_comes_to_a_right_end(
    injections: list[Injection], on_error: Any, seed: int
) -> None:
    outcome, remote = rehearse(injections, on_error, seed)
    note(str(outcome))
    check(outcome, remote)


def check(outcome: Outcome, remote: Remote) -> None:
    assert outcome.stuck is None
    assert outcome.state in END | RESTING
    check_effects(outcome, remote)
    check_calls(outcome)
    check_told(outcome)


def check_effects(outcome: Outcome, remote: Remote) -> None:
    """The remote service has what the state says, and an order that rests says where it may have something."""
    for step in STEPS:
        net, record = remote.net[step], outcome.steps.get(step)
        assert net in (0, 1)
        if outcome.state == "processed":
            assert net == 1, f"{step} was not done"
        if outcome.state in ("compensated", "cancelled"):
            assert net == 0, f"{step} was not undone"
        if record is None or record.effect == "none":
            assert net == 0, f"{step} has an effect that nobody knows of"
        completed = [row for row in outcome.history if row.why == f"{step} completed"]
        assert len(completed) <= 1, "completed twice"


def check_calls(outcome: Outcome) -> None:
    attempts = MAX_FAILURES + 1
    for step in STEPS:
        record = outcome.steps.get(step)
        undos = 1 if record is None else record.undo_generation + 1
        assert len(outcome.calls_of(step)) <= attempts * CALLS_PER_REQUEST
        assert len(outcome.calls_of(step, "undo")) <= undos * attempts * CALLS_PER_REQUEST
        for call in outcome.calls_of(step):
            assert call.idempotency_key == f"rehearsal/order-1/{step}/do/0"


def check_told(outcome: Outcome) -> None:
    assert [row.n for row in outcome.history] == list(range(1, len(outcome.history) + 1))
    assert all(is_legal(row.before, row.after) for row in outcome.history)
    assert all(one.after == two.before for one, two in pairwise(outcome.history))
    assert all(one.at <= two.at for one, two in pairwise(outcome.history))
    assert [status.sequence for status in outcome.statuses] == list(range(1, len(outcome.statuses) + 1))
    ends = [name for name in outcome.told if name not in ("cancel_refused",)]
    assert ends[-1] == STATUS_OF_STATE[outcome.state]


@settings(deadline=None)
@given(injections=st.lists(INJECTION, max_size=4), seed=st.integers(0, 2**32))
def test_the_same_faults_and_seed_make_the_same_outcome(injections: list[Injection], seed: int) -> None:
    (one, _), (two, _) = (rehearse(injections, "compensate", seed) for _ in range(2))
    assert (str(one), one.calls, one.statuses) == (str(two), two.calls, two.statuses)


BREAKAGES: dict[str, tuple[str, Callable[..., Any]]] = {
    "the-supervisor-does-not-fence": (
        "triumvir.testing.inbox.Inbox.close_expired",
        lambda self, key, fence: Expired(begun=False),
    ),
    "doubt-is-forgotten": ("triumvir.lifecycle.replies._worse", lambda before, now: "none"),
}


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_a_broken_rule_is_noticed(breakage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, broken = BREAKAGES[breakage]
    monkeypatch.setattr(name, broken)

    @settings(
        deadline=None,
        max_examples=4000,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )
    @given(injections=st.lists(INJECTION, max_size=6), seed=st.integers(0, 3))
    def search(injections: list[Injection], seed: int) -> None:
        check(*rehearse(injections, "compensate", seed))

    with pytest.raises(AssertionError):
        search()
