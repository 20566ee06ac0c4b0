"""The messages that a client publishes, and the spans of publishing them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from triumvir.broker import ORDERS_EXCHANGE, OutMessage
from triumvir.client.submission import checked, json_text
from triumvir.contracts.messages import Message, OrderCancel, OrderQuery, OrderSignal, OrderSubmit
from triumvir.contracts.names import command_id, order_key, submission_id
from triumvir.telemetry import tracing

_M = TypeVar("_M", bound=Message)


@dataclass(frozen=True, slots=True)
class Letter:
    """A message with the spans that are open while it is on its way."""

    message: OutMessage
    spans: tuple[tracing.Span, ...] = ()

    def sent(self, fault: Exception | None) -> None:
        """It was confirmed, or could not be sent because of ``fault``."""
        for span in self.spans:
            if fault is not None:
                span.fail(fault)
            span.end()


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sends: the client's name, which is its broker user, and its status queue."""

    client: str
    status_queue: str

    def submission(self, order: OrderSubmit, body: bytes) -> Letter:
        """The submission of an order; the order's trace begins here."""
        key, message_id = order_key(self.client, order.order_id), submission_id(self.client, order.order_id)
        root = tracing.span(
            "submit order", None, attributes={"triumvir.order": key, "triumvir.workflow": order.workflow}
        )
        sending = tracing.send(ORDERS_EXCHANGE, "", message_id, key, root.traceparent)
        headers = {tracing.TRACEPARENT_HEADER: sending.traceparent}
        return Letter(self._message(OrderSubmit.TYPE, key, message_id, body, headers), (sending, root))

    def cancel(self, order_id: str, reason: str | None) -> Letter:
        """A cancel; a new one each time, though the same one when it is sent again."""
        return self._command(OrderCancel, "cancel", order_id, {"reason": reason})

    def signal(self, order_id: str, name: str, data: Any) -> Letter:
        """A signal; a new one each time, though the same one when it is sent again."""
        return self._command(
            OrderSignal, "signal", order_id, {"name": name, "data": orjson.Fragment(json_text(data, "data"))}
        )

    def query(self, order_id: str, from_sequence: int) -> Letter:
        """A question for every status from ``from_sequence`` on."""
        return self._command(OrderQuery, "query", order_id, {"from_sequence": from_sequence})

    def _command(self, model: type[_M], kind: str, order_id: str, members: dict[str, Any]) -> Letter:
        _, body = checked(model, {"order_id": order_id, **members})
        key = order_key(self.client, order_id)
        return Letter(self._message(model.TYPE, key, command_id(key, kind, uuid.uuid4().hex), body, {}))

    def _message(
        self, type_: str, key: str, message_id: str, body: bytes, headers: dict[str, str]
    ) -> OutMessage:
        return OutMessage(
            exchange=ORDERS_EXCHANGE,
            routing_key="",
            message_id=message_id,
            type=type_,
            correlation_id=key,
            body=body,
            headers=headers,
            reply_to=self.status_queue,
            user_id=self.client,
        )
