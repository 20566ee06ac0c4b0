"""What makes two submissions the same order: workflow, version as submitted, payload. Nothing else does."""

from __future__ import annotations

import hashlib
from typing import Any

import rfc8785

from triumvir.contracts.messages import OrderSubmit


def identity_of(message: OrderSubmit) -> dict[str, Any]:
    """The members that are compared; ``version`` is None where the submission left it out."""
    return {"workflow": message.workflow, "version": message.version, "payload": message.payload.value}


def digest(identity: dict[str, Any]) -> bytes:
    """SHA-256 over the RFC 8785 form of an identity: 32 bytes."""
    return hashlib.sha256(rfc8785.dumps(identity)).digest()


def as_submitted(workflow: str, pinned: int, payload: Any, known: bytes) -> dict[str, Any]:
    """The identity of an accepted order. Its record has the version it was pinned to; whether the client named
    that one or none is told by the digest, which is ``known``.
    """
    without = {"workflow": workflow, "version": None, "payload": payload}
    return without if digest(without) == known else {**without, "version": pinned}
