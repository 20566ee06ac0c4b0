"""One call to a remote service, and what its outcome means to an order.

| outcome | raised | effect |
| --- | --- | --- |
| 2xx | nothing | the answer is returned |
| 4xx: a refusal | Permanent | none: the service says that it did nothing |
| 429, and 503 with Retry-After: too busy | Transient, not before Retry-After | none |
| no connection could be made | Transient | none: nothing was sent |
| other 5xx, time out, connection lost | Transient | unknown: it may have happened before the answer was lost |
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any, Literal

import aiohttp

from triumvir.agent import Permanent, Transient

Effect = Literal["none", "unknown"]


async def call(
    url: str,
    body: dict[str, Any],
    *,
    key: str,
    patience: timedelta,
    time_left: timedelta,
    in_doubt: Effect = "unknown",
) -> dict[str, Any]:
    """POST ``body`` under the idempotency ``key``; the JSON object answered.

    Waits for the shorter of ``patience`` and ``time_left``. ``in_doubt`` is what an outcome in doubt says of the
    effect: a call that changes nothing at the other side (a quote) says ``none``.
    """
    limit = min(patience, time_left).total_seconds()
    if limit <= 0:
        raise Transient(f"no time left to call {url}", effect="none")
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=limit)) as session,
            session.post(url, json=body, headers={"Idempotency-Key": key}) as response,
        ):
            if response.status >= 400:
                raise failure(
                    response.status, response.headers.get("Retry-After"), await response.text(), in_doubt
                )
            answer: dict[str, Any] = await response.json()
            return answer
    except aiohttp.ClientConnectorError as error:
        raise Transient(f"cannot connect: {error}", effect="none") from error
    except TimeoutError as error:
        raise Transient(f"{url} did not answer within {limit:.1f} s", effect=in_doubt) from error
    except (aiohttp.ClientError, ValueError) as error:
        raise Transient(f"{url}: {type(error).__name__}: {error}", effect=in_doubt) from error


def failure(status: int, retry_after: str | None, words: str, in_doubt: Effect) -> Transient | Permanent:
    """What an answer of 400 or above means; the table at the top of this module."""
    if status == 429 or (status == 503 and retry_after is not None):
        return Transient(f"{status}: {words}", effect="none", retry_after=_seconds(retry_after))
    if status < 500:
        return Permanent(words, effect="none")
    return Transient(f"{status}: {words}", effect=in_doubt)


def _seconds(text: str | None) -> timedelta | None:
    """A Retry-After in seconds; None for none, and for a date, which the shop's services never send."""
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return timedelta(seconds=seconds) if math.isfinite(seconds) and seconds >= 0 else None
