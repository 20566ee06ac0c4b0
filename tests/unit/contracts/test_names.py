from __future__ import annotations

import pytest

from triumvir.contracts import names


@pytest.mark.parametrize("text", ["a", "order-fulfilment", "0", "-", "a" * 40])
def test_names_of_the_alphabet_are_names(text: str) -> None:
    assert names.is_name(text)


@pytest.mark.parametrize("text", ["", "A", "a_b", "a.b", "a b", "a" * 41, "é", "a\n", "a/b"])
def test_anything_else_is_no_name(text: str) -> None:
    assert not names.is_name(text)


def test_ids_of_the_longest_parts_fit_in_an_amqp_short_string() -> None:
    key = names.order_key("c" * 40, "o" * 100)
    request = names.request_id(key, "s" * 40, "undo", 2**31)
    longest = (names.reply_id(request, 2**31), names.status_id(key, "compensation_failed", 2**31))
    assert max(len(id_.encode()) for id_ in longest) <= 255


def test_an_attempt_gives_one_request_id_and_each_reply_its_own() -> None:
    key = names.order_key("shop-a", "1")
    assert names.request_id(key, "charge", "do", 2) == "shop-a/1/charge/do/2"
    assert names.reply_id("shop-a/1/charge/do/2") == "shop-a/1/charge/do/2/reply/1"
    assert names.reply_id("r", 1) != names.reply_id("r", 2)


def test_the_idempotency_key_is_the_same_for_every_attempt_and_another_for_the_undo() -> None:
    key = names.order_key("shop-a", "1")
    assert names.idempotency_key(key, "charge", "do") == "shop-a/1/charge/do/0"
    assert names.idempotency_key(key, "charge", "undo") == "shop-a/1/charge/undo/0"
