"""What an outbox row can refer to."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triumvir.runtime.refs import AlertRef, LetterRef, Ref, RequestRef, StatusRef, read, write

NUMBERS = st.integers(min_value=0, max_value=2**63 - 1)
REFS: st.SearchStrategy[Ref] = st.one_of(
    st.builds(RequestRef, NUMBERS, NUMBERS, st.sampled_from(["do", "undo"]), NUMBERS),
    st.builds(StatusRef, NUMBERS, NUMBERS),
    st.builds(AlertRef, st.sampled_from(["order-halted", "late-success"]), NUMBERS, NUMBERS),
    st.builds(LetterRef, st.uuids()),
)


@given(st.lists(REFS))
def test_references_are_read_as_they_were_written(refs: list[Ref]) -> None:
    assert read(write(refs)) == refs


@pytest.mark.parametrize(
    "text",
    [
        '[["dance",1]]',
        '[["status",1]]',
        '[["status","1","2"]]',
        '[["request",1,1,"sideways",1]]',
        '[["dead_letter","no id"]]',
        "no json",
    ],
)
def test_what_this_release_does_not_know_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read(text)


def test_each_kind_has_one_spelling() -> None:
    letter = uuid.UUID(int=1)
    refs: list[Ref] = [
        RequestRef(1, 2, "undo", 3),
        StatusRef(4, 5),
        AlertRef("order-halted", 6, 7),
        LetterRef(letter),
    ]
    assert write(refs) == (
        '[["request",1,2,"undo",3],["status",4,5],["alert","order-halted",6,7],'
        '["dead_letter","00000000-0000-0000-0000-000000000001"]]'
    )
