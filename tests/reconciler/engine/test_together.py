"""Requests sent at once: all of them end, failures come out as they are, a cancellation is never lost."""

import asyncio

import pytest

from ebbtide.kube.errors import NotLeading
from reconciler.engine.together import together

LOST = NotLeading("no lease")


async def answered(value: int, turns: int = 0) -> int:
    """`value`, so many turns of the loop later."""
    for _ in range(turns):
        await asyncio.sleep(0)
    return value


async def refused(error: Exception, turns: int = 0) -> int:
    await answered(0, turns)
    raise error


async def test_results_come_in_the_order_of_the_parts() -> None:
    assert await together([answered(1, turns=3), answered(2), answered(3, turns=1)]) == [1, 2, 3]
    assert await together([]) == []


async def test_the_first_failure_is_raised_as_it_is_after_all_have_ended() -> None:
    """Not in a group, so that whoever judges errors knows it."""
    ended: list[int] = []

    async def noted() -> int:
        ended.append(await answered(1, turns=5))
        return 1

    with pytest.raises(NotLeading) as raised:
        await together([noted(), refused(LOST, turns=2), refused(ValueError("later in the list"))])
    assert raised.value is LOST
    assert ended == [1]


@pytest.mark.parametrize("turns", range(1, 9))
async def test_a_cancellation_near_a_failure_is_not_swallowed(turns: int) -> None:
    """Before it, in the same turn of the loop, or after it: the caller ends cancelled, or had failed before."""
    task = asyncio.ensure_future(together([refused(LOST, turns=3), answered(1, turns=4)]))
    await answered(0, turns)
    cancelled = task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() == cancelled


async def test_a_cancellation_ends_the_parts() -> None:
    begun, cut_off = asyncio.Event(), asyncio.Event()

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cut_off.set()

    task = asyncio.ensure_future(together([endless()]))
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert cut_off.is_set()
