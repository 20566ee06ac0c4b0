"""Each rule that is broken on purpose leads to a wrong state, and the search of the small world finds it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.property import small_world
from tests.property.rules import Traits
from tests.property.search import WrongState, search
from tests.property.small_world import POLICY, Scope
from tests.property.test_small_world import FAULTS, SIGNALS
from tests.property.test_volume import BREAKAGES

pytestmark = pytest.mark.timeout(7200)  # the deep searches take long

FOUND: Final = (
    "late-success-forgotten",
    "in-doubt-not-undone",
    "any-reply-counts",
    "cancelled-though-begun",
    "agent-forgets-calls-unheard",
    "operator-does-not-fence",
    "undo-before-a-late-success-counts",
)
"""Two faults bring these to light."""
IN_A_WORLD_OF: Final[dict[str, Traits]] = {
    "once-is-tried-again": {1: "once"},
    "what-is-not-on-the-way-is-run": {1: "leads", 2: "standby"},
}
"""These need steps of a certain kind."""
MORE_AT_ONCE: Final[dict[str, dict[str, int]]] = {
    "supervisor-does-not-fence": {"crash": 1, "slow": 2, "cancel": 1},
    "doubt-forgotten": {"broken": 1, "operator": 1, "outcome": 1},
    "failures-not-counted": {"outcome": 5},
}
"""These need more faults, of fewer kinds."""


@pytest.mark.parametrize("breakage", FOUND)
def test_the_search_finds_a_broken_rule(breakage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find(breakage, Scope(1, "compensate", FAULTS, 2), monkeypatch)


@pytest.mark.parametrize("breakage", IN_A_WORLD_OF)
def test_the_search_finds_a_broken_rule_of_steps_that_lead_on_or_run_once(
    breakage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    traits = IN_A_WORLD_OF[breakage]
    find(breakage, Scope(len(traits), "compensate", FAULTS, 2, traits=traits), monkeypatch)


@pytest.mark.parametrize(
    "breakage",
    ["second-signal-counts", "kept-signal-forgotten", "default-never-counts", "held-wait-begins-anew"],
)
def test_the_search_finds_a_broken_rule_of_waits(breakage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find(breakage, Scope(1, "halt", FAULTS | SIGNALS, 2, rules={1: "waits"}), monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("breakage", ["undos-answered-end-the-wave", "undos-deadlines-of-the-first-only"])
def test_the_search_finds_a_broken_rule_of_undos_at_once(
    breakage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find(breakage, Scope(2, "compensate", FAULTS, 2, "parallel"), monkeypatch)


@pytest.mark.parametrize("breakage", MORE_AT_ONCE)
def test_the_search_finds_a_broken_rule_that_needs_more_faults(
    breakage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = MORE_AT_ONCE[breakage]
    find(breakage, Scope(1, "compensate", faults, sum(faults.values())), monkeypatch)


def find(breakage: str, scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, broken = BREAKAGES[breakage]
    monkeypatch.setattr(where, name, broken)
    monkeypatch.setattr(small_world, "POLICY", replace(POLICY))  # nothing is resolved yet by the right rules
    with pytest.raises(WrongState) as found:
        search(scope)
    assert "\n-- " in str(found.value), "how it comes about is told"
