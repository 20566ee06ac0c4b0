"""What ``triumvir doctor`` finds of running services, and of agents that workflows need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from triumvir.cli.findings import Finding, ill, well
from triumvir.errors import TriumvirError
from triumvir.store.statements import Connection, Row, statement
from triumvir.workflow import Wait, Workflow

_SERVICES: Final = ("submitter", "scheduler", "supervisor")


@dataclass(slots=True)
class Needs:
    """What later looks need to know of the state repository, once it was read (``is_state_known``).

    ``agents`` are those that the workflows in use name: each needs its queue. ``documents`` is the id of the database
    of order documents, None if they are in the state repository itself; ``mark`` says how far the two were compared.
    """

    agents: set[str] = field(default_factory=set)
    is_state_known: bool = False
    documents: UUID | None = None
    mark: Row | None = None


async def look_at_services(connection: Connection, needs: Needs) -> list[Finding]:
    """Services and agents, by their leases."""
    rows = await statement("live_instances").rows(connection)
    findings = [_service(service, {row["service"] for row in rows}) for service in _SERVICES]
    offered = {operation for row in rows for operation in row["operations"]}
    for row in await statement("definitions_in_use").rows(connection):
        findings += _workflow(row, offered, needs)
    return list(dict.fromkeys(findings))


def _service(service: str, running: set[str]) -> Finding:
    if service in running:
        return well(service, "at least one runs")
    return ill(service, f"no {service} is running", f"start one: triumvir run {service}")


def _workflow(row: Row, offered: set[str], needs: Needs) -> Iterable[Finding]:
    try:
        workflow = Workflow.from_json(row["definition"])
    except TriumvirError as error:
        problem = f"version {row['version']} cannot be read by this release: {error}"
        return [ill(f"workflow {row['name']}", problem, "upgrade triumvir on this machine")]
    needs.agents.update(step.agent for step in workflow.steps if not isinstance(step, Wait))
    agents = dict.fromkeys(step.agent for step in workflow.steps if not isinstance(step, Wait))
    return [_agent(agent, workflow, offered) for agent in agents]


def _agent(agent: str, workflow: Workflow, offered: set[str]) -> Finding:
    wanted = {
        operation
        for step in workflow.steps
        if step.agent == agent
        for operation in (step.operation, step.undo)
        if operation is not None
    }
    missing = sorted(operation for operation in wanted if f"{agent}/{operation}" not in offered)
    subject, by = f"agent {agent}", f"workflow {workflow.name!r} version {workflow.version}"
    if not missing:
        return well(subject, "runs, with every operation that is needed")
    if not any(operation.startswith(f"{agent}/") for operation in offered):
        problem = f"nobody runs it, and {by} needs it; orders are held until somebody does"
        return ill(subject, problem, "start it: triumvir run agent MODULE:NAME")
    problem = f"the running one does not offer {', '.join(missing)}, which {by} needs; orders are held there"
    return ill(subject, problem, "deploy the agent's release that offers it")
