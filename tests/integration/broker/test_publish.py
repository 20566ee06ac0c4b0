"""Each message gets its own outcome, whatever happens to its neighbours."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.integration.broker.proxy import BASIC_ACK, Proxy
from tests.integration.broker.room import Room, eventually, message, numbers, queue_topology, take, take_all
from triumvir.broker import Connection, Outcome, OutMessage, Publisher
from triumvir.broker.openings import open_lane
from triumvir.broker.volley import Lane

CONFIRMED, RETURNED, REFUSED, UNKNOWN = Outcome.CONFIRMED, Outcome.RETURNED, Outcome.REFUSED, Outcome.UNKNOWN


async def test_nothing_to_publish_has_no_outcomes(room: Room) -> None:
    assert await (await room.publisher()).publish([]) == []


async def test_order_is_kept_within_a_call_and_from_call_to_call(room: Room) -> None:
    await room.declare(queue_topology("work"))
    publisher = await room.publisher()
    calls = [[message(call * 100 + number) for number in range(100)] for call in range(5)]
    outcomes = await asyncio.gather(*(publisher.publish(call) for call in calls))
    assert all(outcome is CONFIRMED for call in outcomes for outcome in call)
    assert numbers(await take(await room.consumer("work", 600), 500)) == list(range(500))


async def test_what_is_started_on_an_open_channel_is_on_its_way_at_once(room: Room) -> None:
    await room.declare(queue_topology("work"))
    publisher = await room.publisher()
    assert await publisher.publish([message(0)]) == [CONFIRMED]
    consumer = await room.consumer("work")
    started = publisher.start([message(1), message(2)])
    assert numbers(await take(consumer, 3)) == [0, 1, 2], "although nobody waits for its confirm yet"
    assert publisher.oldest_unconfirmed_age() > 0
    assert await publisher.finish(started) == [CONFIRMED, CONFIRMED]
    assert publisher.oldest_unconfirmed_age() == 0


async def test_what_is_started_never_overtakes_what_could_not_be_sent_yet(room: Room) -> None:
    await room.declare(queue_topology("work"))
    publisher = await room.publisher()
    calls = [publisher.start([message(number)]) for number in range(3)]  # no channel is open yet
    outcomes = await asyncio.gather(*(publisher.finish(call) for call in calls))
    assert outcomes == [[CONFIRMED]] * 3
    assert numbers(await take(await room.consumer("work"), 3)) == [0, 1, 2]


async def test_an_id_that_is_in_flight_is_started_once_and_waits_the_second_time(room: Room) -> None:
    await room.declare(queue_topology("work"))
    publisher = await room.publisher()
    await publisher.publish([message(0)])
    first, second = publisher.start([message(1)]), publisher.start([message(1), message(2)])
    assert await publisher.finish(second) == [CONFIRMED, CONFIRMED]
    assert await publisher.finish(first) == [CONFIRMED]
    assert sorted(numbers(await take(await room.consumer("work"), 4))) == [0, 1, 1, 2]


async def test_properties_arrive_as_sent(room: Room) -> None:
    await room.declare(queue_topology("work"))
    sent = message(
        1,
        headers={"traceparent": "00-ab", "größe": "ü" * 300},
        reply_to="status.shop-a",
        body=b"",
        user_id=None,
    )
    assert await (await room.publisher()).publish([sent]) == [CONFIRMED]
    [found] = await take(await room.consumer("work"), 1)
    assert (found.message_id, found.type, found.correlation_id) == (
        sent.message_id,
        sent.type,
        sent.correlation_id,
    )
    assert (found.body, found.reply_to, dict(found.headers)) == (b"", "status.shop-a", sent.headers)
    assert (found.content_type, found.user_id, found.redelivered) == ("application/json", None, False)
    assert found.timestamp is not None
    assert found.queue == "work"


async def test_bodies_larger_than_a_frame_arrive_whole(room: Room) -> None:
    await room.declare(queue_topology("work"))
    sizes = (1, 131_063, 131_064, 131_065, 131_072, 262_128, 262_129, 1_000_003)
    bodies = [bytes([65 + index]) * size for index, size in enumerate(sizes)]
    outcomes = await (await room.publisher()).publish(
        [message(i, body=body) for i, body in enumerate(bodies)]
    )
    assert outcomes == [CONFIRMED] * len(bodies)
    assert [found.body for found in await take(await room.consumer("work"), len(bodies))] == bodies


async def test_f05_a_returned_message_is_not_confirmed(room: Room) -> None:
    await room.declare(queue_topology("work"))
    publisher = await room.publisher()
    batch = [message(number, "nowhere" if number == 25 else "work") for number in range(50)]
    outcomes = await publisher.publish(batch)
    assert outcomes == [RETURNED if number == 25 else CONFIRMED for number in range(50)]
    await room.declare(queue_topology("nowhere"))
    assert await publisher.publish([batch[25]]) == [CONFIRMED]


async def test_f05_a_queue_deleted_under_way_is_noticed(room: Room) -> None:
    await room.declare(queue_topology("work", "doomed"))
    publisher = await room.publisher()
    assert await publisher.publish([message(1, "doomed")]) == [CONFIRMED]
    await (await room.raw_channel()).queue_delete("doomed")
    assert await publisher.publish([message(2), message(3, "doomed")]) == [CONFIRMED, RETURNED]


async def test_f06_one_id_twice_at_once_and_each_has_its_own_outcome(room: Room) -> None:
    await room.declare(queue_topology("work"))
    publisher = await room.publisher()
    there, nowhere = message(1), message(1, "nowhere")
    for _ in range(25):
        assert await publisher.publish([nowhere, there]) == [RETURNED, CONFIRMED]
        assert await publisher.publish([there, nowhere]) == [CONFIRMED, RETURNED]
        first, second = await asyncio.gather(publisher.publish([nowhere]), publisher.publish([there]))
        assert (first, second) == ([RETURNED], [CONFIRMED])


async def test_f06_many_calls_with_one_id_all_get_through(room: Room) -> None:
    await room.declare(queue_topology("work"))
    publisher = await room.publisher()
    outcomes = await asyncio.gather(*(publisher.publish([message(1), message(n)]) for n in range(2, 32)))
    assert outcomes == [[CONFIRMED, CONFIRMED]] * 30
    assert await room.look("work") == (60, 0)


async def test_f07_an_oversize_body_is_refused_before_it_reaches_the_channel(room: Room) -> None:
    await room.declare(queue_topology("work"))
    publisher = await room.publisher(max_body=1000)
    batch = [message(number, body=b"x" * (1001 if number == 20 else 1000)) for number in range(41)]
    outcomes = await publisher.publish(batch)
    assert outcomes == [REFUSED if number == 20 else CONFIRMED for number in range(41)]


async def test_f07_the_message_that_closes_the_channel_is_found_and_its_neighbours_arrive(room: Room) -> None:
    await room.declare(queue_topology("work"))
    publisher = await room.publisher()
    batch = [message(n, exchange="no-such-exchange") if n in (7, 30) else message(n) for n in range(41)]
    outcomes = await publisher.publish(batch)
    assert outcomes == [REFUSED if number in (7, 30) else CONFIRMED for number in range(41)]
    assert not {7, 30} & set(await take_all(await room.consumer("work"), set(range(41)) - {7, 30}))


async def test_f07_calls_that_share_the_channel_with_a_bad_message_are_confirmed(room: Room) -> None:
    await room.declare(queue_topology("work"))
    publisher = await room.publisher()
    bad = publisher.publish([message("bad", exchange="no-such-exchange")])
    good = [publisher.publish([message(call * 20 + n) for n in range(20)]) for call in range(5)]
    outcomes = await asyncio.gather(*good[:2], bad, *good[2:])
    assert outcomes[2] == [REFUSED]
    assert all(outcome is CONFIRMED for call in outcomes[:2] + outcomes[3:] for outcome in call)


async def test_f07_repeated_ids_around_a_bad_message_each_get_their_outcome(room: Room) -> None:
    await room.declare(queue_topology("work"))
    publisher = await room.publisher()
    bad = message("bad", exchange="no-such-exchange")
    batch = [message(1), message(1), bad, message(1, "nowhere"), bad, message(2), message(2)]
    outcomes = await publisher.publish(batch)
    assert outcomes == [CONFIRMED, CONFIRMED, REFUSED, RETURNED, REFUSED, CONFIRMED, CONFIRMED]


async def test_f07_a_message_whose_channel_was_lost_before_it_was_sent_is_not_refused(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    await room.declare(queue_topology("work"))
    publisher, opened = await room.publisher(), list[Lane]()

    async def lose_some(connection: Connection, timeout: float) -> Lane:
        opened.append(await open_lane(connection, timeout))
        if len(opened) in (2, 4):
            await opened[-1].channel.close()
        return opened[-1]

    monkeypatch.setattr("triumvir.broker.publisher.open_lane", lose_some)
    batch = [message("bad", exchange="no-such-exchange"), message(1), message(2)]
    assert await publisher.publish(batch) == [REFUSED, CONFIRMED, CONFIRMED]
    assert len(opened) > 4


@pytest.mark.parametrize(
    "changes",
    [
        {"user_id": "somebody-else"},
        {"message_id": "ü" * 128},
        {"message_id": ""},
        {"correlation_id": "c" * 256},
        {"reply_to": "r" * 256},
        {"type": "t" * 256},
        {"routing_key": "k" * 256},
        {"headers": {"h" * 129: "v"}},
        {"headers": {"h": "v" * 70_000}},
        {"headers": {"h": None}},
        {"headers": {1: "v"}},
        {"headers": {"h": "\ud800"}},
        {"correlation_id": "\ud800"},
        {"exchange": "not allowed: *"},
        {"body": b"x" * (16 * 1024 * 1024)},
    ],
    ids=str,
)
async def test_what_cannot_be_sent_is_refused_alone(room: Room, changes: dict[str, Any]) -> None:
    await room.declare(queue_topology("work"))
    publisher = await room.publisher()
    batch = [message(1), message("bad", **changes), message(2)]
    assert await publisher.publish(batch) == [CONFIRMED, REFUSED, CONFIRMED]
    assert (await room.look("work"))[0] == 2


async def test_the_largest_id_is_sent(room: Room) -> None:
    await room.declare(queue_topology("work"))
    longest = message(1, message_id="ü" * 127 + "x", correlation_id="c" * 255)
    assert await (await room.publisher()).publish([longest]) == [CONFIRMED]


async def test_ones_own_user_id_is_accepted(room: Room) -> None:
    await room.declare(queue_topology("work"))
    connection = await room.connection()
    publisher = await room.publisher(connection)
    assert await publisher.publish([message(1, user_id=connection.user)]) == [CONFIRMED]
    [found] = await take(await room.consumer("work"), 1)
    assert found.user_id == connection.user


async def test_a_full_queue_refuses_and_confirms_nothing_it_does_not_hold(room: Room) -> None:
    await room.declare(
        queue_topology("work"), queue_topology("full", x_max_length=5, x_overflow="reject-publish")
    )
    publisher = await room.publisher()
    outcomes = await publisher.publish([message(n, "full" if n % 2 else "work") for n in range(40)])
    assert outcomes[::2] == [CONFIRMED] * 20
    held = outcomes[1::2].count(CONFIRMED)
    assert outcomes[1::2].count(REFUSED) == 20 - held
    assert held < 20
    await eventually(lambda: _holds(room, "full", held))


async def test_the_oldest_unconfirmed_age_is_zero_when_all_is_answered(room: Room) -> None:
    await room.declare(queue_topology("work"))
    publisher = await room.publisher()
    assert publisher.oldest_unconfirmed_age() == 0.0
    running = asyncio.ensure_future(publisher.publish([message(n) for n in range(200)]))
    await asyncio.sleep(0)
    assert publisher.oldest_unconfirmed_age() > 0.0
    await running
    assert publisher.oldest_unconfirmed_age() == 0.0


async def test_an_unanswered_publish_stays_in_flight_until_its_channel_is_given_up(
    room: Room, proxy: Proxy
) -> None:
    await room.declare(queue_topology("work"))
    publisher = await room.publisher(await room.connection(url=proxy.url), timeout=0.5)
    await eventually(lambda: _is_confirmed(publisher, message(0)))
    before, _ = await room.look("work")
    proxy.swallow(BASIC_ACK)
    for _ in range(3):
        assert await publisher.publish([message(1)]) == [UNKNOWN]
    # The same id was sent once, however often it was asked for.
    await eventually(lambda: _holds(room, "work", before + 1))
    assert publisher.oldest_unconfirmed_age() > 0.5
    proxy.swallow(None)
    await eventually(lambda: _is_confirmed(publisher, message(2)))
    await eventually(lambda: _is_confirmed(publisher, message(1)))
    assert publisher.oldest_unconfirmed_age() == 0.0
    assert (await room.look("work"))[0] >= before + 3, "a slow confirm is one copy more"


async def test_a_cancelled_call_leaves_the_publisher_usable(room: Room) -> None:
    await room.declare(queue_topology("work"))
    publisher, cancelled = await room.publisher(), 0
    for steps in range(12):
        running = asyncio.ensure_future(publisher.publish([message(n) for n in range(100)]))
        for _ in range(steps):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
        cancelled += running.cancelled()
        assert running.cancelled() or running.result() == [CONFIRMED] * 100
        assert await publisher.publish([message(n) for n in range(3)]) == [CONFIRMED] * 3
    assert cancelled > 2
    await eventually(lambda: publisher.oldest_unconfirmed_age() == 0.0)


async def test_a_closed_connection_makes_everything_unknown_and_raises_nothing(room: Room) -> None:
    connection = await room.connection()
    publisher = await room.publisher(connection, timeout=0.5)
    await connection.close()
    assert await publisher.publish([message(1), message(2)]) == [UNKNOWN, UNKNOWN]


async def test_a_channel_closed_behind_its_back_is_opened_again(room: Room) -> None:
    await room.declare(queue_topology("work"))
    publisher = await room.publisher()
    assert await publisher.publish([message(1)]) == [CONFIRMED]
    await publisher.close()
    assert await publisher.publish([message(2)]) == [CONFIRMED]


async def _is_confirmed(publisher: Publisher, out: OutMessage) -> bool:
    return await publisher.publish([out]) == [CONFIRMED]


async def _holds(room: Room, queue: str, count: int) -> bool:
    return (await room.look(queue))[0] == count
