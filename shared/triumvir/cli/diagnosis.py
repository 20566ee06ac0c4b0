"""What ``triumvir doctor`` looks at. Everything is read; nothing that runs is declared, changed or disturbed."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from triumvir.broker import (
    INTERNAL_EXCHANGE,
    ORDERS_EXCHANGE,
    REPLIES,
    QueueSpec,
    agent_topology,
    connect,
    core_topology,
    status_queue,
)
from triumvir.broker.admin import BrokerAdmin
from triumvir.errors import BrokerError, StoreError
from triumvir.settings import Settings
from triumvir.store import operators
from triumvir.store.statements import Connection, statement
from triumvir.workflow import Workflow

OLDEST_BROKER: Final = (3, 10)
CLOCK_TOLERANCE: Final = timedelta(seconds=5)
_SERVICES: Final = ("submitter", "scheduler", "supervisor")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``problem`` and ``fix`` are None where all is well."""

    subject: str
    seen: str
    problem: str | None = None
    fix: str | None = None


def well(subject: str, seen: str) -> Finding:
    return Finding(subject, seen)


def ill(subject: str, problem: str, fix: str) -> Finding:
    return Finding(subject, "", problem, fix)


async def diagnose(settings: Settings) -> list[Finding]:
    """Every finding, in the order in which things depend on each other."""
    agents: set[str] = set()
    findings = await _database(settings, agents)
    findings += await _broker(settings)
    findings += await _management(settings, agents)
    return findings


async def _database(settings: Settings, agents: set[str]) -> list[Finding]:
    try:
        async with operators.connect(settings) as connection:
            findings = [
                well("database", f"Postgres {connection.get_server_version().major}, schema of this release")
            ]
            findings.append(await _clock(connection))
            findings += await _instances(connection, agents)
            findings += await _backlog(connection)
            return findings
    except StoreError as error:
        behind = "migrat" in str(error)
        fix = (
            "run: triumvir migrate" if behind else "check TRIUMVIR_DATABASE_URL, and that Postgres runs there"
        )
        return [ill("database", str(error), "upgrade triumvir" if "ahead" in str(error) else fix)]


async def _clock(connection: Connection) -> Finding:
    before = datetime.now(UTC)
    there: datetime = await connection.fetchval("select clock_timestamp()")
    after = datetime.now(UTC)
    apart = there - before if there < before else there - after
    if abs(apart) > CLOCK_TOLERANCE and not before <= there <= after:
        problem = f"the database's clock is {apart.total_seconds():+.0f} s away from this machine's"
        return ill("clock", problem, "let both follow a time server; deadlines go by the database's clock")
    return well("clock", "this machine and the database agree")


async def _instances(connection: Connection, agents: set[str]) -> list[Finding]:
    rows = await statement("live_instances").rows(connection)
    running = {row["service"] for row in rows}
    offered = {operation for row in rows for operation in row["operations"]}
    findings = [
        well(service, "at least one runs")
        if service in running
        else ill(service, f"no {service} is running", f"start one: triumvir run {service}")
        for service in _SERVICES
    ]
    for row in await statement("all_definitions").rows(connection):
        workflow = Workflow.from_json(row["definition"])
        agents.update(step.agent for step in workflow.steps)
        findings += _missing_operations(workflow, offered)
    return list(dict.fromkeys(findings))


def _missing_operations(workflow: Workflow, offered: set[str]) -> Iterable[Finding]:
    present = {operation.split("/")[0] for operation in offered}
    for step in workflow.steps:
        wanted = [operation for operation in (step.operation, step.undo) if operation is not None]
        missing = [operation for operation in wanted if f"{step.agent}/{operation}" not in offered]
        if step.agent not in present:
            problem = f"nobody runs agent {step.agent!r}, which workflow {workflow.name!r} needs; its orders are held"
            yield ill(f"agent {step.agent}", problem, "start it: triumvir run agent MODULE:ATTRIBUTE")
        elif missing:
            problem = (
                f"no running agent {step.agent!r} offers {', '.join(missing)} (workflow {workflow.name!r})"
            )
            yield ill(
                f"agent {step.agent}",
                problem,
                "deploy the agent that offers it; its orders are held until then",
            )


async def _backlog(connection: Connection) -> list[Finding]:
    row = await statement("ageing").row(connection)
    if row is None or not row["unsent"]:
        return [well("outbox", "nothing waits to be sent")]
    return [
        ill(
            "outbox",
            f"{row['unsent']} rows wait to be sent, the oldest lease lapsed {row['seconds']:.0f} s ago",
            "see that a scheduler runs and that the broker takes messages",
        )
    ]


async def _broker(settings: Settings) -> list[Finding]:
    try:
        connection = await connect(settings.broker_url, "triumvir doctor")
    except BrokerError as error:
        return [ill("broker", str(error), "check TRIUMVIR_BROKER_URL, and that RabbitMQ runs there")]
    await connection.close()
    return [well("broker", f"user {connection.user!r} may connect")]


async def _management(settings: Settings, agents: set[str]) -> list[Finding]:
    url = urllib.parse.urlsplit(settings.broker_url)
    vhost = urllib.parse.unquote(url.path.removeprefix("/")) or "/"
    try:
        async with BrokerAdmin(settings.management_url) as admin:
            findings = [_version(await admin.version())]
            findings.append(
                _rights(
                    url.username or "guest", vhost, await admin.permissions(vhost, url.username or "guest")
                )
            )
            queues = await admin.queue_arguments(vhost)
            clients = [account.name for account in await admin.list_clients(vhost)]
    except BrokerError as error:
        return [
            ill(
                "management",
                str(error),
                "check TRIUMVIR_MANAGEMENT_URL; rabbitmq-plugins enable rabbitmq_management",
            )
        ]
    return [*findings, *_queues(settings, queues, agents), *_clients(clients, queues)]


def _version(text: str) -> Finding:
    numbers = tuple(int(number) for number in re.findall(r"\d+", text)[:2])
    if numbers < OLDEST_BROKER:
        wanted = ".".join(map(str, OLDEST_BROKER))
        return ill("broker version", f"RabbitMQ {text} is too old", f"upgrade it to {wanted} or newer")
    return well("broker version", f"RabbitMQ {text}")


def _rights(user: str, vhost: str, rights: tuple[str, str, str] | None) -> Finding:
    fix = f"rabbitmqctl set_permissions -p {vhost} {user} '.*' '.*' '.*'"
    if rights is None:
        return ill("permissions", f"user {user!r} may do nothing in vhost {vhost!r}", fix)
    names = (ORDERS_EXCHANGE, INTERNAL_EXCHANGE, REPLIES)
    refused = [
        verb
        for verb, pattern in zip(("configure", "write", "read"), rights, strict=True)
        if not all(re.search(pattern, name) for name in names)
    ]
    if refused:
        problem = f"user {user!r} of the services may not {', '.join(refused)} all of Triumvir's queues"
        return ill("permissions", problem, fix)
    return well("permissions", f"user {user!r} may do what services do")


def _queues(settings: Settings, found: dict[str, dict[str, object]], agents: set[str]) -> list[Finding]:
    quorum = settings.quorum_queues
    topology = sum(
        (agent_topology(agent, quorum=quorum) for agent in sorted(agents)), core_topology(quorum=quorum)
    )
    return [_queue(spec, found.get(spec.name)) for spec in topology.queues]


def _queue(spec: QueueSpec, found: dict[str, object] | None) -> Finding:
    subject = f"queue {spec.name}"
    if found is None:
        return ill(subject, "it does not exist", "start a service: each declares what it needs")
    wanted = dict(spec.arguments)
    different = sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))
    if different:
        named = ", ".join(
            f"{name} is {found.get(name)!r} instead of {wanted.get(name)!r}" for name in different
        )
        return ill(subject, named, "stop its consumers, drain and delete it; the next start declares it anew")
    return well(subject, "as declared")


def _clients(clients: list[str], queues: dict[str, dict[str, object]]) -> list[Finding]:
    return [
        well(f"client {client}", "has its status queue")
        if status_queue(client) in queues
        else ill(
            f"client {client}",
            f"its queue {status_queue(client)} does not exist: nobody can tell it anything",
            f"declare it again: triumvir clients add {client}",
        )
        for client in clients
    ]
