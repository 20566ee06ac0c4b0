"""F31: the clocks of processes disagree by hours. Deadlines and leases are the database's: each ends when it should."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from tests.faults.cluster import Cluster
from tests.faults.service_process import ServiceProcess
from tests.waiting import eventually_true

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
HOURS: Final = timedelta(hours=2)
PLACE: Final = str(Path(__file__).with_name("shifted_clock"))


@pytest.mark.parametrize("ahead", [("scheduler", "supervisor"), ("submitter", "agent")], ids="-and-".join)
async def test_f31_no_early_expiry_and_no_immortal_lease(cluster: Cluster, ahead: tuple[str, ...]) -> None:
    cluster.tune(step_timeout="30", retry_interval="10")
    shifts = {
        kind: HOURS if kind in ahead else -HOURS for kind in ("submitter", "scheduler", "agent", "supervisor")
    }
    services = [await _started(cluster, kind, kind, shift) for kind, shift in shifts.items()]
    services.append(await _started(cluster, "agent", "second agent", HOURS))
    for service, shift in zip(services, [*shifts.values(), HOURS], strict=True):
        await service.ready()
        assert _is_shifted(service, shift)
    await cluster.load.submit(40, "good", "refused")
    assert await cluster.settle(within=120)
    early = await cluster.database.fetch("select no, attempt, failure_count from orders where attempt > 2")
    assert [tuple(row) for row in early] == []
    failed = await cluster.database.fetchval(
        "select count(*) from transitions where why like '%no answer before the deadline%' or why like 'no agent%'"
    )
    assert failed == 0, "a deadline passed early"
    await _assert_leases_end(cluster, services[-1])
    await cluster.load.submit(20, "good", "reopened", "hopeless")
    await cluster.assert_sound(within=120)


async def _started(cluster: Cluster, kind: str, name: str, shift: timedelta) -> ServiceProcess:
    seconds = str(shift.total_seconds())
    return await cluster.add(kind, name, PYTHONPATH=PLACE, FAULTS_CLOCK_SHIFT=seconds)


def _is_shifted(service: ServiceProcess, shift: timedelta) -> bool:
    """By what its log says, and when."""
    lines = service.log.read_text().splitlines()
    said = [json.loads(line) for line in lines if line.startswith("{")]
    told = datetime.fromisoformat(said[-1]["timestamp"])
    off = told - datetime.now(UTC)
    return f"clock shifted by {shift.total_seconds():.0f} s" in lines and abs(off - shift) < HOURS / 2


async def _assert_leases_end(cluster: Cluster, service: ServiceProcess) -> None:
    longest = await cluster.database.fetchval("select max(lease_until - clock_timestamp()) from instances")
    assert longest <= cluster.settings.instance_lease, "a lease that outlasts its process"
    pid = service.pid
    await service.stop(signal.SIGKILL)

    async def is_gone() -> bool:
        lapsed = "select bool_and(lease_until < clock_timestamp()) from instances where pid = $1"
        return await cluster.database.fetchval(lapsed, pid) is not False

    await eventually_true(is_gone, within=60, what="the end of the lease of a process that was killed")
