"""``triumvir doctor``: what is wrong, and what to do about it."""

from __future__ import annotations

from typing import Annotated

import typer

from triumvir.cli.diagnosis import diagnose
from triumvir.cli.equipment import settings
from triumvir.cli.findings import Finding
from triumvir.cli.output import note, run, say, write_json


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="A JSON array instead of text.")] = False,
) -> None:
    """Look at broker, database, services, agents and clients, and say in plain words what is wrong.

    Everything is read; nothing that runs is declared, changed or disturbed. Exit code 1 if something is wrong.

    \b
    Example:
      triumvir doctor
    """
    findings = run(diagnose(settings()))
    if as_json:
        write_json(findings)
    else:
        for finding in findings:
            _tell(finding)
    wrong = sum(finding.problem is not None for finding in findings)
    if not as_json:
        note(f"{wrong} of {len(findings)} things need attention" if wrong else "nothing is wrong")
    if wrong:
        raise typer.Exit(1)


def _tell(finding: Finding) -> None:
    if finding.problem is None:
        say(f"  ok    {finding.subject}: {finding.seen}")
    else:
        say(f"  WRONG {finding.subject}: {finding.problem}\n        do: {finding.fix}")
