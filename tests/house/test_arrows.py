"""One table of arrows in three places: the heart, the schema's trigger, the picture in the documentation."""

from __future__ import annotations

import re

from tests.house.pages import blocks
from tests.house.source import ROOT
from triumvir.lifecycle import ARROWS, END, LIVE, RESTING

PAGE = "docs/lifecycle.md"
MIGRATIONS = ROOT / "shared/triumvir/store/migrations"
Arrows = dict[str, set[str]]


def heart() -> Arrows:
    return {before: set(after) for before, after in ARROWS.items()}


def _collect(pairs: list[tuple[str, str]]) -> Arrows:
    assert len(pairs) == len(set(pairs)), "an arrow stands twice"
    arrows: Arrows = {state: set() for state in ARROWS}
    for before, after in pairs:
        arrows[before].add(after)
    return arrows


def drawn() -> Arrows:
    (picture,) = [
        b.text for b in blocks(PAGE) if b.language == "mermaid" and "pending --> processing" in b.text
    ]
    return _collect(re.findall(r"^ *([a-z_]+) --> ([a-z_]+)", picture, re.MULTILINE))


def schema_text() -> str:
    """Every migration, in order."""
    return "\n".join(migration.read_text() for migration in sorted(MIGRATIONS.glob("*.sql")))


def test_the_picture_in_the_documentation_draws_the_arrows_of_the_heart() -> None:
    assert drawn() == heart()


def test_only_ends_without_arrows_end_the_picture() -> None:
    (picture,) = [b.text for b in blocks(PAGE) if "pending --> processing" in b.text]
    assert set(re.findall(r"^ *([a-z_]+) --> \[\*\]", picture, re.MULTILINE)) == {
        state for state in END if not ARROWS[state]
    }
    assert re.findall(r"^ *\[\*\] --> ([a-z_]+)", picture, re.MULTILINE) == ["pending"]


def test_the_trigger_of_the_schema_holds_the_arrows_of_the_heart() -> None:
    trigger = schema_text().rpartition("function refuse_illegal_arrow")[2].partition("return new")[0]
    assert _collect(re.findall(r"\('([a-z_]+)', '([a-z_]+)'\)", trigger)) == heart()


def test_the_comments_of_the_schema_say_the_arrows_of_the_heart() -> None:
    listed = schema_text().partition("check (state in (")[2].partition("))")[0]
    said = re.findall(r"'([a-z_]+)',?(?: *-- -> ([a-z_ |]+))?", listed)
    arrows = {state: set(after.replace("|", " ").split()) for state, after in said}
    for state, after in re.findall(r"^-- +([a-z_]+) -> ([a-z_]+)", schema_text(), re.MULTILINE):
        arrows[state].add(after)  # said by a later migration
    assert arrows == heart()


def test_every_state_is_live_at_rest_or_at_an_end() -> None:
    assert sorted(LIVE | RESTING | END) == sorted(ARROWS)
    assert len(LIVE) + len(RESTING) + len(END) == len(ARROWS)
