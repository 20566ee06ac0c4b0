"""Orders that wait too long are told once, whoever looks and however often; nothing is moved by it."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.integration.supervision.conftest import Desk
from tests.waiting import eventually
from triumvir.store.statements import statement

_UNCLAIMED = (
    "insert into orders (client, order_id, workflow, version, digest, rank, status_queue, sequence, history)"
)


async def _wait(desk: Desk, count: int, minutes: int, held_by: str | None = None) -> list[int]:
    """Orders that wait for so many minutes, unclaimed or held."""
    rows = await desk.db.fetch(
        f"with made as ({_UNCLAIMED} select 'shop', coalesce($3::text, 'due') || $2::int || '-' || n,"
        " 'solo', 1, '\\x00', n, 'status.shop', 1, 1 from generate_series(1, $1::int) n returning no),"
        " told as (insert into transitions (no, n, at, who, from_state, to_state, why, status, sequence)"
        " select no, 1, clock_timestamp() - make_interval(mins => $2::int), 'test', 'pending', 'pending', 'received',"
        " 'received', 1 from made) select no from made order by no",
        count,
        minutes,
        held_by,
    )
    nos = [row["no"] for row in rows]
    await desk.db.execute(
        "update orders set held_by = $2, held_at = clock_timestamp() - make_interval(mins => $3::int)"
        " where no = any($1)",
        nos,
        held_by,
        minutes,
    )
    return nos


async def _told(desk: Desk) -> dict[int, list[str]]:
    rows = await desk.db.fetch("select no, why from transitions where n > 1 order by no, n")
    found: dict[int, list[str]] = {}
    for row in rows:
        found.setdefault(row["no"], []).append(row["why"])
    return found


async def _alerts(desk: Desk) -> list[dict[str, Any]]:
    return [
        dict(row)
        for row in await desk.db.fetch("select no, kind, attempt from aged_orders order by no, kind")
    ]


async def test_what_waits_too_long_is_told_once_by_two_supervisors_that_look_again_and_again(
    desk: Desk,
) -> None:
    old = await _wait(desk, 3, 11)
    await _wait(desk, 3, 9)
    held = await _wait(desk, 2, 16, "agent:lab")
    await _wait(desk, 2, 14, "agent:lab")
    await _wait(desk, 2, 60, "pause:order")
    fleet = [await desk.supervisor("one"), await desk.supervisor("two")]
    for _ in range(3):
        await asyncio.gather(*(each.aged.step() for each in fleet))
    told = await _told(desk)
    assert sorted(told) == [*old, *held]
    assert all(len(whys) == 1 for whys in told.values()), told
    assert told[old[0]][0].endswith("s, and no scheduler claimed it")
    assert told[held[0]][0].endswith("s: agent:lab")
    states = await desk.db.fetch("select distinct state, locked_by, failure_count, attempt from orders")
    assert [tuple(row) for row in states] == [("pending", None, 0, 0)], "nothing was moved"


async def test_it_is_told_again_only_after_another_attempt(desk: Desk) -> None:
    (no,) = await _wait(desk, 1, 20)
    supervisor = await desk.supervisor()
    await supervisor.aged.step()
    await desk.db.execute("update transitions set at = at - interval '20 min' where n = 2")
    await supervisor.aged.step()
    assert len((await _told(desk))[no]) == 1
    await desk.db.execute("update orders set attempt = attempt + 1")
    await supervisor.aged.step()
    assert len((await _told(desk))[no]) == 2
    assert await _alerts(desk) == [{"no": no, "kind": "unclaimed", "attempt": 1}]


async def test_an_order_that_is_claimed_meanwhile_is_not_told(desk: Desk) -> None:
    (no,) = await _wait(desk, 1, 20)
    supervisor = await desk.supervisor()
    genuine = supervisor.aged._read

    async def pause(walk: Any) -> Any:
        rows = await genuine(walk)
        await desk.db.execute("update orders set history = 2 where no = $1 and history = 1", no)
        return rows

    supervisor.aged._read = pause  # type: ignore[method-assign]
    await supervisor.aged.step()
    assert await _told(desk) == {}
    assert await _alerts(desk) == []


async def test_a_released_order_waits_since_its_release(desk: Desk) -> None:
    await _wait(desk, 1, 60, "agent:lab")
    await statement("release_held").rows(desk.db, reason="agent:lab", most=10)
    await (await desk.supervisor()).aged.step()
    assert await _told(desk) == {}


async def test_schedulers_are_hinted_at_what_waits_too_long(desk: Desk) -> None:
    await _wait(desk, 1, 20)
    await (await desk.supervisor()).aged.step()
    await eventually(desk.hints, what="a hint in the queue")


async def test_a_backlog_is_told_little_by_little(desk: Desk) -> None:
    await _wait(desk, 600, 20)
    supervisor = await desk.supervisor()
    counts = []
    for _ in range(3):
        await supervisor.aged.step()
        counts.append(len(await _told(desk)))
    assert counts == [50, 100, 150]
