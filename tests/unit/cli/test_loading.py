"""Workflows named on a command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from triumvir.cli.loading import is_target, load_workflows
from triumvir.errors import ConfigurationError, DefinitionFileError

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


YAML = "name: one\nversion: 1\nsteps:\n  - {name: a, agent: x, operation: y}\n"


@pytest.mark.parametrize("name", ["w.yaml", "w.yml", "w.YAML"])
def test_a_yaml_file_is_a_target(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("\ufeff" + YAML)
    assert [workflow.name for workflow in load_workflows(str(tmp_path / name))] == ["one"]


def test_a_json_file_is_a_target(tmp_path: Path) -> None:
    (workflow,) = load_workflows(written(tmp_path, GOOD))[:1]
    (tmp_path / "w.json").write_text(workflow.to_json())
    assert load_workflows(str(tmp_path / "w.json")) == [workflow]


def test_a_fault_in_a_yaml_file_names_the_file_as_it_was_given(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(YAML.replace("agent", "agnt"))
    with pytest.raises(DefinitionFileError) as raised:
        load_workflows(str(file))
    assert raised.value.faults == (
        f"{file}:4:5: steps[0]: agent is missing; add agent:",
        f"{file}:4:15: steps[0]: 'agnt' is no key of a step; did you mean 'agent'?",
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"name: \xff", r"is not UTF-8 \(byte 6\); save it as UTF-8"), (None, "there is no such file")],
)
def test_a_yaml_file_that_cannot_be_read_says_why(tmp_path: Path, content: bytes | None, said: str) -> None:
    if content is not None:
        (tmp_path / "w.yaml").write_bytes(content)
    with pytest.raises(ConfigurationError, match=said):
        load_workflows(str(tmp_path / "w.yaml"))
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_workflows(str(tmp_path / "folder.yaml"))


def test_a_file_or_module_is_told_from_a_registered_name() -> None:
    assert [is_target(text) for text in ("w.yaml", "a/w.JSON", "w.py", "m:w", "gift-order", "py")] == [
        True, True, True, True, False, False,
    ]  # fmt: skip
