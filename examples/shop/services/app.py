"""A flaky HTTP service: takes a call, notes it, lets chance have its way, and answers what ``decide`` says."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError

from shop.services.chance import Fault, conduct
from shop.services.ledger import Direction, Entry, Ledger

RETRY_AFTER_SECONDS = 1
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Body(BaseModel):
    """What every call says: which order it is for."""

    order: str

    def digest(self) -> str:
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


B = TypeVar("B", bound=Body)


@dataclass(frozen=True)
class Call(Generic[B]):
    """A call as it arrived: the ``number``-th (from 1) under its idempotency ``key``."""

    service: str
    direction: Direction
    key: str
    number: int
    body: B

    def entry(self, kind: str, **details: Any) -> Entry:
        """A line for the ledger about this call, dated now."""
        return Entry.model_validate(
            {
                "kind": kind,
                "service": self.service,
                "order": self.body.order,
                "direction": self.direction,
                "key": self.key,
                "call": self.number,
                "at": time.time(),
                **details,
            }
        )


@dataclass(frozen=True)
class Answer:
    """``status`` below 400: ``content`` is the JSON answered; otherwise ``content["refused"]`` says why, as text."""

    status: int
    content: dict[str, Any]


@dataclass(frozen=True)
class Endpoint(Generic[B]):
    """A path to POST to. ``decide`` gives the answer, and does what it answers, without waiting for anything."""

    path: str
    direction: Direction
    body: type[B]
    decide: Callable[[Call[B]], Answer]


def build(service: str, ledger: Ledger, seed: int, endpoints: list[Endpoint[Any]]) -> web.Application:
    """The application of ``service``: its endpoints, and GET /ledger, /calls and /health."""
    app = web.Application()
    for endpoint in endpoints:
        app.router.add_post(endpoint.path, _handler(service, ledger, seed, endpoint))
    app.router.add_get("/ledger", _entries(ledger, "effect"))
    app.router.add_get("/calls", _entries(ledger, "call"))
    app.router.add_get("/health", _health(service, seed))
    return app


def _handler(service: str, ledger: Ledger, seed: int, endpoint: Endpoint[B]) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        key = request.headers.get("Idempotency-Key", "")
        if not key:
            return web.Response(
                status=400, text="Idempotency-Key: the header is missing; send one per effect wanted"
            )
        try:
            body = endpoint.body.model_validate_json(await request.read())
        except ValidationError as error:
            return web.Response(status=400, text=str(error))
        call = Call(service, endpoint.direction, key, ledger.calls_of(key) + 1, body)
        ledger.append(call.entry("call", body=body.digest()))
        return await _answer(request, call, endpoint, seed)

    return handle


async def _answer(request: web.Request, call: Call[B], endpoint: Endpoint[B], seed: int) -> web.Response:
    """Decides between the faults that come before and those that come after."""
    how = conduct(seed, call.key, call.number, undo=call.direction == "undo")
    await asyncio.sleep(how.delay)
    match how.fault:
        case Fault.BUSY:
            headers = {"Retry-After": str(RETRY_AFTER_SECONDS)}
            return web.Response(status=429, headers=headers, text="too many calls")
        case Fault.ERROR_BEFORE:
            return web.Response(status=500, text="out of order")
        case Fault.DROP_BEFORE:
            return _cut(request)
    answer = endpoint.decide(call)
    match how.fault:
        case Fault.ERROR_AFTER:
            return web.Response(status=500, text="out of order")
        case Fault.DROP_AFTER:
            return _cut(request)
    if answer.status >= 400:
        return web.Response(status=answer.status, text=answer.content["refused"])
    return web.json_response(answer.content, status=answer.status)


def _cut(request: web.Request) -> web.Response:
    """Cuts the connection; what is returned goes nowhere."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


def _entries(ledger: Ledger, kind: str) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        return web.json_response([entry.model_dump() for entry in ledger.entries if entry.kind == kind])

    return handle


def _health(service: str, seed: int) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        return web.json_response({"service": service, "seed": seed})

    return handle
