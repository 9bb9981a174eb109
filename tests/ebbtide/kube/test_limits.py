"""Lanes and pauses, on simulated time."""

import asyncio

from ebbtide.kube.errors import BudgetRefused, Throttled, Unavailable
from ebbtide.kube.limits import Lane, RateLimits, Throttle
from ebbtide.sim.time import simulate


def throttled(after: float | None) -> Throttled:
    return Throttled("GET /x", 429, retry_after=after)


async def admission(throttle: Throttle, lane: Lane) -> float:
    """The loop's time at which the lane lets one request through."""
    async with throttle.slot(lane):
        return asyncio.get_running_loop().time()


def test_a_burst_goes_at_once_and_the_rest_at_the_rate_in_order() -> None:
    async def scenario() -> list[float]:
        throttle = Throttle(RateLimits(normal_per_second=10, normal_burst=3))
        return [await task for task in [asyncio.create_task(admission(throttle, Lane.NORMAL)) for _ in range(6)]]

    assert [round(at, 3) for at in simulate(scenario())] == [0, 0, 0, 0.1, 0.2, 0.3]


def test_a_cancelled_waiter_gives_its_turn_back() -> None:
    async def scenario() -> float:
        throttle = Throttle(RateLimits(normal_per_second=1, normal_burst=1))
        await admission(throttle, Lane.NORMAL)
        waiting = asyncio.create_task(admission(throttle, Lane.NORMAL))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return await admission(throttle, Lane.NORMAL)

    assert round(simulate(scenario()), 3) == 1


def test_a_full_normal_lane_does_not_hold_up_urgent_requests() -> None:
    async def scenario() -> float:
        throttle = Throttle(RateLimits(normal_per_second=1, normal_burst=1, normal_in_flight=1))
        async with throttle.slot(Lane.NORMAL):
            return await admission(throttle, Lane.URGENT)

    assert simulate(scenario()) == 0


def test_no_more_normal_requests_are_in_flight_than_allowed() -> None:
    async def scenario() -> float:
        throttle = Throttle(RateLimits(normal_in_flight=1))
        async with throttle.slot(Lane.NORMAL):
            second = asyncio.create_task(admission(throttle, Lane.NORMAL))
            await asyncio.sleep(5)
        return await second

    assert simulate(scenario()) == 5


def test_retry_after_pauses_the_normal_lane_for_that_long_and_not_the_urgent_one() -> None:
    async def scenario() -> tuple[float, float]:
        throttle = Throttle(RateLimits())
        throttle.learn(Lane.NORMAL, throttled(7))
        return await admission(throttle, Lane.URGENT), await admission(throttle, Lane.NORMAL)

    urgent, normal = simulate(scenario())
    assert urgent == 0
    assert 7 <= normal <= 7.7


def test_an_urgent_request_that_is_throttled_also_pauses_the_normal_lane() -> None:
    async def scenario() -> float:
        throttle = Throttle(RateLimits())
        throttle.learn(Lane.URGENT, throttled(3))
        return await admission(throttle, Lane.NORMAL)

    assert simulate(scenario()) >= 3


def test_without_retry_after_pauses_grow_and_answers_to_the_same_crowd_count_once() -> None:
    async def scenario() -> list[float]:
        throttle, pauses = Throttle(RateLimits()), []
        for _ in range(4):
            before = asyncio.get_running_loop().time()
            for _ in range(20):
                throttle.learn(Lane.NORMAL, throttled(None))
            pauses.append(await admission(throttle, Lane.NORMAL) - before)
        return pauses

    for pause, whole in zip(simulate(scenario()), (1, 2, 4, 8), strict=True):
        assert whole / 2 <= pause <= whole


def test_a_success_makes_the_next_unasked_pause_short_again() -> None:
    async def scenario() -> float:
        throttle = Throttle(RateLimits())
        for _ in range(5):
            throttle.learn(Lane.NORMAL, throttled(None))
            await admission(throttle, Lane.NORMAL)
        throttle.learn(Lane.NORMAL, None)
        before = asyncio.get_running_loop().time()
        throttle.learn(Lane.NORMAL, throttled(None))
        return await admission(throttle, Lane.NORMAL) - before

    assert simulate(scenario()) <= 1


def test_a_pause_made_longer_while_waiting_is_waited_for_too() -> None:
    async def scenario() -> float:
        throttle = Throttle(RateLimits())
        throttle.learn(Lane.NORMAL, throttled(2))
        waiting = asyncio.create_task(admission(throttle, Lane.NORMAL))
        await asyncio.sleep(1)
        throttle.learn(Lane.NORMAL, throttled(10))
        return await waiting

    assert simulate(scenario()) >= 11


def test_a_refused_budget_pauses_nothing_and_an_absurd_retry_after_a_minute() -> None:
    async def scenario() -> tuple[float, float]:
        throttle = Throttle(RateLimits())
        throttle.learn(Lane.NORMAL, BudgetRefused("POST /x", 429, retry_after=10))
        budget = await admission(throttle, Lane.NORMAL)
        throttle.learn(Lane.NORMAL, Unavailable("GET /x", 503, retry_after=86_400))
        return budget, await admission(throttle, Lane.NORMAL)

    budget, absurd = simulate(scenario())
    assert budget == 0
    assert 60 <= absurd <= 66
