"""What leaves a channel leaves in order, in one piece where it can, and not after the channel's close."""

from __future__ import annotations

import asyncio

import pytest
from aiormq.abc import ChannelFrame
from aiormq.exceptions import ChannelInvalidStateError
from pamqp import commands

from triumvir.broker.outlet import Outlet


def frame(payload: bytes) -> ChannelFrame:
    return ChannelFrame(payload=b"\x01\x00\x01\x00\x00\x00\x04" + payload, should_close=False)


def attached(queue: asyncio.Queue[ChannelFrame]) -> Outlet:
    return Outlet(queue, asyncio.get_running_loop().create_future)


def close() -> ChannelFrame:
    return ChannelFrame.marshall(1, [commands.Channel.CloseOk()])


async def drained(queue: asyncio.Queue[ChannelFrame]) -> bytes:
    async with asyncio.timeout(5):
        return (await queue.get()).payload


async def test_a_burst_is_one_write_in_order() -> None:
    queue: asyncio.Queue[ChannelFrame] = asyncio.Queue(maxsize=1)
    outlet = attached(queue)
    frames = [frame(b"%d" % number) for number in range(50)]
    for each in frames:
        await outlet.put(each)
    assert await drained(queue) == b"".join(each.payload for each in frames)
    assert queue.empty()


async def test_order_is_kept_while_the_writer_is_slow() -> None:
    queue: asyncio.Queue[ChannelFrame] = asyncio.Queue(maxsize=1)
    outlet = attached(queue)
    frames = [frame(b"%d" % number) for number in range(30)]
    for each in frames:
        await outlet.put(each)
        await asyncio.sleep(0)
    came = b""
    while len(came) < sum(len(each.payload) for each in frames):
        came += await drained(queue)
    assert came == b"".join(each.payload for each in frames)


@pytest.mark.parametrize(
    "closing", [commands.Channel.Close(0, "", 0, 0), commands.Channel.CloseOk()], ids=["close", "close-ok"]
)
async def test_nothing_is_written_after_the_close(closing: commands.Channel.Close) -> None:
    queue: asyncio.Queue[ChannelFrame] = asyncio.Queue(maxsize=1)
    queue.put_nowait(frame(b"in the way"))
    outlet = attached(queue)
    await outlet.put(frame(b"before"))
    last = ChannelFrame.marshall(1, [closing])
    outlet.put_nowait(last)
    with pytest.raises(ChannelInvalidStateError):
        await outlet.put(frame(b"after"))
    await drained(queue)
    assert await drained(queue) == frame(b"before").payload + last.payload


async def test_a_close_is_never_lost_for_want_of_room() -> None:
    queue: asyncio.Queue[ChannelFrame] = asyncio.Queue(maxsize=1)
    queue.put_nowait(frame(b"in the way"))
    outlet = attached(queue)
    outlet.put_nowait(close())
    await drained(queue)
    assert await drained(queue) == close().payload


async def test_what_a_dead_connection_never_takes_is_let_go() -> None:
    queue: asyncio.Queue[ChannelFrame] = asyncio.Queue(maxsize=1)
    queue.put_nowait(frame(b"the writer is gone"))
    closing = asyncio.get_running_loop().create_future()
    outlet = Outlet(queue, lambda: closing)
    await outlet.put(frame(b"never taken"))
    await asyncio.sleep(0)
    waiting = outlet._waiting
    assert waiting is not None
    closing.set_result(None)
    async with asyncio.timeout(5):
        await waiting
    assert queue.get_nowait() == frame(b"the writer is gone")
    await asyncio.sleep(0)
    assert queue.empty()
