"""The tests on the page about tests pass, one after another, as a reader would copy them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.house.pages import blocks
from tests.house.source import ROOT
from triumvir.testing import Rehearsal

PAGE = "docs/testing-workflows.md"
TESTS = re.findall(r"^async def (test_\w+)", (ROOT / PAGE).read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def page() -> Iterator[ModuleType]:
    module = ModuleType("testing_page")
    sys.modules["testing_page"] = module  # annotations are resolved through it
    for block in blocks(PAGE):
        if "runnable" in block.info:
            exec(compile("\n" * block.line + block.text, block.page, "exec"), vars(module))
    yield module
    del sys.modules["testing_page"]


@pytest.mark.parametrize("name", TESTS)
async def test_a_test_of_the_page_passes(page: ModuleType, name: str) -> None:
    await vars(page)[name]()


def test_the_page_names_every_fault_that_can_be_injected() -> None:
    table = [line for line in (ROOT / PAGE).read_text().splitlines() if line.startswith("| `")]
    named = {name for line in table for name in re.findall(r"`(\w+)\(", line.split("|")[1])}
    public = {name for name in dir(Rehearsal) if not name.startswith("_")}
    assert public - named == {"run", "run_blocking"}
