"""Accepting orders: each document and state record is created once, whoever sends it however often."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from triumvir.contracts.messages import OrderSubmit
from triumvir.errors import ContractError
from triumvir.runtime.acceptance import create, received
from triumvir.runtime.letters import refused
from triumvir.runtime.outgoing import DeadLetter, StatusFact
from triumvir.runtime.refs import Ref, StatusRef
from triumvir.store.acceptance import Acceptance, AtOnce, Desk, Key, create_orders, keys
from triumvir.store.statements import Connection, statement
from triumvir.telemetry import metrics, tracing
from triumvir_submitter.admission import Received, digest

KNOWN_SECONDS: Final = 1.0
"""What was read of workflows and open orders is gone by for so long where the write compares it."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A submission that may be accepted, with the version it is pinned to."""

    received: Received
    message: OrderSubmit
    version: int
    digest: bytes
    trace: str

    @property
    def key(self) -> Key:
        return self.received.key

    @property
    def acceptance(self) -> Acceptance:
        client, order_id = self.key
        message = self.message
        return Acceptance(
            client, order_id, self.digest, message.workflow, self.version, message.priority,
            message.not_before, message.progress, self.received.reply_queue, self.trace,
        )  # fmt: skip


@dataclass(slots=True)
class Accepted:
    """What one transaction did with its submissions."""

    new: list[StatusFact] = field(default_factory=list)
    again: list[StatusFact] = field(default_factory=list)
    refused: list[DeadLetter] = field(default_factory=list)

    @property
    def refs(self) -> list[Ref]:
        return [StatusRef(fact.no, fact.n) for fact in self.new]


class Catalogue:
    """What can be ordered at present: workflows with their versions, and how many orders are open."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._read_at = float("-inf")
        self._versions: dict[str, set[int]] = {}
        self.open_orders = 0

    @property
    def is_old(self) -> bool:
        """Whether what was read is too old even for a write that compares it."""
        return self._clock() - self._read_at > KNOWN_SECONDS

    def newest(self, workflows: Iterable[str]) -> dict[str, int]:
        """The newest version of these, as far as there is one."""
        return {name: max(self._versions[name]) for name in workflows if name in self._versions}

    async def read(self, connection: Connection) -> None:
        """Looks again."""
        self._read_at = self._clock()
        versions: dict[str, set[int]] = {}
        for row in await statement("look_at_the_door").rows(connection):
            versions.setdefault(row["name"], set()).add(row["version"])
            self.open_orders = row["open_orders"]
        metrics.ORDERS_OPEN.set(self.open_orders)
        self._versions = versions

    def version(self, message: OrderSubmit) -> int:
        """The version an order is pinned to. ContractError (``unknown_workflow``) if there is none."""
        known = self._versions.get(message.workflow)
        if not known:
            problem = f"no workflow is called {message.workflow!r}"
            raise ContractError("unknown_workflow", "workflow", problem, "apply it: triumvir workflows apply")
        if message.version is None:
            return max(known)
        if message.version not in known:
            problem = f"{message.workflow!r} has no version {message.version}"
            fix = f"name one of {', '.join(map(str, sorted(known)))}, or leave it out"
            raise ContractError("unknown_workflow", "version", problem, fix)
        return message.version


def submission(received: Received, message: OrderSubmit, catalogue: Catalogue) -> Submission:
    """Pins the version and the trace of a submission."""
    trace = received.trace
    with tracing.process(
        received.delivery.queue,
        received.delivery.message_id or "",
        f"{received.client}/{message.order_id}",
        trace,
    ) as span:
        return Submission(received, message, catalogue.version(message), digest(message), span.traceparent)


async def accept(
    connection: Connection,
    submissions: Sequence[Submission],
    open_orders: int,
    desk: Desk,
    deposited: Mapping[Key, bytes] | None = None,
) -> Accepted:
    """Accepts submissions of distinct keys, in the caller's transaction. The cap is soft by one batch of every
    submitter. ``deposited``: the digests found on either side, if the documents are in another database.
    """
    ordered = sorted(submissions, key=lambda submission: submission.key)
    room = desk.most_open - open_orders
    new = await _create(connection, ordered, desk) if room > 0 and deposited is None else {}
    accepted = Accepted(new=list(new.values()))
    left = [submission for submission in ordered if submission.key not in new]
    if not left:
        return accepted
    stored = await _stored(connection, left) if deposited is None else deposited
    other = [s for s in left if stored.get(s.key, s.digest) != s.digest]
    same = [s for s in left if s not in other]
    accepted.refused += [_conflict(submission) for submission in other]
    # In another database, a document was written while there was room, or is there already: it has its order.
    admitted = [s for s in same if s.key in stored] if room > 0 or deposited is not None else []
    created = await create(connection, [submission.acceptance for submission in admitted], desk)
    accepted.new += created.values()
    if created and deposited is None:
        # what was purged may have been forgotten since its document was looked at
        await _keep_documents(connection, [s for s in admitted if s.key in created])
    await _answer_again(connection, [s for s in same if s.key not in created], accepted, desk.most_open)
    return accepted


async def accept_at_once(
    connection: Connection, submissions: Sequence[Submission], desk: Desk, at_once: AtOnce
) -> tuple[Accepted, int | None]:
    """Accepts orders that are all new, in one statement that is a transaction of its own, with the outbox row, whose id
    comes, too. Nothing is done and a serialization failure is raised if one of them is there already, if no room is
    left, or if ``at_once`` names a version that is not the newest any more.
    """
    ordered = sorted(submissions, key=lambda submission: submission.key)
    acceptances = [submission.acceptance for submission in ordered]
    created = await create_orders(connection, acceptances, desk, _payloads(ordered), at_once)
    return Accepted(new=list(received(acceptances, created).values())), created.outbox_id


async def _create(
    connection: Connection, submissions: Sequence[Submission], desk: Desk
) -> dict[Key, StatusFact]:
    """Documents and state records of those that are new."""
    acceptances = [submission.acceptance for submission in submissions]
    return await create(connection, acceptances, desk, _payloads(submissions))


def _payloads(submissions: Sequence[Submission]) -> list[str]:
    return [submission.message.payload.text for submission in submissions]


async def digests(connection: Connection, submissions: Sequence[Submission]) -> dict[Key, bytes]:
    """What the orders that exist under these keys were made of."""
    wanted = keys(submission.key for submission in submissions)
    rows = await statement("order_digests").rows(connection, **wanted)
    return {(row["client"], row["order_id"]): row["digest"] for row in rows}


async def _keep_documents(connection: Connection, submissions: Sequence[Submission]) -> None:
    """Writes those that are missing."""
    await statement("keep_documents").rows(
        connection,
        **keys(submission.key for submission in submissions),
        payloads=_payloads(submissions),
        digests=[submission.digest for submission in submissions],
    )


async def _stored(connection: Connection, submissions: Sequence[Submission]) -> dict[Key, bytes]:
    """The digests of the documents that are there."""
    wanted = keys(submission.key for submission in submissions)
    rows = await statement("read_digests").rows(connection, **wanted)
    return {(row["client"], row["order_id"]): row["digest"] for row in rows}


async def _answer_again(
    connection: Connection, submissions: Sequence[Submission], accepted: Accepted, most_open: int
) -> None:
    """The same order again is answered with its present status; one that found no room is refused."""
    if not submissions:
        return
    present = {
        (row["client"], row["order_id"]): row
        for row in await statement("last_statuses").rows(connection, **keys(s.key for s in submissions))
    }
    for submission in submissions:
        row = present.get(submission.key)
        if row is None:
            accepted.refused.append(_full(submission, most_open))
        elif row["digest"] != submission.digest:
            accepted.refused.append(_conflict(submission))
        else:
            fields = {name: value for name, value in row.items() if name != "digest"}
            accepted.again.append(StatusFact(**fields))


def _conflict(submission: Submission) -> DeadLetter:
    client, order_id = submission.key
    error = ContractError(
        "conflict",
        "order_id",
        f"{order_id!r} was submitted before with another workflow, version or payload",
        "use a new order_id; the first order goes on unchanged",
    )
    return refused(submission.received.delivery, error, client=client)


def _full(submission: Submission, most: int) -> DeadLetter:
    error = ContractError("full", "order", f"{most} orders are open already", "submit it again later")
    return refused(submission.received.delivery, error, client=submission.key[0])
