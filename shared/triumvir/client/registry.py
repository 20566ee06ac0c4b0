"""The orders that somebody holds and the feeds that somebody reads: where an arriving status goes."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

from triumvir.client.feed import Feed
from triumvir.client.order import Line, Order
from triumvir.client.submission import fingerprint
from triumvir.contracts.messages import OrderSubmit, Status
from triumvir.contracts.names import order_of_submission
from triumvir.errors import BrokerError, ContractError


class Registry:
    """Holds orders weakly: one that nobody watches is forgotten, its statuses go to the feeds only."""

    def __init__(self) -> None:
        self._orders: WeakValueDictionary[str, Order] = WeakValueDictionary()
        self._feeds: set[Feed] = set()

    def submitted(self, line: Line, message: OrderSubmit) -> Order:
        """The order that a submission is about: one that is held already, or a new one.

        Raises ContractError if the one held was submitted with other data: its statuses would be taken for this one's.
        """
        mark = fingerprint(message)
        known = self._orders.get(message.order_id)
        if known is None or known.refused_at is not None:
            refused_at = known.refused_at if known is not None else None
            return self._remember(Order(line, message.order_id, fingerprint=mark, refused_at=refused_at))
        if known.fingerprint not in (None, mark):
            raise ContractError(
                "conflict",
                "order_id",
                f"{message.order_id!r} was submitted here with other data",
                "give each order an id of its own",
            )
        return known

    def attached(self, line: Line, order_id: str) -> Order:
        """The order of this id, to be asked for when it is first watched unless it is held already."""
        known = self._orders.get(order_id)
        if known is not None and known.refused_at is None:
            return known
        return self._remember(Order(line, order_id))

    def open_feed(self) -> Feed:
        """A feed of every status from now on."""
        feed = Feed()
        self._feeds.add(feed)
        return feed

    def close_feed(self, feed: Feed) -> None:
        self._feeds.discard(feed)

    def take(self, client: str, status: Status) -> None:
        """Hand a status to its order and to every feed."""
        order_id = status.order_id or order_of_submission(client, status.submission or "") or ""
        order = self._orders.get(order_id)
        if order is not None:
            order.receive(status, asyncio.get_running_loop().time())
        for feed in self._feeds:
            feed.put(status)

    def ask_again(self) -> None:
        """Statuses may have been lost: have every watched order asked for."""
        now = asyncio.get_running_loop().time()
        for order in list(self._orders.values()):
            order.ask_again(now)

    def fail(self, fault: BrokerError) -> None:
        """Nothing will come any more: tell everybody."""
        for order in list(self._orders.values()):
            order.fail(fault)
        for feed in self._feeds:
            feed.fail(fault)

    def _remember(self, order: Order) -> Order:
        self._orders[order.order_id] = order
        return order
