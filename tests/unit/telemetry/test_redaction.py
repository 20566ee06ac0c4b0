"""F71: no secret at any level on any failure. The redactor alone."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from triumvir.telemetry.redaction import REDACTED, Redactor, passwords_in

CANARY = "can@ry:/%41rd"


@pytest.mark.parametrize(
    "text",
    [
        f"amqp://shop:{CANARY}@broker:5672/",
        f"amqp://shop:{quote(CANARY, safe='')}@broker:5672/",
        f"cannot connect to 'postgresql://u:{CANARY}@h1:5432,h2:5432/db?sslmode=require': refused",
        f"postgresql://h/db?user=u&password={quote(CANARY, safe='')}",
        f"host=h user=u password={CANARY} dbname=d",
        f"Authorization: Bearer {CANARY}",
        f"{{'password': '{CANARY}'}}",
        f'{{"api_key": "{CANARY}"}}',
    ],
)
def test_a_password_in_a_text_does_not_come_out(text: str) -> None:
    shown = Redactor().text(text)
    assert CANARY not in shown
    assert quote(CANARY, safe="") not in shown
    assert REDACTED in shown


def test_what_is_no_secret_stays_readable() -> None:
    text = "order shop-a/42 at amqp://broker:5672/ failed: no route to http://payments:8080/charge?id=7"
    assert Redactor(["p4ssw0rd"]).text(text) == text


def test_a_known_password_goes_wherever_it_turns_up() -> None:
    redactor = Redactor(passwords_in(f"amqp://shop:{quote(CANARY, safe='')}@broker/"))
    assert CANARY not in redactor.text(f"server said: bad secret word {CANARY}!")
    assert quote(CANARY, safe="") not in redactor.text(f"server said: {quote(CANARY, safe='')}!")


@pytest.mark.parametrize("url", [f"amqp://shop:{CANARY}@broker/v", f"postgresql://h/d?password={CANARY}"])
def test_a_password_that_was_not_encoded_is_known_all_the_same(url: str) -> None:
    assert CANARY in passwords_in(url) or "can@ry:/Ard" in passwords_in(url)


@pytest.mark.parametrize("url", ["amqp://guest:guest@localhost/", "postgresql://localhost/triumvir", ""])
def test_a_url_without_a_real_password_makes_no_word_unspeakable(url: str) -> None:
    assert passwords_in(url) == set()


@pytest.mark.parametrize(
    "key", ["password", "db_password", "apiKey", "AUTHORIZATION", "token", "dsn", "client_secret"]
)
def test_a_key_named_like_a_secret_hides_its_value(key: str) -> None:
    assert Redactor().value({"outer": {key: CANARY}}) == {"outer": {key: REDACTED}}


def test_nested_values_keep_their_shape() -> None:
    value = {"n": 1, "ok": True, "none": None, "items": ["amqp://u:pw@h/", 2.5], 3: ("a", {"pwd": "x"})}
    assert Redactor().value(value) == {
        "n": 1,
        "ok": True,
        "none": None,
        "items": [f"amqp://u:{REDACTED}@h/", 2.5],
        "3": ["a", {"pwd": REDACTED}],
    }


def test_an_object_is_shown_by_its_redacted_text() -> None:
    class Pool:
        def __repr__(self) -> str:
            return f"<Pool postgresql://u:{CANARY}@h/db>"

    assert Redactor().value([Pool()]) == [f"<Pool postgresql://u:{REDACTED}@h/db>"]


def test_an_object_whose_text_raises_is_named() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    assert Redactor().value(Broken()) == "<Broken, whose text raised RuntimeError>"


def test_a_value_that_contains_itself_ends() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert "..." in str(Redactor().value(loop))
