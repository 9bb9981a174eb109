"""Who waits for a place, in the order of arrival."""

import asyncio
from collections.abc import Sequence

from reconciler.scaler.contract import Arrival, PlacementError
from reconciler.scaler.shared.decide import Given, Lack


class Waiter:
    """One task. `place` returns when it has a pod."""

    def __init__(self, arrival: Arrival) -> None:
        self.arrival = arrival
        self._place: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def placed(self) -> None:
        """Returns when the task is pinned. Raises PlacementError."""
        await self._place

    @property
    def waits(self) -> bool:
        return not self._place.done()

    def settle(self) -> None:
        if not self._place.done():
            self._place.set_result(None)

    def refuse(self, error: PlacementError) -> None:
        if not self._place.done():
            self._place.set_exception(error)

    def give_up(self) -> None:
        """Nobody waits any more."""
        self._place.cancel()


class Waiting:
    """The queue. To leave it costs nothing, however many wait: thousands may hang up in the same instant."""

    def __init__(self) -> None:
        # Dictionaries keep the order in which keys came.
        self._waiters: dict[Waiter, None] = {}

    def __len__(self) -> int:
        return len(self._waiters)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Data sizes, in the order of arrival."""
        return tuple(waiter.arrival.size for waiter in self._waiters)

    @property
    def all(self) -> tuple[Waiter, ...]:
        return tuple(self._waiters)

    def add(self, arrival: Arrival) -> Waiter:
        waiter = Waiter(arrival)
        self._waiters[waiter] = None
        return waiter

    def remove(self, waiter: Waiter) -> None:
        """It does not wait any more, for whatever reason."""
        self._waiters.pop(waiter, None)

    def take(self, answers: Sequence[Given | Lack]) -> list[tuple[Waiter, Given | Lack]]:
        """Takes out all who got an answer; `answers` are in the order of `sizes`, and WAIT is none."""
        both = list(zip(self._waiters, answers, strict=True))
        self._waiters = dict.fromkeys(waiter for waiter, answer in both if answer is Lack.WAIT)
        return [(waiter, answer) for waiter, answer in both if answer is not Lack.WAIT]

    def put_back(self, waiters: Sequence[Waiter]) -> None:
        """They go on waiting, ahead of all who came after them; not those that have given up meanwhile."""
        self._waiters = dict.fromkeys(waiter for waiter in waiters if waiter.waits) | self._waiters

    def refuse_all(self, error: PlacementError) -> None:
        for waiter in self._waiters:
            waiter.refuse(error)
        self._waiters.clear()
