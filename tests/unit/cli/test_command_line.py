"""What the command line says when something is wrong, and what its help looks like."""

from __future__ import annotations

from pathlib import Path

import pytest

from triumvir.cli.app import execute

GOLDEN = Path(__file__).parent / "golden" / "help.txt"
COMMANDS = (
    "", "dev", "run", "submit", "watch", "doctor", "schema", "migrate",
    "orders", "orders list", "orders show", "orders cancel", "orders signal",
    "orders retry", "orders skip", "orders compensate", "orders resume", "orders close",
    "orders bulk", "orders bulk retry", "orders bulk run", "orders bulk show", "orders bulk list",
    "orders pause", "orders unpause", "workflows pause", "workflows unpause",
    "agents", "agents list", "agents pause", "agents unpause", "pauses", "pauses list", "pauses log",
    "dead", "dead list", "dead show", "dead replay", "dead discard", "dead resolve",
    "clients", "clients add", "clients list",
    "policy", "policy explain", "policy check",
    "workflows", "workflows check", "workflows apply", "workflows show", "workflows list",
)  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["orders", "show", "no-slash"], 2, "write CLIENT/ORDER_ID"),
        (["orders", "show"], 2, "Missing argument 'CLIENT/ORDER_ID' (see: triumvir orders show --help)"),
        (["orders", "list", "--state", "lost"], 2, "'lost' is not one of 'pending'"),
        (["orders", "list", "--limit", "0"], 2, "--limit"),
        (["orders", "fly"], 2, "No such command 'fly'"),
        (["submit"], 2, "Missing argument 'FILE'"),
        (["submit", "x", "--workflow", "Big Name"], 2, "--workflow"),
        (["submit", "no-such-file"], 1, "no-such-file: there is no such file"),
        (["submit", "/"], 1, "Is a directory"),
        (
            ["run", "nobody"],
            1,
            "there is no service 'nobody'; installed: agent, scheduler, submitter, supervisor",
        ),
        (["orders", "list"], 1, "Postgres at 127.0.0.1:1 cannot be reached"),
        (["migrate"], 1, "Postgres"),
        (["watch"], 1, "RabbitMQ at 127.0.0.1:1 cannot be reached"),
        (["workflows", "apply", "no-such.py"], 1, "no-such.py: there is no such file"),
        (["workflows", "apply", "nonsense"], 1, "write FILE.yaml, FILE.json, FILE.py or module:name"),
        (["clients", "add", "Shop A"], 1, "use 1 to 40 of a-z"),
    ],
)
def test_a_fault_is_one_line_and_an_exit_code(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(arguments) == code
    complaint = capsys.readouterr().err
    assert said in complaint
    assert complaint.startswith("triumvir: ")
    assert complaint.count("\n") == 1
    assert "hunter2secret" not in complaint


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["scheduler", "--once"], "unknown argument '--once': it takes none"),
        (["submitter", "shop.agents:payments"], "unknown argument 'shop.agents:payments': it takes none"),
        (["supervisor", "--onse"], "unknown argument '--onse': it takes --once and nothing else"),
        (["agent"], "no agent is named; write: triumvir run agent package.module:attribute"),
        (["agent", "nosuch:x"], "'nosuch:x': No module named 'nosuch'"),
        (["agent", "--once"], "'--once' names no agent"),
        (["agent", "tests.integration.services.lab:lap"], "lab has no 'lap'; did you mean 'lab'?"),
        (["agent", "tests.integration.services.lab:x"], "lab has no 'x'; did you mean 'lab' or 'ghost'?"),
        (["agent", "json:dump"], "'json:dump' is function, not a triumvir.Agent"),
        (["agent", "json:x"], "json has no 'x', and no triumvir.Agent at all"),
    ],
)
def test_a_service_refuses_arguments_it_does_not_know(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        execute(["run", *arguments])
    assert caught.value.code == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith("triumvir: ")
    assert said in complaint
    assert complaint.count("\n") == 1


@pytest.mark.parametrize("arguments", [["watch"], ["submit", "-"]])
def test_orders_are_not_placed_as_the_services(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRIUMVIR_CLIENT_URL")
    assert execute(arguments) == 1
    complaint = capsys.readouterr().err
    assert complaint.startswith("triumvir: TRIUMVIR_CLIENT_URL is not set")
    assert "triumvir clients add NAME" in complaint


def test_a_traceback_is_shown_only_when_debugging(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIUMVIR_LOG_LEVEL", "DEBUG")
    assert execute(["orders", "list"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_bad_setting_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIUMVIR_SLOTS", "many")
    assert execute(["orders", "list"]) == 1
    assert "TRIUMVIR_SLOTS" in capsys.readouterr().err


def test_without_a_command_there_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute([]) == 2
    assert "Usage: triumvir" in capsys.readouterr().err


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["--version"]) == 0
    assert capsys.readouterr().out.startswith("triumvir ")


def test_the_help_is_the_one_that_was_read(capsys: pytest.CaptureFixture[str]) -> None:
    """After a change on purpose: delete the golden file, run this test, and read the new one."""
    shown = []
    for command in COMMANDS:
        assert execute([*command.split(), "--help"]) == 0
        shown.append(f"$ triumvir {command} --help".replace("  ", " ") + f"\n{capsys.readouterr().out}")
    text = "\n".join(shown)
    if not GOLDEN.exists():
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(text)
        pytest.fail(f"{GOLDEN.name} was written; read it and commit it")
    assert text == GOLDEN.read_text()
