"""A private broker and a private database together."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from triumvir.local import folders, leftovers
from triumvir.local.broker import PrivateBroker
from triumvir.local.database import PrivateDatabase
from triumvir.local.started import Started


class PrivateServers(Started):
    """``broker`` and ``database`` under one folder; without one, under a temporary one that is removed.

    ``broker_settings`` are added to ``rabbitmq.conf``. Methods block; ``async with`` does not.
    """

    def __init__(
        self, folder: Path | None = None, *, broker_settings: Mapping[str, str] | None = None
    ) -> None:
        self._temporary = folder is None
        self.folder = folder.resolve() if folder else leftovers.make_temporary()
        self.broker = PrivateBroker(self.folder / "broker", settings=broker_settings)
        self.database = PrivateDatabase(self.folder / "database")

    def start(self) -> None:
        """Start both at once; neither is left running when the other cannot start."""
        try:
            with ThreadPoolExecutor(2) as pool:
                starts = [pool.submit(self.broker.start), pool.submit(self.database.start)]
            for start in starts:
                start.result()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop both in order; data and ports are kept for the next start."""
        with ThreadPoolExecutor(2) as pool:
            stops = [pool.submit(self.broker.stop), pool.submit(self.database.stop)]
        for stop in stops:
            stop.result()

    def env(self) -> dict[str, str]:
        """The settings by which processes find these servers."""
        return {
            "TRIUMVIR_BROKER_URL": self.broker.url,
            "TRIUMVIR_MANAGEMENT_URL": self.broker.management_url,
            "TRIUMVIR_DATABASE_URL": self.database.url,
            "TRIUMVIR_ORDERS_DSN": "",  # an empty one is none, whatever the environment says
        }

    def _clean_up(self) -> None:
        if self._temporary:
            self.broker.kill()  # nothing is kept, so there is nothing to close in order
            self.database.stop("immediate")
            folders.remove(self.folder)
        else:
            self.stop()
