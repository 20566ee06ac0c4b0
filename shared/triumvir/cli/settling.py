"""``triumvir dead replay|discard|resolve``: what operators do to dead letters, once each, with their name to it."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final
from uuid import UUID

import typer

from triumvir.broker import ORDERS
from triumvir.cli.equipment import settings
from triumvir.cli.output import moment, run, say
from triumvir.contracts.messages import OrderQuery
from triumvir.errors import ConfigurationError
from triumvir.store.operators import connect
from triumvir.store.reads import DeadLetter, LetterEvent, Reads
from triumvir.store.settling import Settlement, ask_replay, settle
from triumvir.store.statements import Connection

_POLL_SECONDS: Final = 0.1
_IDS_HELP: Final = "Their ids, or how the ids begin."
_ANSWERS: Final = ("replayed", "refused_again")

Ids = Annotated[list[str], typer.Argument(metavar="ID", help=_IDS_HELP)]
Why = Annotated[str, typer.Option("--note", help="Why; kept with your name in the letter's log.")]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one letter; ``done``: what was asked for is so now, whoever did it."""

    text: str
    done: bool


Said = tuple[UUID, Outcome]
Act = Callable[[Connection, Sequence[DeadLetter]], AsyncIterator[Said]]


def replay(
    ids: Ids,
    note: Annotated[str | None, typer.Option(help="Why; kept with your name in the letter's log.")] = None,
    wait: Annotated[
        float,
        typer.Option(min=0, metavar="SECONDS", help="So long for a submitter's answer; 0: do not wait."),
    ] = 10.0,
) -> None:
    """Have messages to `orders` handled again, as if each had just come from the client recorded with it.

    Repair the cause first. What is accepted is settled; what is refused again stays open, with the reason it has
    now. Doing it twice does nothing twice: an order is accepted once.

    \b
    Examples:
      triumvir dead replay 3f2a9c01
      triumvir dead list --reason unknown_workflow --json | jq -r '.[].id' | xargs triumvir dead replay
    """

    async def act(connection: Connection, letters: Sequence[DeadLetter]) -> AsyncIterator[Said]:
        asked: dict[UUID, int] = {}
        for letter in letters:
            outcome = await _ask(connection, letter, note)
            if isinstance(outcome, int):
                asked[letter.id] = outcome
            else:
                yield letter.id, outcome
        async for said in _answers(connection, asked, wait):
            yield said

    _each(ids, act)


def discard(ids: Ids, note: Why) -> None:
    """Settle dead letters that nothing is to come of. They are kept; `dead list --all` shows them.

    \b
    Example:
      triumvir dead discard 3f2a9c01 --note "test message of shop-a"
    """
    _settle(ids, "discarded", note)


def resolve(ids: Ids, note: Why) -> None:
    """Settle dead letters whose wish was seen to in another way.

    \b
    Example:
      triumvir dead resolve 3f2a9c01 --note "shop-a sent it again as 536365-b"
    """
    _settle(ids, "resolved", note)


async def find(reads: Reads, letter_id: str) -> DeadLetter:
    """The letter whose id begins like this. Raises ConfigurationError if there is none, or more than one."""
    found = await reads.dead_letter(letter_id)
    if found is None:
        raise ConfigurationError(
            f"no dead letter's id begins with {letter_id!r}; see: triumvir dead list --all"
        )
    return found


def _each(ids: Sequence[str], act: Act) -> None:
    """Does it to all of them; exit code 1 if one could not be done. An id that is none stops it at the start."""

    async def work() -> bool:
        async with connect(settings()) as connection:
            found = [await find(Reads(connection), letter_id) for letter_id in ids]
            done = True
            async for letter_id, outcome in act(connection, list({each.id: each for each in found}.values())):
                say(f"{str(letter_id)[:8]}  {outcome.text}")
                done = done and outcome.done
            return done

    if not run(work()):
        raise typer.Exit(1)


def _settle(ids: Sequence[str], settlement: Settlement, note: str) -> None:
    if not note.strip():
        raise typer.BadParameter("say why, for whoever reads it later", param_hint="--note")

    async def act(connection: Connection, letters: Sequence[DeadLetter]) -> AsyncIterator[Said]:
        for letter in letters:
            if await settle(connection, letter.id, settlement, _who(), note):
                yield letter.id, Outcome(settlement, True)
            else:
                yield letter.id, await _present(connection, letter, settlement)

    _each(ids, act)


async def _ask(connection: Connection, letter: DeadLetter, note: str | None) -> Outcome | int:
    """The number in its log after which the answer comes; or what keeps it from being asked for."""
    if letter.settlement is None and (why := _why_not(letter)):
        return Outcome(f"cannot be replayed: {why}", False)
    asked = await ask_replay(connection, letter.id, _who(), note)
    if asked is not None:
        return asked
    waiting = await _waiting_replay(connection, letter)
    return await _present(connection, letter, "replayed") if waiting is None else waiting.n


async def _answers(connection: Connection, asked: Mapping[UUID, int], wait: float) -> AsyncIterator[Said]:
    """What submitters made of them, as it comes; each looked for at least once."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait
    left = dict(asked)
    while left:
        for letter_id, n in list(left.items()):
            answer = await _answer(connection, letter_id, n)
            if answer is not None:
                del left[letter_id]
                yield letter_id, answer
        if loop.time() >= deadline:
            break
        await asyncio.sleep(_POLL_SECONDS)
    for letter_id in left:
        yield letter_id, _unanswered(wait)


async def _answer(connection: Connection, letter_id: UUID, n: int) -> Outcome | None:
    log = await Reads(connection).letter_log(letter_id)
    answer = next((event for event in log if event.n > n and event.what in _ANSWERS), None)
    if answer is None:
        return None
    done = answer.what == "replayed"
    return Outcome(f"{'replayed' if done else 'refused again'}: {answer.note}", done)


def _unanswered(wait: float) -> Outcome:
    if not wait:
        return Outcome("asked for; a submitter takes it", True)
    return Outcome(f"no submitter answered within {wait:g} s; is one running? It stays asked for", False)


async def _waiting_replay(connection: Connection, letter: DeadLetter) -> LetterEvent | None:
    """The wish that waits for its answer, if one does."""
    if (await find(Reads(connection), str(letter.id))).replay_asked_at is None:
        return None
    log = await Reads(connection).letter_log(letter.id)
    return next((event for event in reversed(log) if event.what == "replay_asked"), None)


async def _present(connection: Connection, letter: DeadLetter, wanted: str) -> Outcome:
    """What is so already, and who did it."""
    reads = Reads(connection)
    now = await find(reads, str(letter.id))
    if now.settlement is not None:
        log = await reads.letter_log(letter.id)
        last = next(event for event in reversed(log) if event.what == now.settlement)
        return Outcome(f"was {now.settlement} already, {_by(last)}", now.settlement == wanted)
    waiting = await _waiting_replay(connection, letter)
    if waiting is None:
        return Outcome("changed at this very moment; nothing was done, look again", False)
    again = f"triumvir dead show {str(letter.id)[:8]}"
    return Outcome(f"a replay was asked for, {_by(waiting)}; it is answered first: {again}", False)


def _by(event: LetterEvent) -> str:
    why = f": {event.note}" if event.note else ""
    return f"by {event.who} at {moment(event.at)}{why}"


def _why_not(letter: DeadLetter) -> str | None:
    """Why a letter cannot be handled again; None if it can."""
    if letter.queue != ORDERS:
        order = letter.correlation_id or "CLIENT/ORDER_ID"
        return (
            f"a message to {letter.queue!r} is evidence, its order goes on by its own deadlines"
            f" (triumvir orders show {order}); then resolve or discard it"
        )
    if letter.client is None:
        return "nobody knows whose it is, it came without a user_id; have its sender send it again"
    if letter.type == OrderQuery.TYPE:
        return "it is a question; its client asks again"
    return None


def _who() -> str:
    return f"operator:{getpass.getuser()}"
