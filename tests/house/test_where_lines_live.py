"""Each kind of line lives in one place."""

from __future__ import annotations

import ast
import re

from tests.house.source import PRODUCT, Module, calls, literals, modules

SLEEPERS = {
    "tests/waiting.py": "the one place that polls, with a deadline",
    "tests/unit/agent/test_progress.py": "sleeps in virtual time, which passes at once",
    "tests/unit/testing/test_virtual_time.py": "sleeps in virtual time, which passes at once",
    "tests/unit/testing/troupe.py": "sleeps in virtual time, which passes at once",
}
"""Test files that may sleep, each with its reason."""

BEFORE_ANY_SQL_FILE = {
    "shared/triumvir/store/migrate.py": "the record of migrations exists before the first of them"
}

_ENVIRONMENT = re.compile(r"\bos\.(environ|getenv|putenv)\b|\bfrom os import .*\b(environ|getenv)\b")
_SQL = re.compile(
    r"\s*(select\b.+\bfrom\b|insert\s+into\b|update\s+\S+\s+set\b|delete\s+from\b|with\s+\S+\s+as\s*\("
    r"|(create|alter|drop)\s+(table|index|schema|trigger|type|unlogged)\b)",
    re.IGNORECASE | re.DOTALL,
)
_QUEUE = re.compile(r"(scheduler\.(replies|wake)|(agent|status)\.[a-z0-9-]*|[a-z.]*\.dead)")

_MESSAGE_TYPE = re.compile(r"\.v\d+$")


def test_only_settings_reads_the_environment() -> None:
    allowed = ("shared/triumvir/settings.py", "shared/triumvir/local/")  # local/ hands PATH on to servers
    readers = [
        m.path for m in modules(*PRODUCT) if _ENVIRONMENT.search(m.text) and not m.path.startswith(allowed)
    ]
    assert readers == []


def test_sql_lives_in_sql_files() -> None:
    found = [
        f"{module.path}:{line}"
        for module in modules(*PRODUCT)
        if module.path not in BEFORE_ANY_SQL_FILE
        for line, text in literals(module)
        if _SQL.match(text)
    ]
    assert found == []


def test_queue_names_are_spelled_in_the_topology_only() -> None:
    found = [
        f"{module.path}:{line} {text!r}"
        for module in modules(*PRODUCT)
        if module.path != "shared/triumvir/broker/topology.py"
        for line, text in literals(module)
        if _QUEUE.fullmatch(text) and not _MESSAGE_TYPE.search(text)
    ]
    assert found == []


def test_tests_wait_on_conditions_and_never_sleep() -> None:
    found = [
        f"{module.path}:{line}"
        for module in modules("tests")
        if module.path not in SLEEPERS
        for line, name in calls(module)
        if name in ("time.sleep", "asyncio.sleep", "sleep") and not _is_yield(module, line)
    ]
    assert found == []


def _is_yield(module: Module, line: int) -> bool:
    """``sleep(0)`` only lets other tasks run."""
    return "sleep(0)" in module.text.splitlines()[line - 1]


def test_tests_that_need_no_server_ask_for_none() -> None:
    servers = {
        "server_set",
        "broker_url",
        "management_url",
        "database_url",
        "private_servers",
        "private_settings",
    }
    found = [
        f"{module.path}: {function.name}"
        for module in modules("tests/unit", "tests/property", "tests/house")
        for function in ast.walk(module.tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function.name.startswith("test_")
        if servers & {argument.arg for argument in function.args.args}
    ]
    assert found == []


def test_faults_hit_private_servers_only() -> None:
    shared = {"server_set", "broker_url", "management_url", "database_url", "empty_database_url", "settings"}
    found = [
        f"{module.path}: {function.name}"
        for module in modules("tests/faults")
        for function in ast.walk(module.tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        if function.name.startswith("test_") and shared & {argument.arg for argument in function.args.args}
    ]
    assert found == []
