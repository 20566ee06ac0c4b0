"""Every exception of the project.

::

    TriumvirError
    ├── ConfigurationError         a setting, a file or a command line that cannot work; names the fix
    │   └── DefinitionError        a workflow or agent that is wrong as written
    │       └── DefinitionFileError  all that is wrong in one file of definitions, each with its line
    ├── ContractError              a message that cannot be accepted; names field, problem and fix
    ├── BrokerError                RabbitMQ could not be reached, or refused what was asked
    │   ├── BrokerRefused          RabbitMQ answered, and refused the user, the password or the vhost
    │   └── TopologyMismatch       a queue or exchange exists with other arguments
    ├── StoreError                 Postgres could not be reached, or its schema is not the one needed
    │   ├── StoreRefused           Postgres answered, and refused the connection
    │   └── DocumentsAway          the database of the order documents could not be reached, where it is another
    ├── ExpressionError            a selection or condition that cannot be worked out for an order's data
    ├── Draining                   this process is stopping and takes nothing new
    ├── OperationError             raised by an author's operation
    │   ├── Transient              may work when called again
    │   └── Permanent              will not work, however often it is called
    └── OrderError                 how an order ended, told to its client
        ├── OrderRejected          never accepted
        ├── OrderHalted            rests in ``error``; an operator decides; may be awaited again
        ├── OrderCompensated       undone as a whole
        ├── OrderCompensationFailed  an undo failed; an operator decides; may be awaited again
        ├── OrderCancelled         cancelled before anything was begun
        ├── OrderClosed            closed by an operator
        └── UnknownOrder           no such order of this client
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta


class TriumvirError(Exception):
    """Root of all exceptions raised by Triumvir."""


class ConfigurationError(TriumvirError):
    """A setting, file or command line that cannot work. The text names what to change."""


class DefinitionError(ConfigurationError):
    """A workflow or an agent that is wrong as written. The text names the fault and the fix.

    ``problem`` is the text without the name of the thing (``where``) that has it; ``path`` leads from there to
    the field, by names and by indexes from 0; ``offset`` is the place within the text of an expression, from 0.
    """

    def __init__(
        self,
        problem: str,
        *,
        where: str | None = None,
        path: tuple[str | int, ...] = (),
        offset: int | None = None,
    ) -> None:
        super().__init__(f"{where}: {problem}" if where else problem)
        self.problem = problem
        self.path = path
        self.offset = offset


class DefinitionFileError(DefinitionError):
    """What is wrong in a file of definitions. ``faults``: one line each, ``file:line:column: path: …; fix``."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


class ExpressionError(TriumvirError):
    """A selection or condition that cannot be worked out for the data of an order. The text says why."""


class ContractError(TriumvirError):
    """A message that cannot be accepted.

    ``reason`` is a short stable word (``invalid``, ``too_large``, ...), ``field`` a dotted path,
    ``problem`` what is wrong with it, ``fix`` what to send instead.
    """

    def __init__(self, reason: str, field: str, problem: str, fix: str) -> None:
        super().__init__(f"{reason}: {field}: {problem}; {fix}")
        self.reason = reason
        self.field = field
        self.problem = problem
        self.fix = fix


class BrokerError(TriumvirError):
    """RabbitMQ could not be reached, or refused what was asked of it."""


class BrokerRefused(BrokerError):
    """RabbitMQ answered, and refused the user, the password or the vhost: no use in waiting for it."""


class TopologyMismatch(BrokerError):
    """A queue or exchange exists with other arguments than this release needs."""


class StoreError(TriumvirError):
    """Postgres could not be reached, or its schema is not the one this release needs."""


class StoreRefused(StoreError):
    """Postgres answered, and refused the connection: user, password, database, or no room. The text says which."""


class DocumentsAway(StoreError):
    """The database of the order documents could not be reached, where it is another than that of the states."""


class Draining(TriumvirError):
    """This process is stopping and takes nothing new. What was refused is done by another process."""


class OperationError(TriumvirError):
    """Raised by an author's operation to say how it failed.

    ``effect`` says what is known of the remote side: ``none`` (certainly nothing happened) or
    ``unknown`` (something may have happened, so the step is undone when the order is).
    """

    default_effect = "unknown"

    def __init__(self, message: str = "", *, effect: str | None = None) -> None:
        super().__init__(message)
        if effect not in (None, "none", "unknown"):
            raise ConfigurationError(f"effect must be 'none' or 'unknown', not {effect!r}")
        self.effect = effect or self.default_effect


class Transient(OperationError):
    """The call failed but may work when repeated. ``retry_after`` is the least wait the remote side asked for.

    It is called again in the same request while allowance and time last, then by the next attempt.
    """

    def __init__(
        self, message: str = "", *, effect: str | None = None, retry_after: timedelta | None = None
    ) -> None:
        super().__init__(message, effect=effect)
        self.retry_after = retry_after


class Permanent(OperationError):
    """The call will not work, however often it is repeated. By default it asserts that nothing happened."""

    default_effect = "none"


class OrderError(TriumvirError):
    """How an order ended. ``status`` is the last :class:`triumvir.Status` received, or None."""

    def __init__(self, message: str, status: object | None = None) -> None:
        super().__init__(message)
        self.status = status


class OrderRejected(OrderError):
    """The submission was refused; nothing of it was run.

    ``reason`` is a short stable word (``invalid``, ``conflict``, ...), ``detail`` names the field and the fix.
    """

    def __init__(
        self, message: str, status: object | None = None, *, reason: str = "", detail: str = ""
    ) -> None:
        super().__init__(message, status)
        self.reason = reason
        self.detail = detail


class OrderHalted(OrderError):
    """The order rests in ``error`` until an operator decides. ``result()`` may be awaited again."""


class OrderCompensated(OrderError):
    """The order could not complete and was undone as a whole."""


class OrderCompensationFailed(OrderError):
    """An undo failed for good; an operator decides. ``result()`` may be awaited again."""


class OrderCancelled(OrderError):
    """The order was cancelled before anything was begun."""


class OrderClosed(OrderError):
    """An operator closed the order."""


class UnknownOrder(OrderError):
    """This client has no order of that id."""
