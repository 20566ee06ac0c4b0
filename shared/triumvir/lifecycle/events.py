"""What can happen to an order. Facts from messages, timers and scans; no I/O in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from triumvir.contracts.messages import AgentMessage


@dataclass(frozen=True, slots=True)
class Claimed:
    """A scheduler holds the row of a claimable order and may dispatch its next request."""


@dataclass(frozen=True, slots=True)
class Replied:
    """An agent answered a request, or said how far it is."""

    reply: AgentMessage


@dataclass(frozen=True, slots=True)
class RetryDue:
    """The time at which an unanswered request is sent again has come."""


@dataclass(frozen=True, slots=True)
class Revived:
    """Whoever sent the order's request is gone: its lease lapsed; or it was never sent, as far as ``why`` knows."""

    why: str = "who sent the request is gone"


@dataclass(frozen=True, slots=True)
class Shown:
    """What the agents' inbox shows of one undo that nobody can begin any more: as Expired has it."""

    step_no: int
    begun: bool
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Expired:
    """The deadline passed. ``begun``: the agent's inbox shows a call under this fence; ``calls`` made so far.
    ``undos``: the same for each undo, where several were under way; it goes before the other two. ``recorded``: what
    came of a step stands in the inbox.
    """

    begun: bool
    calls: int = 0
    undos: tuple[Shown, ...] = ()
    recorded: bool = False

    def calls_of(self, step_no: int) -> int:
        """The calls that were made for the request of a step."""
        return next((shown.calls for shown in self.undos if shown.step_no == step_no), self.calls)

    def has_begun(self, step_no: int) -> bool:
        """Whether the request of a step was begun."""
        return next((shown.begun for shown in self.undos if shown.step_no == step_no), self.begun)


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """The client, or an operator (``by`` then names them), wants the order stopped, or undone."""

    reason: str | None = None
    by: str = "the client"


@dataclass(frozen=True, slots=True)
class Signalled:
    """A signal of this name has come, with its data as JSON text; from the client, or an operator (``by``)."""

    name: str
    data: str = "null"
    by: str = "the client"
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Broken:
    """Deciding or writing this order failed: it is set aside so that its neighbours go on."""

    problem: str


Action = Literal["retry", "skip", "compensate", "resume", "close", "pause", "unpause"]


@dataclass(frozen=True, slots=True)
class OperatorAsked:
    """An operator (``by``) wants an order moved. ``fence`` is the order's as the operator saw it, None for any;
    ``result``, for a skip, what was done by hand returned, as JSON text; ``under_way``, whether an agent may still
    be calling for what is to be skipped.
    """

    action: Action
    by: str
    reason: str | None = None
    fence: int | None = None
    result: str | None = None
    under_way: bool = False


AgedKind = Literal["unclaimed", "held"]


@dataclass(frozen=True, slots=True)
class Aged:
    """A supervisor saw the order wait for so many ``seconds``: due and claimed by nobody, or held."""

    kind: AgedKind
    seconds: int


Event = (
    Claimed
    | Replied
    | RetryDue
    | Revived
    | Expired
    | CancelRequested
    | Signalled
    | OperatorAsked
    | Broken
    | Aged
)
