"""``triumvir submit``: orders from a file."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Final

import typer
from rich.progress import TaskID

from triumvir.cli import ndjson
from triumvir.cli.board import Board
from triumvir.cli.equipment import client_url
from triumvir.cli.output import run
from triumvir.client import Client, Order, Submission
from triumvir.client.outcome import ENDS, REFUSALS, RESTS
from triumvir.contracts.names import is_name
from triumvir.errors import ConfigurationError

STDIN: Final = "-"
_OVER: Final = ENDS | RESTS


def submit(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="NDJSON, one order a line; - reads standard input.")
    ],
    workflow: Annotated[
        str | None,
        typer.Option("--workflow", "-w", help="For lines that name none; such a line may be a bare payload."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show statuses until every order has come to an end.")
    ] = False,
    url: Annotated[
        str | None, typer.Option(help="The client's URL; else TRIUMVIR_CLIENT_URL.", show_default=False)
    ] = None,
    instance: Annotated[str | None, typer.Option(help="Read the status queue of this instance.")] = None,
) -> None:
    """Submit every order in a file.

    A line is {"order_id": ..., "payload": {...}} with, if wanted, "workflow", "version", "priority",
    "not_before" and "progress"; or the payload itself, with an "order_id" in it, if --workflow is given. A bad
    line is told by its number and not sent; the others are. Sending a file again is safe. Exit code 1 if
    anything was not sent, was rejected, or waits for an operator in the end.

    \b
    Examples:
      triumvir submit orders.ndjson --workflow order-fulfilment
      triumvir submit orders.ndjson -w order-fulfilment --follow
      zcat orders.gz | triumvir submit - -w order-fulfilment
    """
    if workflow is not None and not is_name(workflow):
        raise typer.BadParameter(f"--workflow {workflow!r}: use 1 to 40 of a-z, 0-9 and -")
    address = client_url(url)
    with _opened(file) as (lines, total), Board() as board:
        sending = _Sending(board, board.bar("sending", total))
        try:
            run(_submit(Client(address, instance=instance), lines, workflow, sending, follow=follow))
        finally:
            board.move(sending.bar, sending.sent + sending.failed)
    sending.close()
    if sending.went_wrong:
        raise typer.Exit(1)


async def _submit(
    client: Client, lines: IO[bytes], workflow: str | None, sending: _Sending, *, follow: bool
) -> None:
    watching: list[asyncio.Task[None]] = []
    async with client:
        async for submitted in client.submit_many(sending.good(ndjson.read(lines, workflow))):
            if submitted.order is None:
                sending.refused(str(submitted.error))
            elif sending.accepted() and follow:
                watching.append(asyncio.create_task(sending.follow(submitted.order)))
        try:
            await asyncio.gather(*watching)
        finally:
            for task in watching:
                task.cancel()


@dataclass
class _Sending:
    """What was sent so far, and how the followed orders stand."""

    board: Board
    bar: TaskID
    sent: int = 0
    failed: int = 0
    last: dict[str, str] = field(default_factory=dict)
    _numbers: deque[int] = field(default_factory=deque)
    _following: TaskID | None = None
    _over: int = 0
    _began: float = field(default_factory=time.monotonic)

    def good(self, lines: Iterator[ndjson.Line]) -> Iterator[Submission]:
        """The submissions among the lines; of the others each is told."""
        for line in lines:
            if line.submission is not None:
                self._numbers.append(line.number)
                yield line.submission
            else:
                self.failed += 1
                self.board.complain(f"line {line.number}: {line.fault}")

    def accepted(self) -> bool:
        self._numbers.popleft()
        self.sent += 1
        self._move()
        return True

    def refused(self, why: str) -> None:
        """The next line in order could not be sent."""
        self.failed += 1
        self.board.complain(f"line {self._numbers.popleft()}: {why}")
        self._move()

    async def follow(self, order: Order) -> None:
        """Show an order's statuses until it has ended, or rests until an operator decides."""
        async for status in order.statuses():
            self.board.show(status)
            self.last[order.order_id] = status.status
            self._over += status.status in _OVER
            self._move_following()
            if status.status in _OVER:
                return

    @property
    def went_wrong(self) -> bool:
        return self.failed > 0 or any(status in RESTS | REFUSALS for status in self.last.values())

    def close(self) -> None:
        """The last words: how many were sent, and how they ended."""
        seconds = time.monotonic() - self._began
        if self.last:
            self.board.close_with(Counter(self.last.values()))
        self.board.conclude(f"{self.sent} sent, {self.failed} failed in {seconds:.1f} s")

    def _move(self) -> None:
        self.board.move(self.bar, self.sent + self.failed, f"{self.failed} failed" if self.failed else "")

    def _move_following(self) -> None:
        if self._following is None:
            self._following = self.board.bar("following", self.sent)
        counts = ", ".join(f"{count} {name}" for name, count in sorted(Counter(self.last.values()).items()))
        self.board.move(self._following, self._over, counts, total=self.sent)


@contextmanager
def _opened(file: str) -> Iterator[tuple[IO[bytes], int | None]]:
    """The lines of a file and how many there are. Raises ConfigurationError if it cannot be read."""
    if file == STDIN:
        yield sys.stdin.buffer, None
        return
    try:
        with Path(file).open("rb") as opened:
            total = sum(1 for line in opened if line.strip())
            opened.seek(0)
            yield opened, total
    except FileNotFoundError:
        raise ConfigurationError(f"{file}: there is no such file") from None
    except (IsADirectoryError, PermissionError) as error:
        raise ConfigurationError(f"{file}: {error.strerror}") from None
