"""The contract for programs in any language: AsyncAPI 3 and JSON Schema, made from the models and the topology."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Final

from triumvir.broker import (
    ALERTS,
    INTERNAL_EXCHANGE,
    ORDERS_EXCHANGE,
    REPLIES,
    agent_queue,
    status_queue,
)
from triumvir.contracts import messages
from triumvir.contracts.codec import types
from triumvir.contracts.messages import Message

_JSON: Final = "application/json"
_HEADERS: Final = {
    "type": "object",
    "properties": {
        "traceparent": {"type": "string", "description": "W3C trace context; passed on through every message"}
    },
}
_ANY: Final = "any-name"
_FROM_CLIENTS: Final = (
    messages.OrderSubmit,
    messages.OrderCancel,
    messages.OrderSignal,
    messages.OrderQuery,
)


def json_schemas() -> dict[str, dict[str, Any]]:
    """The JSON Schema (2020-12) of every body, by AMQP type."""
    return {type_: _schema(model) for type_, model in sorted(types().items())}


def asyncapi() -> dict[str, Any]:
    """The AsyncAPI 3 document: what clients, agents and operators send and receive, and by which queues."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Triumvir",
            "version": version("triumvir"),
            "description": (
                "Durable multi-step orders over RabbitMQ. Every message is persistent, its body one JSON object; "
                "the AMQP properties type, message_id, correlation_id and user_id are the envelope."
            ),
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": _JSON,
        "channels": _channels(),
        "operations": _operations(),
        "components": {
            "messages": {_name(model): _message(type_, model) for type_, model in sorted(types().items())},
            "schemas": {_name(model): _schema(model) for _, model in sorted(types().items())},
        },
    }


def _channels() -> dict[str, Any]:
    status = status_queue(_ANY).replace(_ANY, "{client}")
    agent = agent_queue(_ANY).replace(_ANY, "{agent}")
    client = {"client": {"description": "the client's name: its broker user"}}
    return {
        "orders": _channel(ORDERS_EXCHANGE, _FROM_CLIENTS, exchange=(ORDERS_EXCHANGE, "fanout")),
        "status": _channel(status, (messages.Status,), parameters=client),
        "agent": _channel(
            agent,
            (messages.StepExecute, messages.StepCompensate),
            parameters={"agent": {"description": "the agent's name"}},
        ),
        "replies": _channel(REPLIES, (messages.StepSucceeded, messages.StepFailed, messages.StepProgressed)),
        "alerts": _channel(ALERTS, (messages.Alert,)),
    }


def _channel(
    address: str,
    models: tuple[type[Message], ...],
    *,
    exchange: tuple[str, str] = (INTERNAL_EXCHANGE, "direct"),
    parameters: dict[str, Any] | None = None,
) -> dict[str, Any]:
    name, kind = exchange
    binding = {
        "amqp": {
            "is": "routingKey",
            "exchange": {"name": name, "type": kind, "durable": True, "autoDelete": False},
            "bindingVersion": "0.3.0",
        }
    }
    channel: dict[str, Any] = {
        "address": address,
        "messages": {_name(model): _ref("messages", model) for model in models},
        "bindings": binding,
    }
    return channel | ({"parameters": parameters} if parameters else {})


def _operations() -> dict[str, Any]:
    return {
        "submit": _operation("send", "orders", messages.OrderSubmit, "run this order"),
        "cancel": _operation("send", "orders", messages.OrderCancel, "stop the order, or undo what was done"),
        "signal": _operation("send", "orders", messages.OrderSignal, "what a step of the order waits for"),
        "query": _operation("send", "orders", messages.OrderQuery, "send statuses again"),
        "follow": _operation("receive", "status", messages.Status, "what became of this client's orders"),
        "watch": _operation("receive", "alerts", messages.Alert, "what needs a human"),
    }


def _operation(action: str, channel: str, model: type[Message], summary: str) -> dict[str, Any]:
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel}"},
        "summary": summary,
        "messages": [{"$ref": f"#/channels/{channel}/messages/{_name(model)}"}],
    }


def _message(type_: str, model: type[Message]) -> dict[str, Any]:
    return {
        "name": type_,
        "title": _name(model),
        "summary": (model.__doc__ or "").strip().splitlines()[0],
        "contentType": _JSON,
        "headers": _HEADERS,
        "payload": _ref("schemas", model),
        "bindings": {"amqp": {"messageType": type_, "bindingVersion": "0.3.0"}},
    }


def _schema(model: type[Message]) -> dict[str, Any]:
    """Self-contained: definitions it needs are inside it."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}


def _name(model: type[Message]) -> str:
    return model.__name__


def _ref(kind: str, model: type[Message]) -> dict[str, str]:
    return {"$ref": f"#/components/{kind}/{_name(model)}"}
