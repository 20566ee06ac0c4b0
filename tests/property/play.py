"""One history from one seed: the same moves as the state machine's, many times as fast, and not shrunk."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, get_args

from tests.property.remote import Outcome
from tests.property.rules import Rule, Rules, Trait, Traits
from tests.property.settle import Moods
from tests.property.test_histories import Histories
from triumvir.lifecycle import Action

_OUTCOMES: Final[tuple[Outcome, ...]] = ("works", "works", "works-unheard", "refuses", "busy")
_LONGEST: Final = 70
Move = Callable[[Histories, Random], None]

_ALWAYS: Final[dict[str, tuple[int, Move]]] = {
    "schedule": (4, lambda h, r: h.schedule(r.random() < 0.8)),
    "revive": (1, lambda h, r: h.revive(r.randrange(2))),
    "supervise": (2, lambda h, r: h.supervise(r.randrange(2))),
    "age": (1, lambda h, r: h.age(r.randrange(2))),
    "cancel": (1, lambda h, r: h.cancel(r.randrange(2))),
    "operate": (1, lambda h, r: h.operate(r.randrange(2), r.choice(get_args(Action)))),
    "break": (1, lambda h, r: h.break_(r.randrange(2), r.random() < 0.3)),
    "crash": (1, lambda h, r: h.crash(r.randrange(2))),
    "lapse": (1, lambda h, r: h.lapse(r.randrange(2))),
    "offer": (1, lambda h, r: h.change_offer(r.randrange(2), r.randrange(2))),
    "presence": (1, lambda h, r: h.change_presence(r.randrange(2))),
    "pause": (1, lambda h, r: h.change_pause()),
    "wait": (1, lambda h, r: h.wait(r.randint(1, 40))),
}
_WITH_WAITS: Final[dict[str, tuple[int, Move]]] = {
    "signal": (2, lambda h, r: h.signal(r.randrange(2), r.randint(1, 3))),
}
_WITH_MESSAGES: Final[dict[str, tuple[int, Move]]] = {
    "deliver": (5, lambda h, r: h.deliver(r.randrange(8), r.randrange(2), r.random() < 0.3)),
    "deliver-all": (2, lambda h, r: h.deliver_all(r.randrange(2))),
    "lose": (1, lambda h, r: h.lose(r.randrange(8))),
}
_WITH_CALLS: Final[dict[str, tuple[int, Move]]] = {
    "land": (2, lambda h, r: h.land(r.randrange(8), r.choice(_OUTCOMES))),
    "report": (1, lambda h, r: h.report(r.randrange(8))),
    "hear": (2, lambda h, r: h.hear(r.randrange(8), r.random() < 0.5)),
    "serve": (2, lambda h, r: h.serve(r.choice(_OUTCOMES), r.random() < 0.7)),
}
_WITH_TIMES: Final[dict[str, tuple[int, Move]]] = {
    "next": (2, lambda h, r: h.wait_for_next(r.choice((None, "works")))),
    "expire": (1, lambda h, r: h.expire(r.choice((None, "works")))),
}


def play(seed: int, longest: int = _LONGEST) -> None:
    """Plays a history and lets it run out. A share of the moves is left out of each, so that histories differ."""
    chance = Random(seed)
    history = Histories()
    _begin(history, chance, _traits(seed))
    every = {**_ALWAYS, **_WITH_WAITS, **_WITH_MESSAGES, **_WITH_CALLS, **_WITH_TIMES}
    left_out = {name for name in every if chance.random() < 0.25} - {"schedule", "deliver"}
    for _ in range(chance.randint(longest // 4, longest)):
        moves = [move for name, move in _possible(history).items() if name not in left_out]
        chosen = chance.choices([move for _, move in moves], [weight for weight, _ in moves])[0]
        chosen(history, chance)
        history.bounded()
    history.teardown()


def _begin(history: Histories, chance: Random, traits: Traits) -> None:
    moods: Moods = {
        (chance.randint(1, 3), chance.choice(("do", "do", "undo"))): chance.choice(_OUTCOMES[2:])
        for _ in range(chance.randrange(3))
    }
    history.begin(
        steps=chance.randint(1, 3),
        on_error=chance.choice(("compensate", "halt")),
        keeps=chance.choice((None, None, 2)),
        max_failures=chance.randrange(3),
        cool_offs=chance.randrange(2),
        orders=chance.choice((1, 1, 2)),
        moods=moods,
        zombies_last=chance.random() < 0.5,
        rules=_rules(chance),
        budgets=(chance.choice((30, 0, 1, 2, 3)), chance.choice((30, 0, 1, 2))),
        undo_order=chance.choice(("reverse", "reverse", "by-rank", "parallel")),
        traits=traits,
    )


def _rules(chance: Random) -> Rules:
    """Half the worlds have steps with conditions and selections; those that cannot be worked out are rarer."""
    if chance.random() < 0.5:
        return {}
    weights = {
        "holds": 2,
        "fails": 3,
        "follows": 2,
        "broken": 1,
        "selects": 3,
        "cannot-select": 1,
        "waits": 2,
        "waits-or-fails": 1,
    }
    numbers = [n for n in (1, 2, 3) if chance.random() < 0.6]
    drawn: list[Rule] = chance.choices(get_args(Rule), [weights[rule] for rule in get_args(Rule)], k=3)
    return {n: drawn[n - 1] for n in numbers}


def _traits(seed: int) -> Traits:
    """A quarter of the worlds have steps that lead to others, or run once."""
    if seed % 4:
        return {}
    chance = Random(f"traits of {seed}")
    return {n: chance.choice(get_args(Trait)) for n in (1, 2, 3) if chance.random() < 0.7}


def _possible(history: Histories) -> dict[str, tuple[int, Move]]:
    world = history.world
    return {
        **_ALWAYS,
        **(_WITH_WAITS if world.workflow.signals else {}),
        **(_WITH_MESSAGES if world.bag else {}),
        **(_WITH_CALLS if world.fleet.calls else {}),
        **(_WITH_TIMES if world.next_times() else {}),
    }
