"""What happens to processes and servers. Each returns whether it really did."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Final

import psutil

from tests.faults import test_f31_clocks
from tests.faults.pressure import time_passes
from tests.faults.service_process import ServiceProcess
from tests.integration.broker.proxy import Proxy
from tests.soak.schedule import Fault
from tests.soak.system import System
from tests.waiting import eventually

START_WITHIN: Final = 180.0
MEET_WITHIN: Final = 5.0
"""Seconds in which the next commit of a path is waited for; there may be none."""


async def kill(system: System, fault: Fault) -> bool:
    """``kill -9``; it is started again at once."""
    service = system.cluster.services[fault.target]
    async with system.turns[fault.target]:
        pid, lives = service.pid, len(service.exits)
        service.send(signal.SIGKILL)
        await eventually(lambda: service.pid != pid, what=f"the next life of {service.name}")
        return service.exits[lives] == -signal.SIGKILL


async def restart(system: System, fault: Fault) -> bool:
    """Told to stop, it drains; then it is started again."""
    async with system.turns[fault.target]:
        return await _restarted(system.cluster.services[fault.target])


async def rolling_restart(system: System, fault: Fault) -> bool:
    """All, one after the other, each once the one before it is ready. Cut short when the soak is over."""
    went = []
    for name, service in system.cluster.services.items():
        async with system.turns[name]:
            if system.over.is_set():
                break
            went.append(await _restarted(service))
            await service.ready(START_WITHIN)
    return bool(went) and all(went)


async def _restarted(service: ServiceProcess, **env: str) -> bool:
    pid = service.pid
    await service.restart(*[env] if env else ())
    return service.pid != pid


async def clock_ahead(system: System, fault: Fault) -> bool:
    """In its next life it believes that it is two hours later."""
    return await _shift_clock(system, fault, test_f31_clocks.HOURS.total_seconds())


async def clock_behind(system: System, fault: Fault) -> bool:
    """In its next life it believes that it is two hours earlier."""
    return await _shift_clock(system, fault, -test_f31_clocks.HOURS.total_seconds())


async def _shift_clock(system: System, fault: Fault, seconds: float) -> bool:
    service, said = system.cluster.services[fault.target], f"clock shifted by {seconds:.0f} s"
    async with system.turns[fault.target]:
        before = _count(service.log, said)
        await _restarted(service, PYTHONPATH=test_f31_clocks.PLACE, FAULTS_CLOCK_SHIFT=str(seconds))
        await eventually(
            lambda: _count(service.log, said) > before, what=f"a shifted clock of {service.name}"
        )
        return True


def _count(log: Path, text: str) -> int:
    return log.read_text().splitlines().count(text)


async def sleep(system: System, fault: Fault) -> bool:
    """Stopped until its lease has lapsed and others have taken over; then it goes on as if nothing had been."""
    service = system.cluster.services[fault.target]
    async with system.turns[fault.target]:
        asleep, lives = psutil.Process(service.pid), len(service.exits)
        service.send(signal.SIGSTOP)
        try:
            await time_passes(fault.lasts)
            return asleep.status() == psutil.STATUS_STOPPED and len(service.exits) == lives
        finally:
            service.send(signal.SIGCONT)


async def kill_broker(system: System, fault: Fault) -> bool:
    """``kill -9``, and started again."""
    broker = system.servers.broker
    killed = broker.pid
    await asyncio.to_thread(broker.kill)
    await asyncio.to_thread(broker.start, within=START_WITHIN)
    return broker.pid != killed


async def crash_postgres(system: System, fault: Fault) -> bool:
    """Stopped at once, nothing put in order; started again."""
    database = system.servers.database
    crashed = database.pid
    await asyncio.to_thread(database.restart, "immediate")
    return database.pid != crashed


async def cut_broker(system: System, fault: Fault) -> bool:
    """Every connection to it is reset."""
    there = system.broker.connections
    system.broker.cut()
    return there > 0


async def silence_broker(system: System, fault: Fault) -> bool:
    """No byte from or to it; then every connection is reset."""
    return await _silence(system.broker, fault.lasts)


async def cut_off_supervisor(system: System, fault: Fault) -> bool:
    """One supervisor's bytes do not reach the database, nor the other way round; then its connections are reset."""
    return await _silence(system.way_of_one, fault.lasts)


async def _silence(proxy: Proxy, seconds: float) -> bool:
    there = proxy.connections
    proxy.blackhole()
    try:
        await time_passes(seconds)
    finally:
        proxy.cut()
        proxy.heal()
    return there > 0


async def lose_commit(system: System, fault: Fault) -> bool:
    """The next commit on this path happens, and nobody is told."""
    lost = system.commits.swallowed[fault.target]
    system.commits.swallow(fault.target, 1)
    try:
        await eventually(lambda: system.commits.swallowed[fault.target] > lost, within=MEET_WITHIN)
    except AssertionError:
        system.commits.withdraw(fault.target)
    return system.commits.swallowed[fault.target] > lost
