"""The documentation says what is so: its code runs, its links lead somewhere, the names it uses exist."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest
import typer.main
import yaml

from tests.house.pages import Block, anchors, blocks, code_spans, links, pages
from tests.house.source import ROOT
from triumvir import Agent, Workflow
from triumvir.cli.app import app
from triumvir.contracts import codec
from triumvir.contracts.messages import FromClient, StatusName
from triumvir.runtime.crash import CRASH_POINTS
from triumvir.settings import Settings

PAGES = [str(page.relative_to(ROOT)) for page in pages()]
BLOCKS = [block for page in PAGES for block in blocks(page)]
PYTHON = [block for block in BLOCKS if block.language == "python"]
MESSAGES = [block for block in BLOCKS if len(block.info) > 1 and block.info[1] in codec.types()]
SETTINGS = {f"TRIUMVIR_{name.upper()}" for name in Settings.model_fields}
OF_COMPOSE = set(re.findall(r"\$\{(TRIUMVIR_[A-Z_]+)", (ROOT / "compose.yaml").read_text()))

_LOCAL_PATH = re.compile(r"(?<![\w.~])/(?:home|root|work|Users)/")
_PAGE_NAME = re.compile(r"\b[A-Za-z_]+\.md\b")


def _place(block: Block) -> str:
    return f"{block.page}:{block.line}"


@pytest.mark.parametrize("block", PYTHON, ids=_place)
def test_python_on_a_page_compiles(block: Block) -> None:
    compile(block.text, _place(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.fixture(params=["README.md", "docs/authoring.md"])
def page_module(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """The runnable blocks of a page, run one after another as one module."""
    module = ModuleType("page")
    sys.modules["page"] = module  # annotations are resolved through it
    for block in blocks(request.param):
        if "runnable" in block.info:
            exec(compile("\n" * block.line + block.text, block.page, "exec"), vars(module))
    yield module
    del sys.modules["page"]


def test_what_a_page_shows_is_valid_and_fits_together(page_module: ModuleType) -> None:
    shown = list(vars(page_module).values())
    agents = {each.name: each for each in shown if isinstance(each, Agent)}
    (workflow,) = (each for each in shown if isinstance(each, Workflow))
    for agent in agents.values():
        agent.check()
    for step in workflow.steps:
        assert agents[step.agent].find(step.operation, "do"), step
        assert step.undo is None or agents[step.agent].find(step.undo, "undo"), step


@pytest.mark.parametrize("block", MESSAGES, ids=lambda block: block.info[1])
def test_a_message_on_a_page_is_one_of_its_type(block: Block) -> None:
    model, body = codec.types()[block.info[1]], block.text.encode()
    assert isinstance(codec.decode(block.info[1], body), model)
    if model in get_args(FromClient):
        codec.decode_strictly(model, body, max_bytes=4096, max_depth=64)


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "yaml"], ids=_place)
def test_yaml_on_a_page_is_read(block: Block) -> None:
    assert isinstance(yaml.safe_load(block.text), dict)


def test_the_image_of_the_pages_is_the_one_of_compose() -> None:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    image = compose["services"]["scheduler"]["image"]
    named = {name for block in BLOCKS for name in re.findall(r"\btriumvir:\d[\w.]*", block.text)}
    assert named == {image}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    dead = []
    for link in links(ROOT / page):
        path, _, fragment = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        if link.startswith("https://"):
            continue
        if not target.exists() or (fragment and fragment not in anchors(target)):
            dead.append(link)
    assert dead == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_only_settings_pages_and_files_that_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    unknown = {name for name in re.findall(r"\bTRIUMVIR_[A-Z_]+", text) if name not in SETTINGS | OF_COMPOSE}
    unknown |= {name for name in _PAGE_NAME.findall(text) if not any(p.endswith(name) for p in PAGES)}
    unknown |= {
        span
        for span in code_spans(ROOT / page)
        if re.fullmatch(r"(shared|services|tests|docs|examples|benchmarks)/[\w./-]+", span)
        if not (ROOT / span).exists()
    }
    assert unknown == set()


@pytest.mark.parametrize("page", PAGES)
def test_no_page_speaks_of_a_single_machine(page: str) -> None:
    assert _LOCAL_PATH.findall((ROOT / page).read_text()) == []


def test_the_pages_of_the_services_have_the_same_headings() -> None:
    headings = {
        page: re.findall(r"^## (.+)$", (ROOT / page).read_text(), re.MULTILINE)
        for page in PAGES
        if page.startswith("services/")
    }
    assert len(headings) == 4
    for found in headings.values():
        assert found == ["Owns", "Consumes", "Publishes", "Invariants", "If it dies", "Read next"]


def test_every_crash_point_stands_in_the_guarantees() -> None:
    named = [s for s in code_spans(ROOT / "docs/guarantees.md") if s.partition(".")[0] in _first_words()]
    assert sorted(named) == sorted(CRASH_POINTS)


def _first_words() -> set[str]:
    return {point.partition(".")[0] for point in CRASH_POINTS}


def test_every_status_stands_in_the_protocol() -> None:
    spans = set(code_spans(ROOT / "docs/protocol.md"))
    assert set(get_args(StatusName)) - spans == set()


def test_every_command_stands_in_the_readme() -> None:
    (glance,) = (b.text for b in blocks("README.md") if b.text.startswith("triumvir dev  "))
    group = typer.main.get_command(app)
    commands: dict[str, object] = getattr(group, "commands", {})
    for name, command in commands.items():
        (line,) = [line for line in glance.splitlines() if line.startswith(f"triumvir {name} ")][:1] or [""]
        assert line, f"triumvir {name} is missing"
        assert set(getattr(command, "commands", {})) <= set(re.split(r"[ |]", line)), line


def test_pages_are_there_for_whom_the_index_names() -> None:
    index = {(ROOT / "docs" / link).resolve() for link in links(ROOT / "docs/index.md")}
    missing = [page for page in pages() if page.parent == Path(ROOT / "docs") and page.resolve() not in index]
    assert [page.name for page in missing if page.name != "index.md"] == []
