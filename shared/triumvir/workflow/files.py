"""Workflows written as YAML or JSON: the same model as ``Workflow(...)``, and every fault with its line and its fix."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from triumvir.contracts.names import NAME_PATTERN, is_name
from triumvir.errors import DefinitionError, DefinitionFileError
from triumvir.workflow.defaults import value_of
from triumvir.workflow.document import Mapping, Node, Place, Scalar, Sequence, Unreadable, read
from triumvir.workflow.durations import LONGEST, MILLISECOND, duration_of
from triumvir.workflow.expressions import compiled
from triumvir.workflow.keys import (
    STEP_KEYS,
    STEP_NEEDS,
    WAIT_KEYS,
    WAIT_NEEDS,
    WORKFLOW_KEYS,
    WORKFLOW_NEEDS,
    suggestion,
)
from triumvir.workflow.model import Stage, Step, Workflow
from triumvir.workflow.waiting import Wait

_NOTHING: Final = ("", "~", "null", "Null", "NULL")
_MOST_FAULTS: Final = 20
Path = tuple[str | int, ...]


def workflows_in(text: str, source: str, *, is_json: bool = False) -> list[Workflow]:
    """The workflows of a file: one a document, or a list of them. ``source`` names the file in messages.

    Raises DefinitionFileError with every fault that was found, in the order of the file.
    """
    try:
        documents = read(text, is_json=is_json)
    except Unreadable as error:
        raise DefinitionFileError([_line(source, error.place, (), error.problem)]) from None
    reader = _Reader()
    for document in documents:
        if not _is_nothing(document):
            reader.document(document)
    if not reader.workflows and not reader.faults:
        reader.fault(Place(1, 1), (), "holds no workflow; write name:, version: and steps:")
    if reader.faults:
        lines = [_line(source, *each) for each in sorted(reader.faults, key=lambda each: each[0])]
        more = [f"{source}: and {len(lines) - _MOST_FAULTS} more"] if len(lines) > _MOST_FAULTS else []
        raise DefinitionFileError([*lines[:_MOST_FAULTS], *more])
    return reader.workflows


def _line(source: str, place: Place, path: Path, problem: str) -> str:
    where = f"{_dotted(path)}: " if path else ""
    return f"{source}:{place.line}:{place.column}: {where}{problem}"


def _dotted(path: Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _is_nothing(node: Node) -> bool:
    return isinstance(node, Scalar) and node.plain and node.text in _NOTHING


class _Bad(Exception):
    """A value that is not what its key asks for; ``problem`` names the fix, ``offset`` the place within the value."""

    def __init__(self, problem: str, offset: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.offset = offset


@dataclass
class _Reader:
    """Collects workflows and faults. ``_nodes`` knows where each field of the present document stands."""

    workflows: list[Workflow] = field(default_factory=list)
    faults: list[tuple[Place, Path, str]] = field(default_factory=list)
    _nodes: dict[Path, Node] = field(default_factory=dict)

    def fault(self, place: Place, path: Path, problem: str) -> None:
        self.faults.append((place, path, problem))

    def document(self, node: Node) -> None:
        if isinstance(node, Sequence):
            for each in node.items:
                self._workflow(each)
        else:
            self._workflow(node)

    def _workflow(self, node: Node) -> None:
        self._nodes, so_far = {}, len(self.faults)
        members = self._members(node, (), "a workflow", WORKFLOW_KEYS, WORKFLOW_NEEDS)
        values = {key: self._value((key,), value) for key, value in members.items() if key != "steps"}
        steps = self._steps(members.get("steps"))
        if len(self.faults) > so_far:
            return
        workflow = self._built((), Workflow, steps=steps, **values)
        if workflow is None:
            return
        if any((one.name, one.version) == (workflow.name, workflow.version) for one in self.workflows):
            problem = (
                f"{workflow.name} version {workflow.version} stands in this file before; change its version"
            )
            self.fault(node.place, (), problem)
        self.workflows.append(workflow)

    def _steps(self, node: Node | None) -> list[Stage]:
        if node is None:
            return []
        if not isinstance(node, Sequence):
            self.fault(node.place, ("steps",), f"is {_kind(node)}; give a list of steps, each with - name:")
            return []
        self._nodes[("steps",)] = node
        made = [self._step(each, ("steps", index)) for index, each in enumerate(node.items)]
        return [step for step in made if step is not None]

    def _step(self, node: Node, path: Path) -> Stage | None:
        so_far = len(self.faults)
        if _is_wait(node):
            members = self._members(node, path, "a wait", WAIT_KEYS, WAIT_NEEDS)
            values = self._values(path, members, "within")
            if members and not {"within", "within_ms"} & set(members):
                self.fault(node.place, path, "within is missing; add within:")
        else:
            members = self._members(node, path, "a step", STEP_KEYS, STEP_NEEDS)
            values = self._values(path, members, "complete_within")
        made = Wait if _is_wait(node) else Step
        return self._built(path, made, **values) if len(self.faults) == so_far else None

    def _values(self, path: Path, members: dict[str, Node], span: str) -> dict[str, Any]:
        """What its fields say. ``span``: the one that may be spelled in milliseconds instead."""
        values = {key: self._value((*path, key), value) for key, value in members.items()}
        milliseconds = values.pop(f"{span}_ms", None)
        if milliseconds is not None:
            if span in values:
                at = (*path, f"{span}_ms")
                self.fault(self._place(at), at, f"stands beside {span}; leave one of them")
            values[span] = milliseconds
        return values

    def _members(
        self, node: Node, path: Path, what: str, known: tuple[str, ...], needed: tuple[str, ...]
    ) -> dict[str, Node]:
        if not isinstance(node, Mapping):
            self.fault(node.place, path, f"is {_kind(node)}; give {what} with {', '.join(needed)}")
            return {}
        self._nodes[path] = node
        found: dict[str, Node] = {}
        for key, value in node.items:
            if key.text in known:
                found[key.text] = self._nodes[*path, key.text] = value
            else:
                self.fault(
                    key.place, path, f"{key.text!r:.80} is no key of {what}; {suggestion(key.text, known)}"
                )
        for name in needed:
            if name not in found:
                self.fault(node.place, path, f"{name} is missing; add {name}:")
        return found

    def _value(self, path: Path, node: Node) -> Any:
        """What a field says; None after a fault."""
        if path[-1] == "select" and isinstance(node, Mapping):
            return {key.text: self._expression((*path, key.text), value) for key, value in node.items}
        return self._read(path, node, _READ[str(path[-1])])

    def _expression(self, path: Path, node: Node) -> Any:
        self._nodes[path] = node
        return self._read(path, node, _jmespath)

    def _read(self, path: Path, node: Node, read_as: Callable[[Node], Any]) -> Any:
        try:
            return read_as(node)
        except _Bad as error:
            self.fault(_within(node, error.offset), path, error.problem)
            return None

    def _built(self, path: Path, make: Callable[..., Any], **members: Any) -> Any:
        """The model's own checks; their faults get the place of the field that they name."""
        try:
            return make(**members)
        except DefinitionError as error:
            at = (*path, *error.path)
            named = ".".join(
                str(part) for part in error.path if part not in ("steps",) and isinstance(part, str)
            )
            problem = error.problem.removeprefix(f"{named} ")
            self.fault(self._place(at, error.offset), at, problem)
            return None

    def _place(self, path: Path, offset: int | None = None) -> Place:
        while path not in self._nodes and path:
            path, offset = path[:-1], None
        return _within(self._nodes[path], offset)


def _is_wait(node: Node) -> bool:
    return isinstance(node, Mapping) and any(key.text == "signal" for key, _ in node.items)


def _within(node: Node, offset: int | None) -> Place:
    if isinstance(node, Scalar) and node.exact and offset is not None:
        return Place(node.place.line, node.place.column + offset)
    return node.place


def _kind(node: Node) -> str:
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, Sequence):
        return "a list"
    return "empty" if _is_nothing(node) else f"the text {node.text!r:.80}"


def _text(node: Node) -> str:
    if not isinstance(node, Scalar):
        raise _Bad(f"is {_kind(node)}; give a text")
    if _is_nothing(node):
        raise _Bad("is empty; give a value, or leave the line out")
    return node.text


def _name(node: Node) -> str:
    text = _text(node)
    if not is_name(text):
        raise _Bad(f"is {text!r:.80}; it must match {NAME_PATTERN}")
    return text


def _jmespath(node: Node) -> str:
    text = _text(node)
    try:
        compiled(text)
    except DefinitionError as error:
        raise _Bad(error.problem, error.offset) from None
    return text


def _number(node: Node) -> int:
    text = _text(node)
    if not re.fullmatch(r"0|[1-9][0-9]{0,15}", text):
        raise _Bad(f"is {text!r:.80}; give a whole number, such as 1")
    if isinstance(node, Scalar) and not node.plain:
        raise _Bad(f"is the text {text!r}; write the number without quotes")
    return int(text)


def _milliseconds(node: Node) -> timedelta:
    number = _number(node)
    if not 1 <= number <= LONGEST // MILLISECOND:
        raise _Bad(f"is {number}; give 1 to {LONGEST // MILLISECOND}")
    return timedelta(milliseconds=number)


def _duration(node: Node) -> timedelta:
    try:
        return duration_of(_text(node))
    except ValueError as error:
        raise _Bad(str(error)) from None


def _default(node: Node) -> Any:
    value = value_of(node)
    if value is None:
        raise _Bad("is null; give a value, or leave the line out")
    return value


def _boolean(node: Node) -> bool:
    text = _text(node)
    if text not in ("true", "false") or (isinstance(node, Scalar) and not node.plain):
        raise _Bad(f"is {text!r:.80}; write true or false, without quotes")
    return text == "true"


def _selection(node: Node) -> str:
    if isinstance(node, Sequence):
        raise _Bad("is a list; give one expression, or a mapping of names to expressions")
    return _jmespath(node)


_READ: Final[dict[str, Callable[[Node], Any]]] = {
    "name": _name, "agent": _name, "operation": _name, "undo": _name, "on_error": _text, "when": _jmespath,
    "undo_order": _text, "undo_rank": _number, "classification": _text, "retention_days": _number,
    "version": _number, "complete_within": _duration, "complete_within_ms": _milliseconds, "select": _selection,
    "signal": _name, "within": _duration, "within_ms": _milliseconds, "default": _default,
    "on_timeout": _name, "main_line": _boolean, "recoverable": _boolean,
}  # fmt: skip
