"""What a changed workflow means for the orders that live by its older versions. Pure: from definitions and counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from triumvir.lifecycle import LIVE
from triumvir.store.live_orders import OrdersAt, Surroundings
from triumvir.store.operators import differences
from triumvir.workflow import Stage, Wait, Workflow

Standing = Literal["new", "unchanged", "changed"]


@dataclass(frozen=True, slots=True)
class At:
    """So many orders of a version at one of its steps. ``step`` is None where no step is left, or none is known."""

    step: str | None
    state: str
    orders: int


@dataclass(frozen=True, slots=True)
class Renamed:
    """A step that runs the same operation under another name."""

    was: str
    now: str


@dataclass(frozen=True, slots=True)
class AppliedVersion:
    """A version in the store, the orders that run by it to their end, and how its steps differ from the checked one.

    ``not_offered``: operations its orders may still need and no live agent offers. ``only_here``: those that the
    checked definition does not use any more. ``retirable``: no order lives or rests by it, and there is a newer one.
    """

    version: int
    orders: tuple[At, ...]
    removed: tuple[str, ...]
    added: tuple[str, ...]
    renamed: tuple[Renamed, ...]
    changed: tuple[str, ...]
    not_offered: tuple[str, ...]
    only_here: tuple[str, ...]
    retirable: bool


@dataclass(frozen=True, slots=True)
class Change:
    """One checked definition. ``standing``: whether its version is applied already, and as it is written here;
    ``not_offered``: its operations that no live agent offers.
    """

    workflow: str
    version: int
    standing: Standing
    differences: tuple[str, ...]
    not_offered: tuple[str, ...]
    applied: tuple[AppliedVersion, ...]


def change(checked: Workflow, around: Surroundings) -> Change:
    """What applying ``checked`` meets."""
    versions = [Workflow.from_json(row.definition) for row in around.applied if row.name == checked.name]
    same = next((each for each in versions if each.version == checked.version), None)
    standing: Standing = "new"
    if same is not None:
        standing = "unchanged" if same.digest() == checked.digest() else "changed"
    newest = max((each.version for each in [*versions, checked]), default=checked.version)
    return Change(
        checked.name,
        checked.version,
        standing,
        tuple(differences(same, checked)) if same is not None and standing == "changed" else (),
        tuple(name for name in _operations(checked.steps) if name not in around.offered),
        tuple(_applied(each, checked, around, newest) for each in versions),
    )


def _applied(version: Workflow, checked: Workflow, around: Surroundings, newest: int) -> AppliedVersion:
    here = [
        each for each in around.orders if (each.workflow, each.version) == (version.name, version.version)
    ]
    needed = _needed(version, here)
    gone, new, renamed = _steps(version, checked)
    return AppliedVersion(
        version.version,
        tuple(At(_name(version, each.step_no), each.state, each.orders) for each in here),
        gone,
        new,
        renamed,
        tuple(_changed(version, checked)),
        tuple(name for name in needed if name not in around.offered),
        tuple(name for name in needed if name not in _operations(checked.steps)),
        not here and version.version < newest,
    )


def _name(version: Workflow, step_no: int | None) -> str | None:
    known = step_no is not None and 1 <= step_no <= len(version.steps)
    return version.step(step_no).name if known and step_no is not None else None


def _needed(version: Workflow, here: Sequence[OrdersAt]) -> list[str]:
    """Operations that its orders may need: forward from where they are, and undos of what may have been done."""
    forward = [each.step_no or 1 for each in here if each.state != "compensating"]
    needed = _operations(version.steps[min(forward) - 1 :], undos=False) if forward else []
    back = [each.step_no or len(version.steps) for each in here]
    needed += _undos(version.steps if forward else version.steps[: max(back, default=0)])
    return list(dict.fromkeys(needed))


def _operations(steps: Sequence[Stage], *, undos: bool = True) -> list[str]:
    named = [f"{step.agent}/{step.operation}" for step in steps if not isinstance(step, Wait)]
    return list(dict.fromkeys([*named, *(_undos(steps) if undos else [])]))


def _call(step: Stage) -> tuple[str, str]:
    """What tells a step from others, whatever its name: what it runs, or waits for."""
    return ("", step.signal) if isinstance(step, Wait) else (step.agent, step.operation)


def _undos(steps: Sequence[Stage]) -> list[str]:
    return [f"{step.agent}/{step.undo}" for step in steps if step.undo is not None]


def _steps(before: Workflow, after: Workflow) -> tuple[tuple[str, ...], tuple[str, ...], tuple[Renamed, ...]]:
    """Steps that are gone, that are new, and that are the same under another name."""
    old, new = ({step.name: step for step in each.steps} for each in (before, after))
    gone = {name: step for name, step in old.items() if name not in new}
    come = {name: step for name, step in new.items() if name not in old}
    renamed = []
    for name, step in gone.items():
        call = _call(step)
        twin = next((each for each in come.values() if _call(each) == call), None)
        if twin is not None:
            renamed.append(Renamed(name, twin.name))
            del come[twin.name]
    left = [name for name in gone if name not in {each.was for each in renamed}]
    return tuple(left), tuple(come), tuple(renamed)


def _changed(before: Workflow, after: Workflow) -> Iterator[str]:
    """In words, what of the steps that are in both; and their order."""
    for line in differences(before, after):
        if not line.endswith((" is gone", " is new")):
            yield line


# In words


def lines(found: Change) -> Iterator[str]:
    """The change for people, as plain text."""
    yield f"{found.workflow} v{found.version}: {_STANDINGS[found.standing]}"
    for line in found.differences:
        yield f"  {line}"
    if found.not_offered:
        yield f"  no live agent offers {', '.join(found.not_offered)}: orders would be held there"
    for version in found.applied:
        yield from _version(found, version)


_STANDINGS: Final = {
    "new": "not applied yet",
    "unchanged": "applied, as it is here",
    "changed": "applied with another definition; give the changed one a new version",
}


def _version(found: Change, version: AppliedVersion) -> Iterator[str]:
    live = sum(each.orders for each in version.orders if each.state in LIVE)
    resting = sum(each.orders for each in version.orders if each.state not in LIVE)
    rests = f", {resting} at rest" if resting else ""
    yield f"  v{version.version}: {live} live order{'' if live == 1 else 's'}{rests}{_fate(version)}"
    for at in version.orders:
        where = f"at {at.step}" if at.step is not None else "with no step left"
        yield f"    {at.orders} {at.state} {where}{_meets(version, at)}"
    if version.orders and version.version != found.version:
        yield from (f"    v{found.version}: {line}" for line in _unlike(version))
    if version.only_here:
        yield f"    v{found.version} does not use {', '.join(version.only_here)}: keep an agent for these orders"
    if version.not_offered:
        yield f"    no live agent offers {', '.join(version.not_offered)}: these orders are held there"


def _unlike(version: AppliedVersion) -> Iterator[str]:
    yield from (f"step {step!r} is gone" for step in version.removed)
    yield from (f"step {step!r} is new" for step in version.added)
    yield from (f"step {each.was!r} is called {each.now!r}" for each in version.renamed)
    yield from version.changed


def _fate(version: AppliedVersion) -> str:
    if version.retirable:
        return "; it could be retired"
    return "; they keep this definition to their end" if version.orders else ""


def _meets(version: AppliedVersion, at: At) -> str:
    return ", a step that is gone from the checked version" if at.step in version.removed else ""
