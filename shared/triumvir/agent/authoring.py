"""What an author of agents writes: an Agent, its operations and their undos.

::

    payments = Agent("payments")

    @payments.operation("charge-card", undo="refund")
    async def charge_card(ctx: Context, order: Charge) -> Receipt: ...

    @payments.undo("refund")
    async def refund(ctx: Context, order: Charge, receipt: Receipt | None) -> None: ...

The second argument is the order's payload, validated into its annotated type; the third one of an undo is what
the operation returned, or None if that is not known. Plain functions run in threads.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pydantic import PydanticUserError, TypeAdapter

from triumvir.contracts.names import NAME_PATTERN, Direction, is_name
from triumvir.errors import DefinitionError

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
_OPERATION_ARGUMENTS: Final = "(ctx, order)"
_UNDO_ARGUMENTS: Final = "(ctx, order, result)"


@dataclass(frozen=True, slots=True)
class Operation(Generic[T]):
    """One function of an agent, with the types it takes and returns."""

    agent: str
    name: str
    direction: Direction
    function: Callable[..., Any]
    argument: TypeAdapter[Any]
    earlier_result: TypeAdapter[Any] | None
    result: TypeAdapter[Any]
    is_async: bool

    @property
    def full_name(self) -> str:
        return f"{self.agent}/{self.name}"


class Agent:
    """A named set of operations, run by ``triumvir run agent module:attribute``.

    ``name``: 1 to 40 of ``a-z``, ``0-9`` and ``-``; steps name their agent by it, and so is its queue named. What is
    wrong as written raises :class:`~triumvir.errors.DefinitionError`, when it is written.
    """

    def __init__(self, name: str) -> None:
        if not is_name(name):
            raise DefinitionError(f"agent name is {name!r}; it must match {NAME_PATTERN}")
        self.name = name
        self._operations: dict[str, Operation[Any]] = {}
        self._promised_undos: dict[str, str] = {}

    def operation(self, name: str, *, undo: str | None = None) -> Callable[[F], F]:
        """Decorates a function ``(ctx, order)`` to offer it by ``name``; the function itself is left as it is.

        ``order`` is the order's payload, or what the step selects of it, validated into its annotated type; what is
        returned is validated as well and kept as JSON. An ``async`` function must not block; a plain one runs in a
        thread. It fails by raising :class:`~triumvir.errors.Transient` or :class:`~triumvir.errors.Permanent`; any
        other exception counts as the first.
        ``undo`` names what takes its effect back; register that with :meth:`undo`.
        """
        if undo is not None:
            self._promised_undos[undo] = name
        return self._register(name, "do")

    def undo(self, name: str) -> Callable[[F], F]:
        """Decorates a function ``(ctx, order, result)`` that undoes an operation.

        ``result`` is what the operation returned, or None if that is not known. It must accept that there is
        nothing to undo, and that it is called again.
        """
        return self._register(name, "undo")

    def find(self, name: str, direction: Direction) -> Operation[Any] | None:
        """The operation a request asks for, or None if this agent does not offer it."""
        found = self._operations.get(name)
        return found if found is not None and found.direction == direction else None

    def undo_of(self, name: str) -> str | None:
        """The name of the undo of an operation, or None if it was registered without one."""
        return next((undo for undo, operation in self._promised_undos.items() if operation == name), None)

    @property
    def offers(self) -> list[str]:
        """Everything this agent offers, as ``agent/operation``."""
        return sorted(operation.full_name for operation in self._operations.values())

    def check(self) -> None:
        """Raises DefinitionError unless there is something to run and every promised undo exists."""
        if not self._operations:
            raise DefinitionError(
                f"agent {self.name!r} offers nothing; decorate a function with @….operation(…)"
            )
        for undo, operation in self._promised_undos.items():
            if self.find(undo, "undo") is None:
                raise DefinitionError(
                    f"agent {self.name!r}: {operation!r} names the undo {undo!r}, which does not exist; "
                    f"decorate a function with @….undo({undo!r})"
                )

    def _register(self, name: str, direction: Direction) -> Callable[[F], F]:
        if not is_name(name):
            raise DefinitionError(f"agent {self.name!r}: operation {name!r} must match {NAME_PATTERN}")
        if name in self._operations:
            raise DefinitionError(f"agent {self.name!r}: {name!r} is registered twice; rename one")

        def decorate(function: F) -> F:
            self._operations[name] = _operation(self.name, name, direction, function)
            return function

        return decorate


def _operation(agent: str, name: str, direction: Direction, function: Callable[..., Any]) -> Operation[Any]:
    where = f"agent {agent!r}, {name!r}"
    arguments = list(inspect.signature(function).parameters.values())
    wanted, shape = (2, _OPERATION_ARGUMENTS) if direction == "do" else (3, _UNDO_ARGUMENTS)
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if len(arguments) != wanted or any(argument.kind not in positional for argument in arguments):
        raise DefinitionError(
            f"{where}: the function must take {shape}, it takes {len(arguments)} argument(s)"
        )
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise DefinitionError(f"{where}: its annotations cannot be resolved: {error}") from None
    return Operation(
        agent=agent,
        name=name,
        direction=direction,
        function=function,
        argument=_adapter(where, hints.get(arguments[1].name, Any)),
        earlier_result=_adapter(where, hints.get(arguments[2].name, Any)) if direction == "undo" else None,
        result=_adapter(where, hints.get("return", Any)),
        is_async=inspect.iscoroutinefunction(function),
    )


def _adapter(where: str, annotation: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(annotation)
    except PydanticUserError as error:
        raise DefinitionError(f"{where}: pydantic cannot handle {annotation!r}: {error.message}") from None
