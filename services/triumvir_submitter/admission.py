"""Reading what a client sent: identity first, then size, shape and meaning. Nothing is written here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from triumvir.broker import Delivery, client_of_status_queue, status_queue
from triumvir.contracts import identity as identities
from triumvir.contracts.codec import decode_strictly
from triumvir.contracts.json_text import JsonText
from triumvir.contracts.messages import FromClient, Message, OrderCancel, OrderQuery, OrderSignal, OrderSubmit
from triumvir.contracts.names import is_name
from triumvir.errors import ContractError
from triumvir.settings import Settings
from triumvir.telemetry import tracing

_ENVELOPE_BYTES = 4096
"""Room for what surrounds the payload of a submission."""

_M = TypeVar("_M", bound=Message)
_FROM_CLIENTS: Mapping[str, type[FromClient]] = {
    model.TYPE: model for model in (OrderSubmit, OrderCancel, OrderSignal, OrderQuery)
}


@dataclass(frozen=True, slots=True)
class Received:
    """A message of a client that may be acted on."""

    delivery: Delivery
    client: str
    reply_queue: str
    message: FromClient
    trace: str | None

    @property
    def key(self) -> tuple[str, str]:
        return self.client, self.message.order_id


def identity(delivery: Delivery) -> str:
    """The client, as the broker validated it. ContractError (``unauthorised``) if there is none."""
    if delivery.user_id is None:
        raise ContractError(
            "unauthorised", "user_id", "is not set", "publish with user_id = your broker user"
        )
    if not is_name(delivery.user_id):
        raise ContractError(
            "unauthorised",
            "user_id",
            f"{delivery.user_id[:80]!r} is no client",
            "use a user made by clients add",
        )
    return delivery.user_id


def read(delivery: Delivery, client: str, settings: Settings) -> Received:
    """The message in a delivery. ContractError names what is wrong with it, and the fix."""
    model = _FROM_CLIENTS.get(delivery.type or "")
    if model is None:
        known = ", ".join(_FROM_CLIENTS)
        raise ContractError(
            "unknown_type", "type", f"{delivery.type!r} is not taken here", f"send one of {known}"
        )
    if delivery.content_type not in (None, "application/json"):
        problem = f"{delivery.content_type[:80]!r} is not taken"
        raise ContractError("invalid", "content_type", problem, "send application/json")
    reply_queue = _reply_queue(delivery, client)
    message = decode_strictly(
        model,
        delivery.body,
        max_bytes=settings.max_payload_bytes + _ENVELOPE_BYTES,
        max_depth=settings.max_json_depth,
    )
    if isinstance(message, OrderSubmit):
        _check_size("payload", message.payload, settings)
        if not isinstance(message.payload.value, dict):
            raise ContractError("invalid", "payload", "is not an object", "send a JSON object")
    elif isinstance(message, OrderSignal):
        _check_size("data", message.data, settings)
    return Received(delivery, client, reply_queue, message, tracing.adopt(delivery.headers))


def _reply_queue(delivery: Delivery, client: str) -> str:
    if delivery.reply_to is None:
        return status_queue(client)
    if client_of_status_queue(delivery.reply_to) != client:
        problem = f"{delivery.reply_to[:80]!r} is not a status queue of {client!r}"
        raise ContractError(
            "unauthorised", "reply_to", problem, f"name {status_queue(client)!r}, or leave it out"
        )
    return delivery.reply_to


def _check_size(member: str, value: JsonText, settings: Settings) -> None:
    size = len(value.text.encode())
    if size > settings.max_payload_bytes:
        problem = f"{size} bytes, {settings.max_payload_bytes} allowed"
        raise ContractError("too_large", member, problem, "send a reference instead")


def digest(message: OrderSubmit) -> bytes:
    """SHA-256 over the RFC 8785 form of workflow, version as submitted, and payload: 32 bytes."""
    return identities.digest(identities.identity_of(message))
