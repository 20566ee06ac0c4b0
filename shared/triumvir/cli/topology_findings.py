"""What ``triumvir doctor`` finds of queues, exchanges and bindings, beside what this release would declare."""

from __future__ import annotations

import shlex
from typing import Any

from triumvir.broker import ExchangeSpec, QueueSpec, Topology, client_topology
from triumvir.broker.admin import BrokerAdmin
from triumvir.cli.findings import Finding, ill, well

_DECLARE = "start or restart a service: each declares what it needs"


async def look_at_topology(admin: BrokerAdmin, vhost: str, topology: Topology) -> list[Finding]:
    """One finding for all that is missing, and one for each queue or exchange that is not as it would be declared."""
    queues = await admin.queue_arguments(vhost)
    kinds = await admin.exchange_kinds(vhost)
    different = [
        *(_queue(spec, queues[spec.name], vhost) for spec in topology.queues if spec.name in queues),
        *(_exchange(spec, kinds[spec.name]) for spec in topology.exchanges if spec.name in kinds),
    ]
    missing = [f"exchange {spec.name}" for spec in topology.exchanges if spec.name not in kinds]
    missing += [f"queue {spec.name}" for spec in topology.queues if spec.name not in queues]
    bound = await admin.bindings(vhost)
    missing += [
        f"binding of queue {binding.queue} to exchange {binding.exchange}"
        for binding in topology.bindings
        if binding not in bound and binding.queue in queues and binding.exchange in kinds
    ]
    return [_all(topology, missing), *(finding for finding in different if finding is not None)]


def _all(topology: Topology, missing: list[str]) -> Finding:
    if not missing:
        return well("queues", f"all {len(topology.queues)} are there, and bound")
    exchanges, queues = len(topology.exchanges), len(topology.queues)
    if len(missing) == exchanges + queues:
        return ill("queues", "there are none yet, nor exchanges", _DECLARE)
    return ill("queues", f"missing: {', '.join(missing)}", _DECLARE)


def _queue(spec: QueueSpec, found: dict[str, Any], vhost: str) -> Finding | None:
    wanted = dict(spec.arguments)
    named = ", ".join(
        f"{name} is {found.get(name, 'not set')!r} instead of {wanted.get(name, 'not set')!r}"
        for name in sorted({*wanted, *found})
        if wanted.get(name) != found.get(name)
    )
    if not named:
        return None
    command = f"rabbitmqctl delete_queue -p {shlex.quote(vhost)} {spec.name}"
    fix = f"stop its consumers, empty it, then: {command}; the next start of a service declares it anew"
    return ill(f"queue {spec.name}", named, fix)


def _exchange(spec: ExchangeSpec, kind: str) -> Finding | None:
    if kind == spec.kind:
        return None
    fix = "stop who publishes to it, and delete it; the next start of a service declares it anew"
    return ill(f"exchange {spec.name}", f"it is {kind} instead of {spec.kind}", fix)


async def look_at_clients(admin: BrokerAdmin, vhost: str, *, quorum: bool) -> list[Finding]:
    """Each client needs its status queue."""
    names = [account.name for account in await admin.list_clients(vhost)]
    queues = await admin.queue_arguments(vhost)
    found = [_client(name, vhost, queues, quorum=quorum) for name in names]
    wrong = [finding for finding in found if finding is not None]
    fine = len(names) - len(wrong)
    if not names:
        return [well("clients", "there are none yet (triumvir clients add NAME)")]
    return [*([well("clients", f"{fine} with a status queue")] if fine else []), *wrong]


def _client(client: str, vhost: str, queues: dict[str, dict[str, Any]], *, quorum: bool) -> Finding | None:
    (spec,) = client_topology(client, quorum=quorum).queues
    if spec.name in queues:
        return _queue(spec, queues[spec.name], vhost)
    problem = f"its queue {spec.name} does not exist: nobody can tell it anything"
    return ill(f"client {client}", problem, f"declare it again: triumvir clients add {client}")
