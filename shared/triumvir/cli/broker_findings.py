"""What ``triumvir doctor`` finds in RabbitMQ. Nothing is declared: what exists is read from the management API."""

from __future__ import annotations

import re
import shlex
import urllib.parse
from datetime import UTC, datetime, timedelta
from typing import Final

from triumvir.broker import Topology, connect, core_topology
from triumvir.broker.admin import BrokerAdmin
from triumvir.broker.topology import agent_topology
from triumvir.cli.findings import Finding, clock, ill, well
from triumvir.cli.service_findings import Needs
from triumvir.cli.topology_findings import look_at_clients, look_at_topology
from triumvir.errors import BrokerError, BrokerRefused
from triumvir.settings import Settings

OLDEST_BROKER: Final = (3, 10)
_UNSEEN: Final = " (so not looked at: permissions, queues, clients, the broker's clock)"


async def look_at_broker(settings: Settings, needs: Needs) -> list[Finding]:
    """Every finding; agents' queues are looked at for the agents of ``needs``."""
    broker = await _connection(settings)
    return [broker, *await _management(settings, needs, answers=broker.problem is None)]


async def _connection(settings: Settings) -> Finding:
    try:
        connection = await connect(settings.broker_url, "triumvir doctor")
    except BrokerRefused as error:
        return ill("broker", str(error), "correct user, password or vhost in TRIUMVIR_BROKER_URL")
    except BrokerError as error:
        return ill("broker", str(error), "check TRIUMVIR_BROKER_URL, and that RabbitMQ runs there")
    version = connection.server_version
    await connection.close()
    return _version(version, connection.user)


def _version(text: str, user: str) -> Finding:
    numbers = tuple(int(number) for number in re.findall(r"\d+", text)[:2])
    if numbers < OLDEST_BROKER:
        wanted = ".".join(map(str, OLDEST_BROKER))
        return ill("broker", f"RabbitMQ {text} is too old", f"upgrade the server to {wanted} or newer")
    return well("broker", f"RabbitMQ {text}, user {user!r} may connect")


async def _management(settings: Settings, needs: Needs, *, answers: bool) -> list[Finding]:
    try:
        async with BrokerAdmin(settings.management_url) as admin:
            return await _inside(admin, settings, needs)
    except BrokerRefused as error:
        fix = "correct TRIUMVIR_MANAGEMENT_URL, or: rabbitmqctl set_user_tags USER administrator"
        return [ill("management", f"{error}{_UNSEEN}", fix)]
    except BrokerError as error:
        plugin = "on the broker's machine: rabbitmq-plugins enable rabbitmq_management"
        fix = f"{plugin}; or correct TRIUMVIR_MANAGEMENT_URL" if answers else "see the broker first"
        return [ill("management", f"{error}{_UNSEEN}", fix)]


async def _inside(admin: BrokerAdmin, settings: Settings, needs: Needs) -> list[Finding]:
    url = urllib.parse.urlsplit(settings.broker_url)
    vhost = urllib.parse.unquote(url.path.removeprefix("/")) or "/"
    user = urllib.parse.unquote(url.username or "guest")
    findings = [well("management", "answers"), await _clock(admin)]
    if not await admin.has_vhost(vhost):
        fix = f"rabbitmqctl add_vhost {shlex.quote(vhost)}, or correct TRIUMVIR_BROKER_URL"
        return [*findings, ill("vhost", f"there is no vhost {vhost!r}", fix)]
    topology = core_topology(quorum=settings.quorum_queues)
    for agent in sorted(needs.agents):
        topology += agent_topology(agent, quorum=settings.quorum_queues)
    findings.append(_rights(user, vhost, await admin.permissions(vhost, user), topology))
    findings += await look_at_topology(admin, vhost, topology)
    findings += await look_at_clients(admin, vhost, quorum=settings.quorum_queues)
    return findings


async def _clock(admin: BrokerAdmin) -> Finding:
    before = datetime.now(UTC)
    there = await admin.clock()
    after = datetime.now(UTC)
    why = "times in the broker's logs and messages mislead otherwise"
    return clock("broker", there, there + timedelta(seconds=1), before, after, why)


def _rights(user: str, vhost: str, rights: tuple[str, str, str] | None, topology: Topology) -> Finding:
    """By the patterns, as RabbitMQ reads them; services configure, write and read all that they declare."""
    fix = f"rabbitmqctl set_permissions -p {shlex.quote(vhost)} {shlex.quote(user)} '.*' '.*' '.*'"
    if rights is None:
        return ill("permissions", f"user {user!r} may do nothing in vhost {vhost!r}", fix)
    names = [exchange.name for exchange in topology.exchanges] + [queue.name for queue in topology.queues]
    unread = [pattern for pattern in rights if not _is_readable(pattern)]
    if unread:
        return well("permissions", f"not judged: {unread[0]!r} is a pattern that only RabbitMQ can read")
    refused = []
    for verb, pattern in zip(("configure", "write", "read"), rights, strict=True):
        forbidden = [name for name in names if not _allows(pattern, name)]
        if forbidden:
            some = ", ".join(forbidden[:3]) + (" and others" if len(forbidden) > 3 else "")
            refused.append(f"{verb} {some} (its pattern is {pattern!r})")
    if refused:
        return ill("permissions", f"user {user!r} of the services may not {'; not '.join(refused)}", fix)
    return well("permissions", f"user {user!r} may do what services do")


def _allows(pattern: str, name: str) -> bool:
    """RabbitMQ searches for the pattern; an empty one allows nothing."""
    return pattern != "" and re.search(pattern, name) is not None


def _is_readable(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True
