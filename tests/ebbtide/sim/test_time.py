"""Loops with a time of their own."""

import asyncio

import pytest

from ebbtide.sim.time import SimulatedClock, SimulatedLoop, SpinningError, StalledError, simulate


def test_hours_pass_at_once() -> None:
    """Time jumps to the next timer when nothing else is to do."""

    async def main() -> float:
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time()

    assert simulate(main()) == 86_400


def test_timers_run_in_their_order() -> None:
    """Whoever is due earlier comes first, whatever the order in which they were set."""
    order: list[int] = []

    async def wait(seconds: int) -> None:
        await asyncio.sleep(seconds)
        order.append(seconds)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for seconds in (300, 1, 20):
                group.create_task(wait(seconds))

    simulate(main())
    assert order == [1, 20, 300]


def test_time_stands_still_while_a_thread_works() -> None:
    """What another thread does takes no simulated time, and timers do not overtake it."""

    async def main() -> tuple[int, float]:
        result = await asyncio.wait_for(asyncio.to_thread(sum, range(100_000)), 0.001)
        return result, asyncio.get_running_loop().time()

    assert simulate(main()) == (sum(range(100_000)), 0.0)


def test_waiting_for_nothing_ends() -> None:
    """A coroutine that nobody will ever wake is told so at once."""

    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        simulate(main(), limit=1000)


def test_a_loop_without_any_timer_stalls() -> None:
    """Without even a limit there is nothing to jump to."""
    loop = SimulatedLoop()
    with pytest.raises(StalledError):
        loop.run_until_complete(loop.create_future())
    loop.close()


def test_a_loop_that_spins_is_stopped() -> None:
    """What runs again and again without waiting would keep the time from going on for ever."""

    async def main() -> None:
        def again() -> None:
            asyncio.get_running_loop().call_soon(again)

        again()
        await asyncio.sleep(1)

    with pytest.raises(SpinningError):
        simulate(main())


def test_failures_of_callbacks_are_not_lost() -> None:
    """What a callback raises fails the simulation, though nobody awaited it."""

    async def main() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    with pytest.raises(ExceptionGroup) as caught:
        simulate(main())
    assert isinstance(caught.value.exceptions[0], ZeroDivisionError)


def test_the_wall_clock_follows_and_can_be_set() -> None:
    """It starts at its epoch, goes with the loop, and jumps without durations noticing."""

    async def main() -> None:
        clock = SimulatedClock(asyncio.get_running_loop(), epoch=1000.0)
        ahead = clock.skewed(5)
        await asyncio.sleep(10)
        assert (clock.now(), clock.monotonic(), ahead.now()) == (1010.0, 10.0, 1015.0)
        clock.jump(-3600)
        assert (clock.now(), clock.monotonic(), ahead.now()) == (1010.0 - 3600, 10.0, 1015.0)

    simulate(main())


def test_a_speed_multiplies_real_time() -> None:
    """The loop's time goes on at the speed asked for, which may change meanwhile, and never goes back."""

    async def main() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        await asyncio.sleep(10)
        before = loop.time()
        loop.speed = 10_000
        assert loop.time() >= before
        await asyncio.sleep(100)
        loop.speed = None
        await asyncio.sleep(1_000_000)
        return loop.time()

    assert simulate(main(), speed=1000) >= 1_000_110


def test_sockets_work_on_simulated_time() -> None:
    """A connection over loopback gets its bytes before the time-out that would otherwise be jumped to."""

    async def main() -> bytes:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readline())
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
            writer.write(b"hello\n")
            answer = await asyncio.wait_for(reader.read(), 30)
            writer.close()
        return answer

    assert simulate(main()) == b"hello\n"
