"""The tutorial, word for word: every file is written, every command typed, every answer compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.reader import Reader
from tests.acceptance.terminal import fits, terminals
from tests.house.pages import blocks


def test_every_word_of_the_tutorial_is_so(tmp_folder: Path) -> None:
    with terminals() as opened:
        reader = Reader(tmp_folder / "bakery", opened)
        for block in blocks("docs/tutorial.md"):
            reader.follow(block)


@pytest.mark.parametrize(
    ("shown", "answered", "same"),
    [
        ("1  completed\n", "1 completed\n", True),
        ("1  completed\n", "1 compensated\n", False),
        ("1  completed\n", "1 completed\n2 completed\n", False),
        ("", "something\n", False),
        ("a\n…\nz\n", "a\nb\nc\nz\n", True),
        ("a\n…\nz\n", "a\nz\n", True),
        ("a\n…\nz\n", "a\nb\n", False),
        ("took … s\n", "took 1.5 s\n", True),
        ("took … s\n", "took 1.5 h\n", False),
        ("x [1]\n", "x 1\n", False),
    ],
)
def test_an_answer_that_differs_from_the_page_is_noticed(shown: str, answered: str, same: bool) -> None:
    assert fits(shown, answered) == same
