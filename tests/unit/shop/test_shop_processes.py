from __future__ import annotations

import sys
from pathlib import Path

import pytest

from shop.processes import run, start


async def test_settings_of_this_shell_do_not_reach_the_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIUMVIR_HEALTH_PORT", "1")
    monkeypatch.setenv("SHOP_PATIENCE", "9")
    monkeypatch.setenv("TRIUMVIR_LOG_LEVEL", "DEBUG")
    code = "import os; print(sorted(name for name in os.environ if name.startswith(('TRIUMVIR_', 'SHOP_'))))"
    told = await run([sys.executable, "-c", code], env={"TRIUMVIR_DATABASE_URL": "postgresql://here/x"})
    assert told.strip() == "['TRIUMVIR_DATABASE_URL', 'TRIUMVIR_LOG_LEVEL']"


async def test_a_command_that_fails_is_told_in_its_own_words() -> None:
    with pytest.raises(RuntimeError, match=r"-c raise SystemExit.* failed:\nno such workflow$"):
        await run([sys.executable, "-c", "raise SystemExit('no such workflow')"])


async def test_the_complaint_of_a_process_is_short_whatever_it_logs(tmp_path: Path) -> None:
    code = """print('{"level":"error","event":"task_failed","error":"no database","exception":"..."}'); print("bye")"""
    child = await start("scheduler", [sys.executable, "-c", code], folder=tmp_path)
    await child.process.wait()
    assert child.complaint() == "error: task_failed no database\nbye"
