"""Keys and ids that travel on the wire. Pure string functions."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import StringConstraints

NAME_PATTERN: Final = r"^[a-z0-9-]{1,40}$"
ORDER_ID_PATTERN: Final = r"^[!-~]{1,100}$"
_NAME: Final = re.compile(NAME_PATTERN)

Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
"""Client, workflow, step, agent, operation: 1 to 40 of ``a-z``, ``0-9`` and ``-``."""

OrderId = Annotated[str, StringConstraints(pattern=ORDER_ID_PATTERN)]
"""1 to 100 printable ASCII characters without blanks."""

Direction = Literal["do", "undo"]


def is_name(text: str) -> bool:
    """Whether ``text`` may name a client, workflow, step, agent or operation."""
    return _NAME.fullmatch(text) is not None


def order_key(client: str, order_id: str) -> str:
    """The order on the wire: ``client/order_id``."""
    return f"{client}/{order_id}"


def submission_id(client: str, order_id: str) -> str:
    """The message id of a submission; the same for a resubmission."""
    return f"{client}/{order_id}/submit"


def command_id(key: str, kind: str, unique: str) -> str:
    """The message id of a cancel, a signal or a query: as many as are asked for, the same when one is sent again."""
    return f"{key}/{kind}/{unique}"


def is_command_id(key: str, message_id: str) -> bool:
    """Whether it is the message id of a cancel, a signal or a query of this order."""
    return message_id.startswith((f"{key}/cancel/", f"{key}/signal/", f"{key}/query/"))


def order_of_submission(client: str, message_id: str) -> str | None:
    """The order id in a submission's message id; None if it is not one of this client."""
    prefix, suffix = f"{client}/", "/submit"
    if not message_id.startswith(prefix) or not message_id.endswith(suffix):
        return None
    return message_id[len(prefix) : -len(suffix)]


def request_id(key: str, step: str, direction: Direction, attempt: int) -> str:
    """The message id of a request: the same on every re-send of an attempt."""
    return f"{key}/{step}/{direction}/{attempt}"


def reply_id(request_message_id: str, count: int = 1) -> str:
    """The message id of the ``count``-th reply to a request."""
    return f"{request_message_id}/reply/{count}"


def idempotency_key(key: str, step: str, direction: Direction, generation: int = 0) -> str:
    """What the remote service dedupes by: the same across attempts and re-sends."""
    return f"{key}/{step}/{direction}/{generation}"


def status_id(key: str, status: str, sequence: int) -> str:
    """The message id of a status."""
    return f"{key}/{status}/{sequence}"


def alert_id(kind: str, subject: str) -> str:
    """The message id of an alert: one per kind and subject, however often it is raised."""
    return f"{kind}/{subject}"
