"""Every command on a page exists, with each of its options: what a reader types is not refused for its spelling."""

from __future__ import annotations

import pytest

from tests.house import commands
from tests.house.pages import Block, blocks, code_spans, pages
from tests.house.source import ROOT

SHELLS = [
    block
    for page in pages()
    for block in blocks(str(page.relative_to(ROOT)))
    if block.language in commands.SHELLS
]
SPANS = sorted({span for page in pages() for span in code_spans(page) if span.startswith("triumvir ")})


@pytest.mark.parametrize("block", SHELLS, ids=lambda block: f"{block.page}:{block.line}")
def test_a_command_of_a_page_can_be_typed(block: Block) -> None:
    faults = [fault for words in commands.shown(block) if (fault := commands.fault(words)) is not None]
    assert faults == []


@pytest.mark.parametrize("span", SPANS)
def test_a_command_in_a_sentence_exists_with_its_options(span: str) -> None:
    command, rest = commands.find(span.split()[1:])
    assert not isinstance(command, str), command
    spelled = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    services = {"--once"} if rest[:1] == ["supervisor"] else set()
    assert {word for word in rest if word.startswith("-")} - spelled - services - {"--help"} == set()


def test_the_commands_are_seen_where_they_stand() -> None:
    def seen(language: str, text: str) -> list[list[str]]:
        return list(commands.shown(Block("page", 1, (language,), text)))

    assert seen("console", "$ A=1 triumvir watch 3 2> log | jq x\nanswer\n") == [
        ["triumvir", "watch", "3"],
        ["jq", "x"],
    ]
    assert seen("sh", "export U=$(triumvir clients add b \\\n --json)\n")[1] == [
        "triumvir",
        "clients",
        "add",
        "b",
        "--json",
    ]
    assert seen("cron", "* * * * * . /e && triumvir run supervisor --once")[1][:2] == ["triumvir", "run"]
    assert seen("python", "triumvir") == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("triumvir orders shove dev/1", "there is no command triumvir orders shove"),
        ("triumvir orders show", "Missing argument"),
        ("triumvir submit x.ndjson --fellow", "--fellow"),
        ("make coffee", "no target coffee"),
        ("triumvir orders show dev/1 --history 0", None),
        ("make demo SEED=7", None),
    ],
)
def test_a_wrong_command_is_noticed(words: str, said: str | None) -> None:
    found = commands.fault(words.split())
    assert (found is None) == (said is None)
    assert said is None or said in str(found)
