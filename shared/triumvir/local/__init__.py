"""A private broker and database for ``triumvir dev``, the demo, the tests and the benchmark."""

from triumvir.local.broker import PrivateBroker
from triumvir.local.database import PrivateDatabase
from triumvir.local.servers import PrivateServers

__all__ = ["PrivateBroker", "PrivateDatabase", "PrivateServers"]
