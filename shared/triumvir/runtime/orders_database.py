"""A service's side of the orders database. An outage of it is a state of affairs, not a fault of who meets it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from triumvir.errors import DocumentsAway
from triumvir.runtime.chassis import Chassis
from triumvir.runtime.loops import Loop
from triumvir.runtime.payloads import Payloads
from triumvir.store.documents import OrdersDatabase, open_documents
from triumvir.store.session import Store
from triumvir.telemetry import events
from triumvir.telemetry.logs import get_logger

log = get_logger(__name__)


async def orders_database(chassis: Chassis, store: Store) -> OrdersDatabase | None:
    """The orders database, for as long as the process lives and counted for its readiness; None if the documents are
    with the state records. It may be away. Raises StoreError if it is not the one that belongs to ``store``.
    """
    documents = await open_documents(chassis.settings, chassis.name, store.probe)
    if documents is not None:
        await chassis.enter(documents)
        chassis.add_readiness("orders database", documents.ready)
    return documents


async def open_payloads(chassis: Chassis, store: Store) -> Payloads:
    """The payloads of orders to dispatch, from wherever the documents are; an orders database is looked after."""
    payloads = Payloads(await orders_database(chassis, store))
    if payloads.documents is not None:
        chassis.add_loop(Loop("orders database", payloads.look, chassis.settings.poll_interval))
    return payloads


def patient(step: Callable[[], Awaitable[bool]]) -> Callable[[], Awaitable[bool]]:
    """A loop's step that comes again at the interval while the orders database is away: no growing pause, so that work
    goes on soon after, and no end by the watchdog, which would send away what is in hand.
    """
    away = False

    async def patient_step() -> bool:
        nonlocal away
        try:
            worked = await step()
        except DocumentsAway as error:
            if not away:
                log.warning(events.DATABASE_LOST, database="orders", error=str(error))
            away = True
            return False
        if away:
            log.info(events.DATABASE_FOUND, database="orders")
        away = False
        return worked

    return patient_step
