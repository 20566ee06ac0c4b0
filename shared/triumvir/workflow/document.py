"""A file of definitions as a tree that knows where everything stands. Nothing is guessed: every scalar stays text.

YAML is read as far as a definition needs it: mappings, lists, scalars, several documents. Anchors, aliases, tags and
doubled keys are refused, so that no small file can stand for a large tree, and no ``no`` becomes false. JSON is read
by the same parser, after a strict check that it is JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

MAX_CHARACTERS: Final = 1_000_000
_MAX_DEPTH: Final = 10


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Line and column, from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text as it was meant. ``plain``: it stands without quotes. ``exact``: its characters stand one by one at
    ``place`` (of the first one), so that a place inside of it can be told.
    """

    text: str
    place: Place
    plain: bool = True
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys with their values, in order; no key twice."""

    items: tuple[tuple[Scalar, Node], ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    items: tuple[Node, ...]
    place: Place


Node = Scalar | Mapping | Sequence


class Unreadable(Exception):
    """A text that is no document; ``problem`` names the fix."""

    def __init__(self, place: Place, problem: str) -> None:
        super().__init__(problem)
        self.place = place
        self.problem = problem


def read(text: str, *, is_json: bool = False) -> list[Node]:
    """The documents of a text. Raises Unreadable at the first thing that is no YAML (or JSON), or not allowed."""
    if len(text) > MAX_CHARACTERS:
        problem = f"the file has {len(text)} characters, {MAX_CHARACTERS} are allowed; split it"
        raise Unreadable(Place(1, 1), problem)
    if is_json:
        _check_json(text)
        text = text.replace("\t", " ")  # JSON allows tabs between things only, YAML does not
    try:
        return list(_documents(text, _Events(_parsed(text))))
    except yaml.YAMLError as error:
        raise _unreadable(text, error) from None


def _check_json(text: str) -> None:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise Unreadable(Place(error.lineno, error.colno), f"is no JSON: {error.msg}; correct it") from None
    except (RecursionError, ValueError) as error:
        raise Unreadable(Place(1, 1), f"is no JSON: {error}; correct it") from None


def _parsed(text: str) -> Iterable[yaml.Event]:
    return yaml.parse(text, Loader=yaml.SafeLoader)


class _Events:
    """The parser's events, one after another."""

    def __init__(self, events: Iterable[yaml.Event]) -> None:
        self._events = iter(events)

    def next(self) -> yaml.Event:
        event = next(self._events)
        if isinstance(event, yaml.AliasEvent):
            raise Unreadable(
                _place(event), "aliases (*name) are not used here; write it out, or put it in quotes"
            )
        if getattr(event, "anchor", None) is not None:
            raise Unreadable(
                _place(event), "anchors (&name) are not used here; write it out, or put it in quotes"
            )
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise Unreadable(
                _place(event),
                f"tags ({tag}) are not used here; put a text that begins with ! in quotes",
            )
        return event


def _documents(text: str, events: _Events) -> Iterator[Node]:
    while True:
        event = events.next()
        if isinstance(event, yaml.StreamEndEvent):
            return
        if isinstance(event, yaml.DocumentStartEvent):
            yield _node(text, events, events.next(), 1)


def _node(text: str, events: _Events, event: yaml.Event, depth: int) -> Node:
    if isinstance(event, yaml.ScalarEvent):
        return _scalar(text, event)
    if depth > _MAX_DEPTH:
        raise Unreadable(_place(event), f"nested deeper than {_MAX_DEPTH}; a definition is flatter than that")
    if isinstance(event, yaml.SequenceStartEvent):
        items = []
        while not isinstance(inner := events.next(), yaml.SequenceEndEvent):
            items.append(_node(text, events, inner, depth + 1))
        return Sequence(tuple(items), _place(event))
    pairs: dict[str, tuple[Scalar, Node]] = {}
    while not isinstance(inner := events.next(), yaml.MappingEndEvent):
        key = _node(text, events, inner, depth + 1)
        if not isinstance(key, Scalar):
            raise Unreadable(key.place, "a key is a text here; write name: value")
        if key.text in pairs:
            first = pairs[key.text][0].place.line
            raise Unreadable(
                key.place, f"{key.text!r:.80} stands here and in line {first}; leave one of them"
            )
        pairs[key.text] = (key, _node(text, events, events.next(), depth + 1))
    return Mapping(tuple(pairs.values()), _place(event))


def _scalar(text: str, event: yaml.ScalarEvent) -> Scalar:
    """Of a quoted text the place is that of its first character, if each stands for itself."""
    plain = event.style is None
    quote = 0 if plain else 1
    place, start, end = _place(event), event.start_mark, event.end_mark
    exact = bool(start and end and text[start.index + quote : end.index - quote] == event.value)
    if not event.value.isascii() and any("\ud800" <= char <= "\udfff" for char in event.value):
        return Scalar(_paired(event.value, place), place, plain, exact=False)
    return Scalar(event.value, Place(place.line, place.column + quote) if exact else place, plain, exact)


def _paired(text: str, place: Place) -> str:
    """``\\ud83d\\ude00`` is one character in JSON; half of it is none."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise Unreadable(place, "holds half of a character (a lone surrogate); write it out") from None


def _place(event: yaml.Event) -> Place:
    return _at(event.start_mark)


def _at(mark: Any) -> Place:
    return Place(1, 1) if mark is None else Place(mark.line + 1, mark.column + 1)


def _unreadable(text: str, error: yaml.YAMLError) -> Unreadable:
    if isinstance(error, yaml.reader.ReaderError):
        before = text[: error.position]
        place = Place(before.count("\n") + 1, error.position - before.rfind("\n"))
        return Unreadable(place, f"the character {chr(error.character)!r} is not allowed; remove it")
    if not isinstance(error, yaml.MarkedYAMLError):
        return Unreadable(Place(1, 1), f"is no YAML: {error}; correct it")
    problem = error.problem or error.context or "cannot be read"
    return Unreadable(
        _at(error.problem_mark or error.context_mark), f"is no YAML: {problem}; {_fix(problem)}"
    )


def _fix(problem: str) -> str:
    if "cannot start any token" in problem and "\\t" in problem:
        return "indent with blanks, not with tabs"
    if "cannot start any token" in problem:
        return "put a text that begins with it in quotes"
    if "mapping values are not allowed" in problem:
        return "put a text that holds ': ' in quotes, or correct the indentation"
    if "expected <block end>" in problem or "block end" in problem:
        return "correct the indentation"
    return "correct it"
