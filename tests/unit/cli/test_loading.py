"""Workflows named on a command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from triumvir.cli.loading import load_workflows
from triumvir.errors import ConfigurationError

GOOD = """
from triumvir import Step, Workflow
one = Workflow("one", version=1, steps=[Step("a", agent="x", operation="y")])
two = Workflow("two", version=1, steps=[Step("a", agent="x", operation="y")])
again = one
number = 5
"""


def written(folder: Path, text: str) -> str:
    file = folder / "definitions.py"
    file.write_text(text)
    return str(file)


def test_every_workflow_of_a_file_is_found_once(tmp_path: Path) -> None:
    assert [workflow.name for workflow in load_workflows(written(tmp_path, GOOD))] == ["one", "two"]


def test_one_is_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "by_name_here.py").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    assert [workflow.name for workflow in load_workflows("by_name_here:two")] == ["two"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("number = 5", "holds no Workflow"),
        ("import does_not_exist", "ModuleNotFoundError"),
        ("def broken(", "SyntaxError"),
        ("from triumvir import Workflow\nx = Workflow('x', version=0, steps=[])", "version is 0"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        load_workflows(written(tmp_path, text))


def test_a_wrong_name_is_answered_with_the_right_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wrong_name_here.py").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match="again, one, two"):
        load_workflows("wrong_name_here:three")
    with pytest.raises(ConfigurationError, match="is a int, not a Workflow"):
        load_workflows("wrong_name_here:number")
    with pytest.raises(ConfigurationError, match="can be imported"):
        load_workflows("no_such_module_here:x")
