"""Who waits, in which order, and how somebody leaves."""

import asyncio

import pytest

from reconciler.scaler.contract import Arrival, Unavailable
from reconciler.scaler.shared.decide import Given, Lack
from reconciler.scaler.shared.queue import Waiter, Waiting
from tests.reconciler.scaler.room import task


def come(waiting: Waiting, *numbers: int) -> list[Waiter]:
    return [waiting.add(Arrival(task(number), 7, number)) for number in numbers]


async def test_first_come_first_served_whoever_leaves_in_between() -> None:
    waiting = Waiting()
    one, two, three = come(waiting, 1, 2, 3)
    waiting.remove(two)
    come(waiting, 4)
    assert waiting.sizes == (1, 3, 4)
    taken = waiting.take([Given(0), Lack.WAIT, Lack.REFUSE])
    assert [(waiter.arrival.size, answer) for waiter, answer in taken] == [(1, Given(0)), (4, Lack.REFUSE)]
    assert waiting.all == (three,)
    one.settle()
    await one.placed()


async def test_who_is_put_back_is_ahead_of_all_who_came_later() -> None:
    """Not one that has given up meanwhile."""
    waiting = Waiting()
    one, two, _ = come(waiting, 1, 2, 3)
    waiting.take([Given(0), Given(0), Lack.WAIT])
    come(waiting, 4)
    two.give_up()
    waiting.put_back([one, two])
    assert waiting.sizes == (1, 3, 4)


async def test_to_leave_twice_is_to_leave_once() -> None:
    waiting = Waiting()
    one, _ = come(waiting, 1, 2)
    waiting.remove(one)
    waiting.remove(one)
    assert waiting.sizes == (2,)


async def test_all_are_told_why_there_is_no_place() -> None:
    waiting = Waiting()
    waiters = come(waiting, 1, 2)
    waiting.refuse_all(Unavailable("no"))
    assert len(waiting) == 0
    for waiter in waiters:
        with pytest.raises(Unavailable, match="no"):
            await waiter.placed()


class Counting(Waiter):
    """Counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counting.compared += 1
        return self is other

    __hash__ = Waiter.__hash__


async def test_to_leave_takes_no_look_at_the_others() -> None:
    """A crowd that hangs up, the last first, costs each its own leaving."""
    waiting = Waiting()
    crowd = [Counting(Arrival(task(number), 7, number)) for number in range(500)]
    waiting.put_back(crowd)
    Counting.compared = 0
    for waiter in reversed(crowd):
        waiting.remove(waiter)
        await asyncio.sleep(0)
    assert len(waiting) == 0
    assert Counting.compared < len(crowd)
