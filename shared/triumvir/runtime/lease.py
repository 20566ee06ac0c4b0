"""The lease of an instance: renewed while it lives, given back when it stops."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from datetime import timedelta
from importlib.metadata import version
from uuid import UUID

from triumvir.runtime.chassis import Chassis
from triumvir.runtime.drain import RELEASE, TAKING
from triumvir.runtime.loops import Loop
from triumvir.store.session import Session
from triumvir.store.statements import statement


class Lease:
    """This process' row in ``instances``. ``operations`` are ``agent/operation`` pairs, ``slots`` its capacity."""

    def __init__(
        self, chassis: Chassis, session: Session, *, operations: Sequence[str] = (), slots: int = 0
    ) -> None:
        self.id = UUID(chassis.instance)
        self._service = chassis.name
        self._settings = chassis.settings
        self._session = session
        self._operations = sorted(operations)
        self._slots = slots

    async def start(self, chassis: Chassis) -> None:
        """Takes the lease now, and keeps it until the process has drained."""
        await self.renew()
        chassis.add_loop(Loop("lease", self._step, self._settings.instance_renewal), order=RELEASE - 1)
        chassis.on_drain("withdraw offers", self.withdraw, order=TAKING)
        chassis.on_drain("release lease", self.release, order=RELEASE)

    async def renew(self) -> None:
        """Extends the lease; writes the row anew if it was removed meanwhile."""
        async with self._session.connection() as connection:
            await statement("renew_instance").rows(
                connection,
                id=self.id,
                service=self._service,
                host=socket.gethostname(),
                pid=os.getpid(),
                release=version("triumvir"),
                operations=self._operations,
                slots=self._slots,
                lease_seconds=self._settings.instance_lease / timedelta(seconds=1),
            )

    async def withdraw(self) -> None:
        """Nothing new is sent here; what is in hand keeps its lease."""
        async with self._session.connection() as connection:
            await statement("withdraw_instance").rows(connection, id=self.id)

    async def release(self) -> None:
        """A graceful stop: nobody has to wait for the lease to lapse."""
        async with self._session.connection() as connection:
            await statement("remove_instance").rows(connection, id=self.id)

    async def _step(self) -> bool:
        await self.renew()
        return False
