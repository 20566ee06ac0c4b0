"""Worlds as values: copies to try a move on, and the likeness by which two worlds are the same state.

Whatever a world is made of takes part unless it is left out by name below, with the reason: a member that is added to
it tomorrow makes more states, never wrongly equal ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from types import FunctionType, MethodType
from typing import Any, Final
from uuid import UUID

from msgspec import Struct
from pydantic import BaseModel

from tests.property.fleet import Call, Fleet, Instance
from tests.property.remote import Remote
from tests.property.world import Order, Posted, World
from triumvir.lifecycle import OrderRecord, Policy, StepRecord
from triumvir.testing.inbox import Inbox, InboxRow
from triumvir.workflow import Workflow

_SHARED: Final = (type(None), str, int, float, bytes, Enum, datetime, timedelta, UUID, tuple, frozenset)
_SHARED_TOO: Final = (BaseModel, FunctionType, Workflow, Policy, type)


def copied(world: World) -> World:
    """A world of its own. What never changes is shared."""
    made: World = _copied(world, {})
    return made


def _copied(value: Any, known: dict[int, Any]) -> Any:
    kind: Any = type(value)
    if _is_shared(kind):
        return value
    if id(value) in known:
        return known[id(value)]
    if kind is MethodType:
        return MethodType(value.__func__, _copied(value.__self__, known))
    made = known[id(value)] = kind.__new__(kind)
    if isinstance(value, dict):
        dict.update(made, {key: _part(each, known) for key, each in value.items()})
    elif isinstance(value, list):
        made.extend([_part(each, known) for each in value])
    elif isinstance(value, set):
        made.update(value)
    else:
        for name in _members(value):
            object.__setattr__(made, name, _part(getattr(value, name), known))
    return made


def _part(value: Any, known: dict[int, Any]) -> Any:
    return value if type(value) in _met else _copied(value, known)


_met: set[type] = set()
"""Kinds of values that are shared."""


@cache
def _is_shared(kind: type) -> bool:
    if issubclass(kind, Struct):
        frozen = kind.__struct_config__.frozen
    else:
        frozen = is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    shared = frozen or issubclass(kind, (*_SHARED, *_SHARED_TOO)) or kind is FunctionType
    if shared:
        _met.add(kind)
    return shared


def _members(value: Any) -> tuple[str, ...]:
    kind: Any = type(value)
    slots = _slots(kind)
    return slots if slots is not None else tuple(vars(value))


@cache
def _slots(kind: type) -> tuple[str, ...] | None:
    found = [name for each in kind.__mro__ for name in getattr(each, "__slots__", ())]
    return tuple(name for name in found if not name.startswith("__")) if found else None


# The likeness

FENCES: Final = 10**12
"""A number above is a fence (microseconds of a clock). Fences are only compared, so their ranks say it all."""

Clip = Callable[[Any], Any]
_FLAG: Final[Clip] = lambda value: value is not None  # noqa: E731
_ANY_CALL: Final[Clip] = lambda calls: min(calls, 1)  # noqa: E731
_OUT: Final[Clip | None] = None

LEFT_OUT: Final[dict[tuple[type, str], Clip | None]] = {
    # Only ever counted on, which each decision is looked at for; only "the first" means something.
    (OrderRecord, "history"): _OUT,
    (OrderRecord, "sequence"): _OUT,
    (OrderRecord, "attempt"): lambda attempt: min(attempt, 2),
    (StepRecord, "attempt"): _OUT,
    # The order says which of its undos are under way.
    (StepRecord, "undo_attempt"): _OUT,
    (StepRecord, "undo_sent_at"): _OUT,
    # Follows from complete_by and the policy, and from the state.
    (OrderRecord, "sent_at"): _OUT,
    (OrderRecord, "ended_at"): _OUT,
    # More than three in a row mean what three do, where the wait does not grow.
    (OrderRecord, "unbegun_count"): lambda count: min(count, 4),
    # Words for people; whether there are any is looked at.
    (StepRecord, "error"): _FLAG,
    (StepRecord, "undo_error"): _FLAG,
    (StepRecord, "calls"): _ANY_CALL,
    # Counted towards budgets that are far larger than what is called in a small world.
    (OrderRecord, "budget"): _OUT,
    (StepRecord, "undo_calls"): _OUT,
    (StepRecord, "calls_upto"): _OUT,
    (StepRecord, "undo_limit"): _OUT,
    # What was written down for people, and for the checks of what cannot change any more.
    (Order, "log"): _OUT,
    (Order, "alerts"): _OUT,
    (World, "story"): _OUT,
    (World, "_requests"): _OUT,
    (World, "completions"): _OUT,
    (World, "_locks"): _OUT,
    (World, "now"): _OUT,
    (World, "sound"): _OUT,
    (World, "workflow"): _OUT,
    (World, "policy"): _OUT,
    (World, "decide"): _OUT,
    (World, "rules"): _OUT,
    (World, "remote"): _OUT,  # the fleet's, which takes part
    (Inbox, "_lives"): _OUT,
    (Fleet, "_ids"): _OUT,
    (Instance, "alive"): _OUT,  # whoever is not among the instances any more is dead
    (Remote, "effects"): _OUT,
    (Remote, "called"): _OUT,
}
_IN_A_REPLY: Final[dict[str, Clip | None]] = {
    "calls": _ANY_CALL,
    "error": _OUT,
    "client": _OUT,
    "order_id": _OUT,
}


def likeness(world: World) -> bytes:
    """Equal for worlds that nothing can tell apart from here on. Times count from now, past ones are all alike."""
    flat = _Eye(world).seen(world)
    fences = sorted({token for token in flat if type(token) is int and token > FENCES})
    locks = sorted({token for token in flat if type(token) is UUID})
    ranks: dict[Any, str] = {fence: f"f{rank}" for rank, fence in enumerate(fences)}
    ranks.update({lock: f"l{rank}" for rank, lock in enumerate(locks)})
    return repr([ranks.get(token, token) if type(token) in (int, UUID) else token for token in flat]).encode()


Tokens = list[Any]
_MOST_KNOWN: Final = 100_000
_known: dict[tuple[int, datetime], tuple[Any, Tokens]] = {}
"""What never changes looks the same to every world of one time; kept with it, so that its id stays its own."""


class _Eye:
    """Looks at one world."""

    def __init__(self, world: World) -> None:
        self.now = world.now
        self.owners = {instance.id: n for n, instance in enumerate(world.fleet.instances)}

    def seen(self, value: Any) -> Tokens:
        """The value as a flat row of tokens."""
        kind: Any = type(value)
        if value is None or kind in (str, int, bool, UUID):
            return [value]
        if kind is timedelta:
            return [value.total_seconds()]
        if kind is datetime:
            return [max((value - self.now).total_seconds(), 0)]
        if isinstance(value, dict):
            return self._in_any_order(value.items())
        if isinstance(value, set | frozenset):
            return self._in_any_order(value)
        if kind is list and value and isinstance(value[0], Posted | Call):
            return self._in_any_order(value)
        if isinstance(value, list | tuple):
            return ["(", *(token for each in value for token in self.seen(each)), ")"]
        return self._remembered(value) if _is_shared(kind) else self._object(value)

    def _remembered(self, value: Any) -> Tokens:
        found = _known.get((id(value), self.now))
        if found is None:
            if len(_known) > _MOST_KNOWN:
                _known.clear()
            found = _known[id(value), self.now] = (value, self._object(value))
        return found[1]

    def _object(self, value: Any) -> Tokens:
        kind: Any = type(value)
        tokens: Tokens = [kind.__name__]
        if kind is OrderRecord:
            tokens += self.seen([out.step_no for out in value.undos_out])
        for name in _members(value):
            clip, each = _clip(kind, name), getattr(value, name)
            if clip is _OWNER:
                tokens.append(self.owners.get(each, "gone"))
            elif clip is not None:
                tokens += self.seen(each if clip is _KEPT else clip(each))
        return tokens

    def _in_any_order(self, values: Any) -> Tokens:
        rows = sorted((self.seen(each) for each in values), key=repr)
        return ["{", *(token for row in rows for token in row), "}"]


def _kept(value: Any) -> Any:
    return value


def _owner(value: Any) -> Any:
    raise AssertionError("depends on the world")


_KEPT: Final[Clip] = _kept
_OWNER: Final[Clip] = _owner


@cache
def _clip(kind: type, name: str) -> Clip | None:
    if issubclass(kind, Call | InboxRow | Instance) and name in ("owner", "id"):
        return _OWNER
    if issubclass(kind, BaseModel):
        return _IN_A_REPLY.get(name, _KEPT)
    for each in kind.__mro__:
        if (each, name) in LEFT_OUT:
            return LEFT_OUT[each, name]
    return _KEPT
