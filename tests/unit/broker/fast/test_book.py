"""Each publish has its own outcome, whatever order the broker answers in."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triumvir.broker import Outcome
from triumvir.broker.fast.book import Book
from triumvir.broker.fast.frames import BadFrame
from triumvir.broker.volley import Volley

CONFIRMED, RETURNED, REFUSED, UNKNOWN = Outcome.CONFIRMED, Outcome.RETURNED, Outcome.REFUSED, Outcome.UNKNOWN


def entered(book: Book, count: int, since: float = 0.0) -> Volley:
    volley = Volley(since)
    for place in range(count):
        volley.expect()
        book.enter(f"{since}/{place}", volley, place)
    return volley


def test_a_multiple_confirm_is_for_all_before_it_that_have_no_answer() -> None:
    book = Book()
    volley = entered(book, 6)
    book.confirmed(2, multiple=False, outcome=REFUSED)
    book.confirmed(4, multiple=True, outcome=CONFIRMED)
    assert volley.landed == {0: CONFIRMED, 1: REFUSED, 2: CONFIRMED, 3: CONFIRMED}
    assert len(book) == 2


def test_a_returned_message_is_not_confirmed_by_the_confirm_that_follows() -> None:
    book = Book()
    volley = entered(book, 3)
    book.returned("0.0/1")
    assert volley.landed == {}, "its id is still in flight until the broker's last word"
    assert "0.0/1" in book
    book.confirmed(3, multiple=True, outcome=CONFIRMED)
    assert volley.landed == {0: CONFIRMED, 1: RETURNED, 2: CONFIRMED}
    assert "0.0/1" not in book


def test_a_return_of_something_unknown_changes_nothing() -> None:
    book = Book()
    volley = entered(book, 1)
    book.returned(None)
    book.returned("somebody else's")
    book.confirmed(1, multiple=False, outcome=CONFIRMED)
    assert volley.landed == {0: CONFIRMED}


@pytest.mark.parametrize(("tag", "multiple"), [(0, False), (4, False), (4, True), (2**63, True)])
def test_a_confirm_of_what_was_never_published_is_no_amqp(tag: int, multiple: bool) -> None:
    book = Book()
    entered(book, 3)
    with pytest.raises(BadFrame):
        book.confirmed(tag, multiple=multiple, outcome=CONFIRMED)


def test_what_is_open_when_the_channel_ends_has_no_answer_but_a_return_is_one() -> None:
    book = Book()
    volley = entered(book, 3)
    book.confirmed(1, multiple=False, outcome=CONFIRMED)
    book.returned("0.0/1")
    book.close(None)
    assert volley.landed == {0: CONFIRMED, 1: RETURNED, 2: None}
    assert len(book) == 0


def test_the_oldest_is_the_one_longest_without_an_answer() -> None:
    book = Book()
    assert book.oldest() is None
    for since in (1.0, 2.0, 3.0):
        entered(book, 2, since)
    assert book.oldest() == 1.0
    book.confirmed(1, multiple=False, outcome=CONFIRMED)
    assert book.oldest() == 1.0
    book.confirmed(2, multiple=False, outcome=CONFIRMED)
    assert book.oldest() == 2.0
    book.confirmed(6, multiple=True, outcome=CONFIRMED)
    assert book.oldest() is None


async def test_who_waits_for_an_id_is_told_when_the_first_of_them_lands() -> None:
    book = Book()
    entered(book, 3)
    waiting = asyncio.ensure_future(book.one_lands(["0.0/1", "0.0/2"], timeout=10))
    await asyncio.sleep(0)
    book.confirmed(1, multiple=False, outcome=CONFIRMED)
    await asyncio.sleep(0)
    assert not waiting.done()
    book.confirmed(3, multiple=False, outcome=CONFIRMED)
    async with asyncio.timeout(5):
        await waiting


answers = st.tuples(st.integers(1, 12), st.booleans(), st.sampled_from([CONFIRMED, REFUSED]))


@given(st.lists(answers, max_size=20))
def test_whatever_the_order_of_answers_each_publish_lands_once(
    given: list[tuple[int, bool, Outcome]],
) -> None:
    book, expected = Book(), dict[int, Outcome]()
    volley = entered(book, 12)
    for tag, multiple, outcome in given:
        book.confirmed(tag, multiple=multiple, outcome=outcome)
        for answered in range(1, tag + 1) if multiple else (tag,):
            expected.setdefault(answered - 1, outcome)
        assert volley.landed == expected
        assert len(book) == 12 - len(expected)
        assert book.oldest() == (0.0 if len(book) else None)
