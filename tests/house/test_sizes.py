"""Sizes that keep the code readable."""

from __future__ import annotations

import ast

from tests.house.source import ALL, PRODUCT, ROOT, modules

FILE_LINES, TEST_FILE_LINES, FUNCTION_LINES, MAIN_LINES = 300, 400, 40, 60


def test_no_file_is_too_long_to_read_at_once() -> None:
    found = [
        f"{module.path}: {lines}"
        for module in modules(*ALL)
        if (lines := len(module.text.splitlines()))
        > (TEST_FILE_LINES if module.path.startswith("tests/") else FILE_LINES)
    ]
    assert found == []


def test_no_function_is_too_long_to_see_at_once() -> None:
    found = [
        f"{module.path}:{function.lineno} {function.name}: {lines}"
        for module in modules(*PRODUCT, "examples")
        for function in ast.walk(module.tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        if (lines := _code_lines(function)) > FUNCTION_LINES
    ]
    assert found == []


def test_wiring_is_read_from_top_to_bottom() -> None:
    mains = (ROOT / "services").glob("*/main.py")
    found = {path.parent.name: len(path.read_text().splitlines()) for path in mains}
    assert {name: lines for name, lines in found.items() if lines > MAIN_LINES} == {}


def test_nothing_is_called_utils() -> None:
    vague = ("util", "utils", "helpers", "misc", "common")
    assert [module.path for module in modules(*ALL) if module.path.split("/")[-1][:-3] in vague] == []


def _code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """From ``def`` to the last line, without the docstring."""
    documented = ast.get_docstring(function, clean=False)
    prose = len(documented.splitlines()) if documented else 0
    return (function.end_lineno or function.lineno) - function.lineno + 1 - prose
