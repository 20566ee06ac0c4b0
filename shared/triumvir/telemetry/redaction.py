"""Keeps secrets out of what is written: URL passwords, what is named like a secret, and the known ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

REDACTED: Final = "[redacted]"

_NAMED: Final = (
    r"passw(?:or)?d|passwd|pwd|passphrase|secret|token|authorization|credential|api[_-]?key|private[_-]?key"
)
_SECRET_KEY: Final = re.compile(rf"{_NAMED}|(?:^|_)dsn$|cookie", re.IGNORECASE)
_URL_PASSWORD: Final = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s:@/]*):\S*@", re.IGNORECASE)
_ASSIGNMENT: Final = re.compile(
    rf"((?:{_NAMED})[\"']?\s*[=:]\s*(?:b?[\"'])?(?:(?:bearer|basic|plain)\s+)?)[^\s\"',;&)}}\]]+",
    re.IGNORECASE,
)
_SHORTEST_KNOWN: Final = 4
_DEEPEST: Final = 6


class Redactor:
    """Removes secrets from text and nested values; ``known`` ones wherever they turn up."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        words = sorted({word for word in known if len(word) >= _SHORTEST_KNOWN}, key=len, reverse=True)
        self._known = re.compile("|".join(re.escape(word) for word in words)) if words else None

    def text(self, text: str) -> str:
        """``text`` without any secret."""
        if self._known is not None:
            text = self._known.sub(REDACTED, text)
        if "://" in text:
            text = _URL_PASSWORD.sub(rf"\1:{REDACTED}@", text)
        if "=" in text or ":" in text:
            text = _ASSIGNMENT.sub(rf"\1{REDACTED}", text)
        return text

    def value(self, value: Any, depth: int = 0) -> Any:
        """``value`` without any secret; what is no plain value becomes its redacted text."""
        if isinstance(value, bool | int | float) or value is None:
            return value
        if isinstance(value, str):
            return self.text(value)
        if depth < _DEEPEST and isinstance(value, Mapping):
            return {str(key): self.entry(str(key), inner, depth + 1) for key, inner in value.items()}
        if depth < _DEEPEST and isinstance(value, list | tuple | set | frozenset):
            return [self.value(inner, depth + 1) for inner in value]
        return self.text(_describe(value))

    def entry(self, key: str, value: Any, depth: int = 0) -> Any:
        """``value`` as it may be shown under ``key``."""
        if value is not None and _is_secret(key):
            return REDACTED
        return self.value(value, depth)


@lru_cache(maxsize=4096)
def _is_secret(key: str) -> bool:
    return _SECRET_KEY.search(key) is not None


def _describe(value: object) -> str:
    try:
        return str(value) if isinstance(value, BaseException) else repr(value)
    except Exception as error:  # noqa: BLE001 - logging must survive any object's own text
        return f"<{type(value).__name__}, whose text raised {type(error).__name__}>"


def passwords_in(url: str) -> set[str]:
    """The password in ``url``, in every spelling; none where it equals the user (``guest:guest``)."""
    found = set(_userinfo_passwords(url))
    query = url.partition("?")[2]
    for key, values in parse_qs(query).items():
        if _is_secret(key):
            found.update(values)
    return {spelling for word in found for spelling in (word, unquote(word), quote(unquote(word), safe=""))}


def _userinfo_passwords(url: str) -> Iterable[str]:
    """Two readings, since a password written without percent-encoding may hold ``@:/`` itself."""
    rest = url.partition("://")[2]
    greedy = rest.rpartition("@")[0]
    try:
        strict = urlsplit(url).netloc.rpartition("@")[0]
    except ValueError:
        strict = ""
    for userinfo in (greedy, strict):
        user, _, password = userinfo.partition(":")
        if password and password != user:
            yield password
