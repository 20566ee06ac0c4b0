from __future__ import annotations

from pathlib import Path
from typing import Any

from shop.services import payments
from shop.services.app import Answer, Body, Call
from shop.services.ledger import Ledger, read

FILE = "payments.ndjson"


def charge(
    ledger: Ledger, order: str = "shop/1", key: str = "", amount: str = "9.50", call: int = 1
) -> Answer:
    body = payments.Charge(order=order, customer="17", amount=amount)
    return _decide(ledger, 0, Call("payments", "do", key or f"{order}/charge/do/0", call, body))


def refund(ledger: Ledger, order: str = "shop/1", key: str = "") -> Answer:
    return _decide(ledger, 1, Call("payments", "undo", key or f"{order}/charge/undo/0", 1, Body(order=order)))


def _decide(ledger: Ledger, endpoint: int, call: Call[Any]) -> Answer:
    # with seed 1 the cards of these tests are good
    answer: Answer = payments.endpoints(ledger, 1)[endpoint].decide(call)
    return answer


def effects(ledger: Ledger) -> list[tuple[str, str, str]]:
    return [
        (entry.direction, entry.order, entry.amount) for entry in ledger.entries if entry.kind == "effect"
    ]


def test_the_same_key_and_body_get_the_same_answer_and_one_effect(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / FILE)
    first = charge(ledger)
    assert first == charge(ledger, call=2) == Answer(201, {"receipt": "P-shop/1", "amount": "9.50"})
    assert effects(ledger) == [("do", "shop/1", "9.50")]


def test_the_same_key_with_another_body_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / FILE)
    charge(ledger)
    assert charge(ledger, amount="1.00").status == 422
    assert effects(ledger) == [("do", "shop/1", "9.50")]


def test_a_refused_key_stays_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / FILE)
    first = charge(ledger, amount="10000.01")
    assert first.status == 402
    assert "over the limit" in first.content["refused"]
    assert charge(ledger, amount="10000.01", call=2) == first
    assert effects(ledger) == []


def test_an_undo_gives_back_what_was_done_and_a_second_one_nothing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / FILE)
    charge(ledger)
    assert refund(ledger) == Answer(200, {"undone": "9.50"})
    assert refund(ledger, key="shop/1/charge/undo/1") == Answer(200, {"undone": "0"})
    assert effects(ledger) == [("do", "shop/1", "9.50"), ("undo", "shop/1", "9.50")]


def test_an_undo_of_nothing_is_accepted_and_keeps_a_late_call_out(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / FILE)
    assert refund(ledger) == Answer(200, {"undone": "0"})
    assert charge(ledger).status == 410
    assert effects(ledger) == []


def test_a_ledger_read_again_knows_what_it_knew(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / FILE)
    charge(ledger)
    charge(ledger, order="shop/2", amount="20000")
    refund(ledger, order="shop/3")
    again = Ledger(tmp_path / FILE)
    assert again.entries == ledger.entries
    assert charge(again).status == 201
    assert charge(again, order="shop/2", amount="20000").status == 402
    assert charge(again, order="shop/3").status == 410
    assert effects(again) == [("do", "shop/1", "9.50")]


def test_half_a_line_of_a_killed_writer_is_taken_away(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / FILE)
    charge(ledger)
    whole = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(whole + b'{"kind":"effect","serv')
    assert read(tmp_path / FILE) == ledger.entries
    again = Ledger(tmp_path / FILE)
    charge(again, order="shop/2")
    assert [entry.order for entry in read(tmp_path / FILE)] == ["shop/1", "shop/2"]
