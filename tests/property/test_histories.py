"""Random histories: whatever is lost, doubled, late, killed or cancelled, every order comes to a right end."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar, get_args

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.property.fleet import CALLS_PER_REQUEST
from tests.property.remote import Outcome
from tests.property.rules import Rule, Rules, Trait, Traits
from tests.property.settle import Moods, check_calls, settle
from tests.property.world import Decide, Order, World, workflow_of
from triumvir.lifecycle import Action, Policy, Revived, decide
from triumvir.workflow import OnError, UndoOrder

pytestmark = pytest.mark.timeout(3600)  # the deep profile takes long

ANY = st.integers(0, 7)
AGENT = st.integers(0, 1)
OUTCOMES: st.SearchStrategy[Outcome] = st.sampled_from(["works", "works", "works-unheard", "refuses", "busy"])
UNDO_ORDER: st.SearchStrategy[UndoOrder] = st.sampled_from(get_args(UndoOrder))
ON_ERROR: st.SearchStrategy[OnError] = st.sampled_from(["compensate", "halt"])
MOODS: st.SearchStrategy[Moods] = st.dictionaries(
    st.tuples(st.integers(1, 3), st.sampled_from(["do", "do", "undo"])),
    st.sampled_from(["refuses", "busy", "works-unheard"]),
    max_size=2,
)
RULES: st.SearchStrategy[Rules] = st.dictionaries(
    st.integers(1, 3), st.sampled_from(get_args(Rule)), max_size=3
)
BUDGETS = st.tuples(st.sampled_from([30, 0, 1, 2, 3]), st.sampled_from([30, 0, 1, 2]))
TRAITS: st.SearchStrategy[Traits] = st.dictionaries(
    st.integers(1, 3), st.sampled_from(get_args(Trait)), max_size=3
)


class Histories(RuleBasedStateMachine):
    """Rules pick from what there is by index, so that one list of small numbers is one history."""

    decide: ClassVar[Decide] = staticmethod(decide)

    @initialize(
        steps=st.integers(1, 3),
        on_error=ON_ERROR,
        keeps=st.sampled_from([None, None, 2]),
        max_failures=st.integers(0, 2),
        cool_offs=st.integers(0, 1),
        orders=st.sampled_from([1, 1, 2]),
        moods=MOODS,
        zombies_last=st.booleans(),
        rules=RULES,
        budgets=BUDGETS,
        undo_order=UNDO_ORDER,
        traits=TRAITS,
    )
    def begin(
        self,
        steps: int,
        on_error: OnError,
        keeps: int | None,
        max_failures: int,
        cool_offs: int,
        orders: int,
        moods: Moods,
        zombies_last: bool,
        rules: Rules,
        undo_order: UndoOrder,
        budgets: tuple[int, int],
        traits: Traits,
    ) -> None:
        cooled = (timedelta(minutes=5),) * cool_offs
        policy = Policy(
            max_failures=max_failures,
            jitter_factor=0,
            cool_offs=cooled,
            calls_per_request=CALLS_PER_REQUEST,
            retry_budget=budgets[0],
            undo_retry_budget=budgets[1],
        )
        rules = {} if traits else rules
        workflow = workflow_of(
            steps, on_error, keeps=keeps, rules=rules, undo_order=undo_order, traits=traits
        )
        self.world = World(workflow, policy, orders, type(self).decide, rules)
        self.moods, self.zombies_last = moods, zombies_last
        for order in self.world.orders:
            self.world.claim(order)

    def order(self, which: int) -> Order:
        return self.world.orders[which % len(self.world.orders)]

    @rule(releases=st.booleans())
    def schedule(self, releases: bool) -> None:
        for order in self.world.orders:
            if releases:
                self.world.release(order)
            self.world.claim(order)
            self.world.timer(order)

    @rule(which=ANY)
    def revive(self, which: int) -> None:
        self.world.apply(self.order(which), Revived())

    @rule(which=ANY)
    def supervise(self, which: int) -> None:
        self.world.supervise(self.order(which))

    @rule(which=ANY)
    def age(self, which: int) -> None:
        self.world.age(self.order(which))

    @rule(which=ANY)
    def cancel(self, which: int) -> None:
        self.world.cancel(self.order(which))

    @rule(which=ANY, step_no=st.integers(1, 3))
    def signal(self, which: int, step_no: int) -> None:
        self.world.signal(self.order(which), step_no)

    @rule(which=ANY, action=st.sampled_from(get_args(Action)))
    def operate(self, which: int, action: Action) -> None:
        self.world.operate(self.order(which), action)

    @rule(which=ANY, really=st.booleans())
    def break_(self, which: int, really: bool) -> None:
        if really:
            self.world.break_(self.order(which))

    @precondition(lambda self: self.world.bag)
    @rule(which=ANY, agent=AGENT, keep=st.sampled_from([False, False, True]))
    def deliver(self, which: int, agent: int, keep: bool) -> None:
        bag = self.world.bag
        self.world.deliver(bag[which % len(bag)], self.world.fleet.instances[agent], keep=keep)

    @precondition(lambda self: self.world.bag)
    @rule(agent=AGENT)
    def deliver_all(self, agent: int) -> None:
        for posted in list(self.world.bag):
            self.world.deliver(posted, self.world.fleet.instances[agent])

    @precondition(lambda self: self.world.bag)
    @rule(which=ANY)
    def lose(self, which: int) -> None:
        self.world.lose(self.world.bag[which % len(self.world.bag)])

    @precondition(lambda self: self.world.fleet.calls)
    @rule(which=ANY, outcome=OUTCOMES)
    def land(self, which: int, outcome: Outcome) -> None:
        calls = self.world.fleet.calls
        self.world.land(calls[which % len(calls)], outcome)

    @precondition(lambda self: self.world.fleet.calls)
    @rule(which=ANY)
    def report(self, which: int) -> None:
        calls = self.world.fleet.calls
        self.world.report(calls[which % len(calls)])

    @precondition(lambda self: self.world.fleet.calls)
    @rule(which=ANY, again=st.booleans())
    def hear(self, which: int, again: bool) -> None:
        calls = self.world.fleet.calls
        self.world.hear(calls[which % len(calls)], again=again)

    @precondition(lambda self: self.world.fleet.calls)
    @rule(outcome=OUTCOMES, newest=st.booleans())
    def serve(self, outcome: Outcome, newest: bool) -> None:
        for call in self.world.fleet.calls[-1:] if newest else list(self.world.fleet.calls):
            self.world.land(call, outcome)
            if call in self.world.fleet.calls:
                self.world.hear(call, again=False)

    @rule(agent=AGENT)
    def crash(self, agent: int) -> None:
        self.world.crash(self.world.fleet.instances[agent])

    @rule(agent=AGENT)
    def lapse(self, agent: int) -> None:
        instance = self.world.fleet.instances[agent]
        instance.leased = not instance.leased

    @rule(agent=AGENT, which=ANY)
    def change_offer(self, agent: int, which: int) -> None:
        self.world.fleet.instances[agent].unknown ^= {self.world.operation(self.order(which))}

    @rule(which=ANY)
    def change_presence(self, which: int) -> None:
        self.world.absent ^= {self.world.operation(self.order(which))}

    @rule()
    def change_pause(self) -> None:
        self.world.paused = not self.world.paused

    @rule(tenths=st.integers(1, 40))
    def wait(self, tenths: int) -> None:
        self.world.advance(timedelta(seconds=tenths / 10))

    @precondition(lambda self: self.world.next_times())
    @rule(unheard=st.sampled_from([None, "works"]))
    def wait_for_next(self, unheard: Outcome | None) -> None:
        self.world.advance(self.world.next_times()[0] - self.world.now, unheard)

    @precondition(lambda self: self.world.next_times())
    @rule(unheard=st.sampled_from([None, "works"]))
    def expire(self, unheard: Outcome | None) -> None:
        self.world.advance(self.world.next_times()[-1] - self.world.now, unheard)
        for order in self.world.orders:
            self.world.supervise(order)
            self.world.claim(order)

    @invariant()
    def bounded(self) -> None:
        for order in self.world.orders:
            check_calls(self.world, order)

    def teardown(self) -> None:
        """Let it run out; then the client cancels what rests in error, and it is undone."""
        if not hasattr(self, "world") or not self.world.sound:
            return
        try:
            settle(self.world, self.moods, zombies_last=self.zombies_last)
            for order in self.world.orders:
                if order.record.state == "error":
                    self.world.cancel(order)
            settle(self.world, self.moods)
        finally:
            note(self.world.told())


TestHistories = Histories.TestCase
TestHistories.settings = settings(deadline=None, suppress_health_check=list(HealthCheck))
