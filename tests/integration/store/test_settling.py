"""Dead letters under operators' and submitters' hands: each guarded write lands once, or says why not."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from triumvir.store.reads import Reads
from triumvir.store.settling import ask_replay, settle
from triumvir.store.statements import Connection, statement

WHO = "operator:test"


async def keep(connection: Connection, letter_id: UUID | None = None) -> UUID:
    """A letter of ``orders``; the same id again is the same message again."""
    letter_id = letter_id or uuid4()
    values: dict[str, list[Any]] = {
        "ids": [letter_id], "queues": ["orders"], "reasons": ["invalid"], "details": ["because"],
        "clients": ["shop-a"], "message_ids": [None], "types": [None], "correlation_ids": [None],
        "reply_to": [None], "content_types": [None], "headers": ["{}"], "bodies": [b"{}"],
    }  # fmt: skip
    await statement("insert_dead_letters").rows(connection, **values)
    return letter_id


async def claim(connection: Connection, seconds: float = 600.0) -> asyncpg.Record | None:
    return await statement("claim_replay").row(connection, lease_seconds=seconds)


async def lock(connection: Connection, claimed: asyncpg.Record | None) -> bool:
    assert claimed is not None
    found = await statement("lock_replay").value(connection, id=claimed["id"], lease=claimed["replay_lease"])
    return found is not None


async def log(connection: Connection, letter_id: UUID) -> list[str]:
    return [event.what for event in await Reads(connection).letter_log(letter_id)]


async def test_of_many_that_settle_one_letter_at_once_one_does(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    for _ in range(10):
        letter_id = await keep(connection)
        landed = await asyncio.gather(
            settle(connection, letter_id, "discarded", WHO, "one"),
            settle(other, letter_id, "resolved", WHO, "two"),
        )
        assert sorted(landed) == [False, True]
        assert await log(connection, letter_id) == ["discarded" if landed[0] else "resolved"]


async def test_a_replay_is_asked_for_once_and_nothing_is_settled_while_it_waits(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    letter_id = await keep(connection)
    asked = await asyncio.gather(
        ask_replay(connection, letter_id, WHO, None), ask_replay(other, letter_id, WHO, None)
    )
    assert sorted(n is None for n in asked) == [False, True]
    assert not await settle(connection, letter_id, "discarded", WHO, "no")
    assert await log(connection, letter_id) == ["replay_asked"]


async def test_a_settled_letter_is_not_replayed(connection: asyncpg.Connection) -> None:
    letter_id = await keep(connection)
    assert await settle(connection, letter_id, "resolved", WHO, "by hand")
    assert await ask_replay(connection, letter_id, WHO, None) is None
    assert await claim(connection) is None


async def test_a_replay_is_leased_to_one_submitter_until_that_fell_silent(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    await ask_replay(connection, await keep(connection), WHO, None)
    async with connection.transaction():
        first = await claim(connection, 0.0)
        assert await claim(other) is None, "it is being taken"
    second = await claim(other)
    assert (first is not None, second is not None) == (True, True)
    assert second is not None
    assert second["replay_tries"] == 2
    assert await claim(connection) is None, "it is leased"
    assert not await lock(connection, first), "whoever comes late finds it taken over"
    assert await lock(other, second)


async def test_the_oldest_replay_comes_first(connection: asyncpg.Connection) -> None:
    letters = [await keep(connection) for _ in range(3)]
    for letter_id in letters:
        await ask_replay(connection, letter_id, WHO, None)
    claimed = [await claim(connection) for _ in range(3)]
    assert [row["id"] for row in claimed if row is not None] == letters


async def test_a_replay_that_is_answered_waits_no_more_and_can_be_asked_for_again_if_it_was_refused(
    connection: asyncpg.Connection,
) -> None:
    letter_id = await keep(connection)
    await ask_replay(connection, letter_id, WHO, None)
    await claim(connection)
    refusal = {"reason": "full", "detail": "later", "note": "full: later", "who": "submitter:1"}
    await statement("refuse_replay").rows(connection, id=letter_id, **refusal)
    assert await claim(connection) is None
    assert await ask_replay(connection, letter_id, WHO, "there is room now") is not None
    again = await claim(connection)
    assert again is not None
    assert (again["reason"], again["replay_tries"]) == ("full", 1), "its tries are counted anew"
    await statement("settle_replay").rows(connection, id=letter_id, who="submitter:1", note="accepted")
    assert await log(connection, letter_id) == ["replay_asked", "refused_again", "replay_asked", "replayed"]
    assert await statement("read_dead_letters").rows(connection, ids=[letter_id]) == [], (
        "nothing is told of it"
    )


async def test_a_message_that_comes_again_opens_its_settled_letter_and_leaves_an_open_one_alone(
    connection: asyncpg.Connection,
) -> None:
    letter_id = await keep(connection)
    await keep(connection, letter_id)
    assert await log(connection, letter_id) == []
    await settle(connection, letter_id, "discarded", WHO, "a test")
    for _ in range(2):
        await keep(connection, letter_id)
    assert await log(connection, letter_id) == ["discarded", "came_again"]
    assert [letter.settlement for letter in await Reads(connection).dead_letters()] == [None]
    assert await settle(connection, letter_id, "discarded", WHO, "again")


async def test_open_letters_are_listed_and_counted_and_settled_ones_shown_when_asked_for(
    connection: asyncpg.Connection,
) -> None:
    letters = [await keep(connection) for _ in range(3)]
    await settle(connection, letters[0], "resolved", WHO, "by hand")
    reads = Reads(connection)
    assert {letter.id for letter in await reads.dead_letters(reason="invalid")} == set(letters[1:])
    assert len(await reads.dead_letters(settled=True)) == 3
    assert await reads.dead_letters(reason="full") == []
    (count,) = await statement("count_open_dead_letters").rows(connection)
    assert tuple(count) == ("orders", 2)


@pytest.mark.parametrize(
    "changed",
    [
        "settlement = 'forgotten', settled_at = now()",
        "settlement = 'resolved'",
        "settlement = 'resolved', settled_at = now(), replay_asked_at = now()",
        "replay_lease = now()",
    ],
)
async def test_a_letter_that_cannot_be_is_refused_by_the_schema(
    connection: asyncpg.Connection, changed: str
) -> None:
    await keep(connection)
    with pytest.raises(asyncpg.CheckViolationError):
        await connection.execute(f"update dead_letters set {changed}")
