"""Breadth first through every state that a scope can reach: the shortest way to what is wrong is found first."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b

from tests.property.likeness import copied
from tests.property.small_world import Move, Scope, State, check_at_rest, start


class WrongState(AssertionError):
    """A promise is broken, and how that comes about."""


@dataclass(slots=True)
class Searched:
    """What was searched. ``ends``: in how many states of rest each state of an order was met."""

    states: int = 0
    moves: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    complete: bool = True

    def __str__(self) -> str:
        ends = ", ".join(f"{count} {name}" for name, count in sorted(self.ends.items()))
        return f"{self.states} states, {self.moves} moves; at rest: {ends}"


class _Seen:
    """Every state met so far, by number, and how it was reached: no worlds, which are many."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._numbers: dict[bytes, int] = {}
        self._came_from: list[tuple[int, int]] = []
        self._before: list[list[int]] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def enter(self, state: State, came_from: tuple[int, int]) -> tuple[int, bool]:
        """Its number, and whether it is a new one."""
        key = blake2b(state.key, digest_size=12).digest()
        number = self._numbers.setdefault(key, len(self._numbers))
        new = number == len(self._came_from)
        if new:
            self._came_from.append(came_from)
            self._before.append([])
        return number, new

    def leads(self, before: int, after: int) -> None:
        """What happens by itself leads from one to the other."""
        self._before[after].append(before)

    def without_an_end(self, resting: Iterable[int]) -> int | None:
        """The first state from which nothing that happens by itself leads to a rest."""
        ends = set(resting)
        waiting = deque(ends)
        while waiting:
            for before in self._before[waiting.popleft()]:
                if before not in ends:
                    ends.add(before)
                    waiting.append(before)
        return next((n for n in range(len(self)) if n not in ends), None)

    def way_to(self, number: int, last: Move | None) -> str:
        """What happened on the way to a state, played once more, and the move that went wrong there."""
        steps = []
        while number > 0:
            number, move_no = self._came_from[number]
            steps.append(move_no)
        state, lines = start(self._scope), []
        for move_no in reversed(steps):
            move = state.moves()[move_no]
            state = state.after(move)
            lines += [f"-- {move.name}", state.world.told()]
        if last is not None:
            world = copied(state.world)
            world.story = []
            with suppress(AssertionError, LookupError):
                last.play(world)
            lines += [f"-- {last.name}", world.told()]
        return "\n".join([*lines, f"   {state.world.orders[0].record}"])


def search(scope: Scope, most: int = 100_000_000) -> Searched:
    """Every state within the scope; ``most`` of them at most. Raises WrongState with the way that leads there.

    In each one the rules of the heart's tests hold; where nothing happens by itself any more, the order has ended or
    rests with an alert, and the auditor finds nothing; and from each one such a state can be reached without a
    further fault.
    """
    seen, found, resting = _Seen(scope), Searched(), []
    first = start(scope)
    seen.enter(first, (-1, -1))
    waiting = deque([(0, first)])
    while waiting and len(seen) <= most:
        number, state = waiting.popleft()
        moves = state.moves()
        if all(move.fault is not None for move in moves):
            with _told(seen, number):
                check_at_rest(state.world)
            resting.append(number)
            found.ends[state.world.orders[0].record.state] += 1
        for move_no, move in enumerate(moves):
            with _told(seen, number, move):
                after = state.after(move)
            known, new = seen.enter(after, (number, move_no))
            if new:
                waiting.append((known, after))
            if move.fault is None:
                seen.leads(number, known)
        found.moves += len(moves)
    found.states, found.complete = len(seen), not waiting
    endless = seen.without_an_end(resting) if found.complete else None
    if endless is not None:
        raise WrongState(f"never comes to rest by itself\n{seen.way_to(endless, None)}")
    return found


@contextmanager
def _told(seen: _Seen, number: int, move: Move | None = None) -> Iterator[None]:
    try:
        yield
    except (AssertionError, LookupError) as error:
        raise WrongState(f"{error}\n{seen.way_to(number, move)}") from error
