"""``triumvir run``: the services, found by their entry points."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Final

import typer

from triumvir.cli.equipment import import_from_here
from triumvir.errors import ConfigurationError

GROUP: Final = "triumvir.services"


def run(
    service: Annotated[
        str,
        typer.Argument(metavar="SERVICE", help="submitter, scheduler, agent, supervisor", show_default=False),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="TARGET", help="for agents: module:name of each", show_default=False),
    ] = None,
) -> None:
    """Run one service in this process until SIGTERM or Ctrl-C.

    Any number of each may run, on any number of machines. Agents take the targets to run, the supervisor --once
    (one pass, then exit); the others take nothing.

    \b
    Examples:
      triumvir run submitter
      triumvir run scheduler
      triumvir run agent shop.agents:payments shop.agents:shipping
      triumvir run supervisor
      triumvir run supervisor --once
    """
    entry = _find(service)
    import_from_here()
    entry.load()(list(arguments or []))


def _find(service: str) -> EntryPoint:
    installed = {entry.name: entry for entry in entry_points(group=GROUP)}
    if service not in installed:
        known = ", ".join(sorted(installed)) or "none"
        raise ConfigurationError(f"there is no service {service!r}; installed: {known}")
    return installed[service]
