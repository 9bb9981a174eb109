"""The work queue's promises, one by one and as a whole."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ebbtide.sim.time import SimulatedLoop, simulate
from reconciler.engine.queue import QueueClosedError, RateLimit, RetryDelay, WorkQueue


def steady() -> WorkQueue[str]:
    """A queue without jitter, and without an overall rate that matters."""
    return WorkQueue(RetryDelay(first=1.0, most=60.0, jitter=0.0), RateLimit(1000.0, 1000), chance=lambda: 0.0)


async def take(queue: WorkQueue[str]) -> str:
    key = await queue.get()
    queue.done(key)
    return key


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_keys_come_out_in_the_order_in_which_they_were_first_added() -> None:
    queue = steady()
    for key in ("b", "a", "b", "c", "a"):
        queue.add(key)
    assert [await take(queue) for _ in range(queue.depth)] == ["b", "a", "c"]


async def test_a_key_added_while_it_waits_is_looked_at_once() -> None:
    queue = steady()
    queue.add("a")
    queue.add("a")
    assert queue.depth == 1


async def test_a_key_added_while_it_is_worked_on_is_not_given_to_another_worker_but_comes_back() -> None:
    queue = steady()
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    queue.add("b")
    assert await take(queue) == "b"
    assert queue.depth == 0
    queue.done(key)
    assert await take(queue) == "a"
    assert queue.depth == 0


async def test_waiting_workers_are_served_in_turn() -> None:
    queue = steady()
    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(queue.get()) for _ in range(3)]
        await asyncio.sleep(0)
        for key in "abc":
            queue.add(key)
    assert [worker.result() for worker in workers] == ["a", "b", "c"]


async def test_a_worker_that_is_cancelled_just_after_it_was_woken_loses_no_key() -> None:
    queue = steady()
    first, second = asyncio.ensure_future(queue.get()), asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await second == "a"
    assert first.cancelled()


def test_of_several_delays_of_one_key_the_earliest_counts() -> None:
    async def main() -> None:
        queue = steady()
        queue.add_after("a", 30)
        queue.add_after("a", 10)
        queue.add_after("a", 20)
        assert await take(queue) == "a"
        assert now() == 10
        await asyncio.sleep(60)
        assert queue.depth == 0
        assert queue.delayed == 0

    simulate(main())


def test_delays_end_in_the_order_of_their_times_and_not_of_their_calls() -> None:
    async def main() -> list[tuple[str, float]]:
        queue = steady()
        for key, seconds in (("c", 3), ("a", 1), ("b", 2)):
            queue.add_after(key, seconds)
        return [(await take(queue), now()) for _ in range(3)]

    assert simulate(main()) == [("a", 1), ("b", 2), ("c", 3)]


async def test_a_delay_that_is_over_already_is_none() -> None:
    queue = steady()
    queue.add_after("a", 0)
    queue.add_after("b", -5)
    assert queue.depth == 2


def test_a_delayed_key_that_is_added_at_once_still_comes_when_it_is_due() -> None:
    async def main() -> list[float]:
        queue = steady()
        queue.add_after("a", 5)
        queue.add("a")
        return [now() for _ in range(2) if await take(queue)]

    assert simulate(main()) == [0, 5]


def test_thousands_of_delays_need_one_timer() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        queue = steady()
        for number in range(5000):
            queue.add_after(str(number), 5000 - number)
        pending = [timer for timer in loop._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
        # The other one is the limit of the simulation.
        assert len(pending) == 2
        assert await take(queue) == "4999"

    simulate(main())


def test_each_failure_doubles_the_keys_own_delay_until_it_is_forgotten() -> None:
    async def main() -> list[float]:
        queue, times = steady(), []
        for _ in range(4):
            before = now()
            queue.add_rate_limited("a")
            await take(queue)
            times.append(now() - before)
        assert queue.failures("a") == 4
        queue.forget("a")
        queue.add_rate_limited("a")
        before = now()
        await take(queue)
        return [*times, now() - before]

    assert simulate(main()) == [1, 2, 4, 8, 1]


def test_the_failures_of_one_key_do_not_delay_another() -> None:
    async def main() -> tuple[str, float]:
        queue = steady()
        for _ in range(5):
            queue.add_rate_limited("bad")
            await take(queue)
        before = now()
        queue.add_rate_limited("bad")
        queue.add_rate_limited("good")
        return await take(queue), now() - before

    assert simulate(main()) == ("good", 1)


@pytest.mark.parametrize(
    ("failures", "chance", "seconds"), [(0, 0.0, 0.05), (3, 0.0, 0.4), (99, 0.0, 60.0), (99, 0.5, 63.0)]
)
def test_the_back_off_grows_from_its_first_to_its_longest_delay(failures: int, chance: float, seconds: float) -> None:
    assert RetryDelay().delay(failures, chance) == pytest.approx(seconds)


def test_many_keys_that_fail_together_come_back_at_the_overall_rate() -> None:
    async def main() -> float:
        queue = WorkQueue[int](RetryDelay(0.01, 1.0, 0.0), RateLimit(per_second=10, burst=5), chance=lambda: 0.0)
        for number in range(25):
            queue.add_rate_limited(number)
        for _ in range(25):
            queue.done(await queue.get())
        return now()

    assert simulate(main()) == pytest.approx(2.0)


async def test_a_closed_queue_refuses_keys_and_tells_waiting_workers() -> None:
    queue = steady()
    worker = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    queue.shut_down()
    queue.add("a")
    queue.add_after("a", 1)
    with pytest.raises(QueueClosedError):
        await worker
    with pytest.raises(QueueClosedError):
        await queue.get()


class Histories(RuleBasedStateMachine):
    """Whatever is called in whatever order: no key twice at once, none lost, each due delay kept."""

    keys = st.sampled_from("abcd")

    def __init__(self) -> None:
        super().__init__()
        self.loop = SimulatedLoop()
        self.queue = steady()
        self.held: list[str] = []
        self.wanted: set[str] = set()
        self.due: dict[str, float] = {}

    def teardown(self) -> None:
        self.loop.close()

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        self.loop.run_until_complete(work)

    @rule(key=keys)
    def add(self, key: str) -> None:
        async def work() -> None:
            self.queue.add(key)

        self.do(work())
        self.wanted.add(key)

    @rule(key=keys, seconds=st.integers(1, 20))
    def add_after(self, key: str, seconds: int) -> None:
        async def work() -> None:
            self.queue.add_after(key, seconds)

        self.do(work())
        self.due[key] = min(self.due.get(key, float("inf")), self.loop.time() + seconds)

    @rule(seconds=st.integers(1, 15))
    def let_time_pass(self, seconds: int) -> None:
        self.do(asyncio.sleep(seconds))
        for key, when in list(self.due.items()):
            if when <= self.loop.time():
                self.wanted.add(key)
                del self.due[key]

    @rule()
    def take(self) -> None:
        async def work() -> None:
            key = await self.queue.get()
            assert key not in self.held
            assert key in self.wanted
            self.held.append(key)
            self.wanted.discard(key)

        if self.queue.depth:
            self.do(work())

    @rule(position=st.integers(0, 3))
    def finish(self, position: int) -> None:
        async def work() -> None:
            self.queue.done(self.held.pop(position))

        if position < len(self.held):
            self.do(work())

    @invariant()
    def every_wanted_key_waits_unless_somebody_holds_it(self) -> None:
        assert self.queue.depth == len(self.wanted - set(self.held))

    @invariant()
    def every_delay_is_kept(self) -> None:
        assert self.queue.delayed == len(self.due)


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
