"""The project's own source, parsed, for tests that read it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("shared", "services")
ALL = ("shared", "services", "examples", "tests", "benchmarks")


class Module(NamedTuple):
    """One Python file; ``path`` is relative to the project."""

    path: str
    text: str
    tree: ast.Module


@cache
def modules(*folders: str) -> tuple[Module, ...]:
    """Every Python file under these folders of the project."""
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return tuple(
        Module(str(path.relative_to(ROOT)), text := path.read_text(), ast.parse(text)) for path in paths
    )


def literals(module: Module) -> Iterator[tuple[int, str]]:
    """Line and text of each string in code; of f-strings the fixed parts. Docstrings are not code."""
    prose = {id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value


def calls(module: Module) -> Iterator[tuple[int, str]]:
    """Line and dotted name of each call, such as ``time.sleep``."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            yield node.lineno, ast.unparse(node.func)
