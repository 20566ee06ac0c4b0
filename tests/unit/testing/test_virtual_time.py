"""Time jumps while nothing is at work, and waits for threads and sockets that are."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from triumvir.testing import virtual_time


def test_a_week_of_sleep_takes_no_time_and_sleepers_wake_in_order() -> None:
    async def main() -> tuple[list[int], float]:
        woken: list[int] = []

        async def sleeper(days: int) -> None:
            await asyncio.sleep(days * 86_400)
            woken.append(days)

        await asyncio.gather(sleeper(7), sleeper(1), sleeper(3))
        return woken, asyncio.get_running_loop().time()

    assert virtual_time.run(main) == ([1, 3, 7], 604_800.0)


def test_a_time_out_of_ten_minutes_passes_at_once() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(600):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert virtual_time.run(main) == 600.0


def test_time_stands_still_while_a_thread_is_at_work() -> None:
    async def main() -> tuple[str, float]:
        loop, gate = asyncio.get_running_loop(), threading.Event()
        loop.call_later(30, gate.set)  # would open the gate if time ran away

        def work() -> str:
            return "opened" if gate.wait(0.05) else "worked"

        return await asyncio.to_thread(work), loop.time()

    assert virtual_time.run(main) == ("worked", 0.0)


def test_a_thread_that_takes_its_time_runs_into_the_time_out() -> None:
    async def main() -> float:
        gate = threading.Event()
        try:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.5):
                    await asyncio.to_thread(gate.wait, 30)
        finally:
            gate.set()
        return asyncio.get_running_loop().time()

    assert virtual_time.run(main) == 1.5


def test_time_stands_still_while_a_socket_is_waited_for() -> None:
    async def main() -> tuple[bytes, float]:
        here, there = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=here)
        threading.Timer(0.05, there.sendall, [b"hello"]).start()
        async with asyncio.timeout(0.01):  # virtual: the socket answers "at once"
            said = await reader.readexactly(5)
        writer.close()
        there.close()
        return said, asyncio.get_running_loop().time()

    assert virtual_time.run(main) == (b"hello", 0.0)
