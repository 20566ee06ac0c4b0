"""The policy file: what it says, and how its faults are told."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from triumvir.errors import DefinitionFileError
from triumvir.runtime.policy_file import read_policies

GOOD = """
["Any.Any.Any"]
timeout-duration = "10s"
max-retries = 2
jitter-factor = 0

["order-fulfilment.charge.charge-card"]
initial-retry-interval = "500ms"
backoff-origin = "previous-call"
custom-backoffs = ["20s", "1m"]
cool-offs = ["5m", "1h"]
"""


def write(folder: Path, text: str) -> str:
    path = folder / "policies.toml"
    path.write_text(text)
    return str(path)


def test_each_setting_becomes_a_line_that_knows_where_it_was_written(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    lines = {line.setting: line for line in read_policies(path)}
    assert lines["timeout-duration"].value == timedelta(seconds=10)
    assert lines["max-retries"].pattern == ("Any", "Any", "Any")
    assert lines["custom-backoffs"].value == (timedelta(seconds=20), timedelta(minutes=1))
    assert lines["cool-offs"].value == (timedelta(minutes=5), timedelta(hours=1))
    assert lines["initial-retry-interval"].pattern == ("order-fulfilment", "charge", "charge-card")
    assert lines["initial-retry-interval"].source == f"{path}:8"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            '["Any.Any.Any"]\nmax-retrys = 2',
            ':2: ["Any.Any.Any"] max-retrys: is no setting; did you mean max-retries?',
        ),
        ('["Any.Any.Any"]\nfoo = 2', "is no setting; write one of timeout-duration,"),
        ('\n["Any.Any"]\nmax-retries = 2', ':2: ["Any.Any"]: has 2 segments, not flow, state and action'),
        ('["Any.Any.Charge Card"]\nmax-retries = 2', "'Charge Card' is no name"),
        ("[Any.Any.Any]\nmax-retries = 2", 'is no table of one action; write ["Any.Any.Any"]'),
        ("max-retries = 2", "is no table of one action"),
        ('["Any.Any.Any"]\ntimeout-duration = 10', "is 10; give a duration in quotes"),
        ('["Any.Any.Any"]\ntimeout-duration = "10"', "without a unit; write 10s"),
        ('["Any.Any.Any"]\nmax-retries = -1', "is -1; give a whole number from 0 to 100"),
        ('["Any.Any.Any"]\nmax-retries = true', "is True; give a whole number"),
        ('["Any.Any.Any"]\njitter-factor = 1', "is 1; give a number from 0 to below 1"),
        ('["Any.Any.Any"]\njitter-factor = nan', "give a number from 0"),
        ('["Any.Any.Any"]\nbackoff-origin = "last"', 'write "first-call" or "previous-call"'),
        ('["Any.Any.Any"]\ncustom-backoffs = "20s"', "give a list of durations"),
        ('["Any.Any.Any"]\ncustom-backoffs = [20]', "holds 20; give durations in quotes"),
        ('["Any.Any.Any"]\nmax-retries = ', ":2: Invalid value (at end of document); write TOML"),
        ('["Any.Any.Any"]\n["Any.Any.Any"]', ":2:"),
    ],
)
def test_a_fault_is_told_with_file_line_and_fix(tmp_path: Path, text: str, fault: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(DefinitionFileError) as raised:
        read_policies(path)
    assert str(raised.value).startswith(path)
    assert fault in str(raised.value)


def test_every_fault_of_a_file_is_told_at_once(tmp_path: Path) -> None:
    path = write(
        tmp_path, '["Any.Any.Any"]\nmax-retries = "2"\n["a.b.c"]\nmax-retries = 2\nmax-failures = 101'
    )
    with pytest.raises(DefinitionFileError) as raised:
        read_policies(path)
    assert [fault.split(": ")[0] for fault in raised.value.faults] == [f"{path}:2", f"{path}:5"]


def test_a_file_that_is_not_there_or_no_text_is_told(tmp_path: Path) -> None:
    with pytest.raises(DefinitionFileError, match="cannot be read: No such file"):
        read_policies(str(tmp_path / "missing.toml"))
    (tmp_path / "odd.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(DefinitionFileError, match="no UTF-8"):
        read_policies(str(tmp_path / "odd.toml"))


ROUND = """
["shop.charge.Any"]
on-timeout = "invoice"
["Any.invoice.Any"]
on-timeout = "charge"
"""


def test_a_time_out_may_lead_to_a_step_or_nowhere(tmp_path: Path) -> None:
    path = write(tmp_path, '["shop.a.Any"]\non-timeout = "b"\n["shop.b.Any"]\non-timeout = false\n')
    assert [line.value for line in read_policies(path)] == ["b", ""]


def test_steps_of_different_workflows_may_lead_to_each_others_names(tmp_path: Path) -> None:
    path = write(tmp_path, ROUND.replace("Any.invoice", "bank.invoice"))
    assert len(read_policies(path)) == 2


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            ROUND,
            ':3: ["shop.charge.Any"] on-timeout: leads back to its own step, charge -> invoice -> charge',
        ),
        (
            '["shop.a.Any"]\non-timeout = "a"',
            ':2: ["shop.a.Any"] on-timeout: leads back to its own step, a -> a',
        ),
        (
            '["shop.a.Any"]\non-timeout = true',
            "is True; give the name of a later step in quotes, or false for none",
        ),
        (
            '["shop.a.Any"]\non-timeout = "Step B"',
            "is 'Step B'; give the name of a later step in quotes, or false",
        ),
    ],
)
def test_a_time_out_that_goes_round_or_names_no_step_is_refused(
    text: str, fault: str, tmp_path: Path
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(DefinitionFileError) as refused:
        read_policies(path)
    assert fault in str(refused.value)
