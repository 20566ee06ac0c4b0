"""The address of a broker, and why it could not be reached."""

from __future__ import annotations

import ssl

import aiormq
from yarl import URL

from triumvir.errors import BrokerError, BrokerRefused


def plain(error: BaseException) -> str:
    """What happened, in one line."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, StopAsyncIteration):
        return "the connection was closed at once"
    return str(error) or repr(error)


def read_address(url: str) -> URL:
    """The URL of a broker. Raises BrokerError for what is none, or is none to trust."""
    try:
        address = URL(url)
    except ValueError:
        raise BrokerError(
            "the broker URL cannot be read: write amqp://user:password@host:port/vhost"
        ) from None
    if address.scheme not in ("amqp", "amqps") or not address.host:
        raise BrokerError("the broker URL must be amqp://user:password@host:port/vhost (or amqps://)")
    if "no_verify_ssl" in address.query:
        raise BrokerError(
            "the broker URL switches TLS verification off (no_verify_ssl): name a cafile instead"
        )
    return address


def why_not(error: BaseException, address: URL, timeout: float) -> BrokerError:
    """Why there is no connection to ``address``, in words, never with its password."""
    where = f"{address.host}:{address.port or (5671 if address.scheme == 'amqps' else 5672)}"
    vhost = address.path.removeprefix("/") or "/"
    if isinstance(error, TimeoutError):
        return BrokerError(f"no RabbitMQ answered at {where} within {timeout:g} s")
    if isinstance(
        error, aiormq.exceptions.AuthenticationError | aiormq.exceptions.ProbableAuthenticationError
    ):
        return BrokerRefused(f"RabbitMQ at {where} refused user {address.user!r}: wrong name or password")
    if isinstance(error, aiormq.exceptions.InvalidFrameError) and "Connection.OpenOk" in str(error):
        return BrokerRefused(
            f"RabbitMQ at {where} does not let user {address.user!r} into vhost {vhost!r}: "
            "no such vhost, no permission, or a limit is reached"
        )
    if isinstance(error, aiormq.exceptions.ConnectionClosed):
        return BrokerRefused(
            f"RabbitMQ at {where} refused user {address.user!r} on vhost {vhost!r}: {plain(error)}"
        )
    if isinstance(error.__cause__, ssl.SSLError) or isinstance(error, ssl.SSLError):
        return BrokerError(f"TLS with RabbitMQ at {where} failed: {plain(error)}")
    return BrokerError(f"RabbitMQ at {where} cannot be reached: {plain(error)}")
