"""A queue of keys to look at, with the promises of client-go's workqueue.

A key stands for "look at this anew", so it is worth holding once: adding it again while it waits changes nothing,
adding it while somebody works on it lets it come back after that work, and it is never handed to two workers at the
same time. Those promises are what lets a reconcile read the world, act and forget, without locks.

Times are seconds of the running loop.
"""

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import count
from typing import Final, Generic, TypeVar

from ebbtide.kube.backoff import doubled

K = TypeVar("K", bound=Hashable)

# Outdated entries that the heap of delays may carry beside the live ones before it is swept.
_SLACK: Final = 64


class QueueClosedError(Exception):
    """The queue gives out nothing any more."""


@dataclass(frozen=True, slots=True)
class RetryDelay:
    """Delay before the n-th repetition: `first` seconds, doubled each time up to `most`, plus up to `jitter` of it."""

    first: float = 0.05
    most: float = 60.0
    jitter: float = 0.1

    def delay(self, failures: int, chance: float) -> float:
        """Seconds to wait after `failures` earlier ones (0 for the first); `chance` in [0, 1) places the jitter."""
        return doubled(self.first, failures, self.most) * (1 + self.jitter * chance)


class RateLimit:
    """Spreads repetitions of all keys together: `per_second` in the long run, `burst` of them at once.

    The defaults are those of client-go's controllers (10/s, 100 at once); it only touches what failed.
    """

    def __init__(self, per_second: float = 10.0, burst: int = 100) -> None:
        self._interval = 1.0 / per_second
        self._tolerance = self._interval * (burst - 1)
        self._next = float("-inf")

    def reserve(self, now: float) -> float:
        """Takes the next free place and returns how many seconds away it is."""
        place = max(self._next, now)
        self._next = place + self._interval
        return max(0.0, place - self._tolerance - now)


class WorkQueue(Generic[K]):
    """Keys in the order in which they were first added.

    `get` hands out a key, `done` must follow it, whatever happened. Not for use from several threads.
    """

    def __init__(
        self,
        backoff: RetryDelay | None = None,
        rate: RateLimit | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._backoff = backoff or RetryDelay()
        self._rate = rate or RateLimit()
        self._chance = chance
        self._ready: deque[K] = deque()
        self._dirty: set[K] = set()
        self._processing: set[K] = set()
        self._failures: dict[K, int] = {}
        self._delayed = _Delays[K](self.add)
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    @property
    def depth(self) -> int:
        """Keys that could be worked on now; those that are worked on, or delayed, do not count."""
        return len(self._ready)

    @property
    def delayed(self) -> int:
        """Keys that become due later."""
        return len(self._delayed)

    def add(self, key: K) -> None:
        """Makes sure that `key` is looked at after this moment."""
        if self._closed or key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._processing:
            self._enqueue(key)

    def add_after(self, key: K, seconds: float, *, jitter: float = 0.0) -> None:
        """`add`, `seconds` from now plus up to `jitter` of them.

        Of several delays of one key the earliest counts, the others are dropped.
        """
        if self._closed:
            return
        if seconds <= 0:
            self.add(key)
        else:
            spread = 1 + jitter * self._chance()
            self._delayed.put(key, asyncio.get_running_loop().time() + seconds * spread)

    def add_rate_limited(self, key: K, backoff: RetryDelay | None = None) -> None:
        """`add_after` the key's own back-off, or the overall rate where that is later; counts as one more failure."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        own = (backoff or self._backoff).delay(failures, self._chance())
        shared = self._rate.reserve(asyncio.get_running_loop().time())
        self.add_after(key, max(own, shared))

    def failures(self, key: K) -> int:
        """How often `key` was added rate limited since it was last forgotten."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """The key did well: its next back-off starts from the shortest."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The oldest key; waits for one. It is not handed out again before its `done`. Raises QueueClosedError."""
        while not self._ready:
            if self._closed:
                raise QueueClosedError
            await self._wait()
        key = self._ready.popleft()
        self._processing.add(key)
        self._dirty.discard(key)
        return key

    def done(self, key: K) -> None:
        """Ends the work that `get` began; a key that was added meanwhile waits again."""
        self._processing.discard(key)
        if key in self._dirty:
            self._enqueue(key)

    def shut_down(self) -> None:
        """Takes no more keys and drops those that wait or are delayed; `get` raises QueueClosedError.

        What workers hold now they may finish.
        """
        self._closed = True
        self._delayed.clear()
        self._ready.clear()
        self._dirty.clear()
        while self._waiters:
            self._wake()

    def _enqueue(self, key: K) -> None:
        self._ready.append(key)
        self._wake()

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            # A waiter that was woken and cancelled in the same turn hands the key on to the next one.
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            elif self._ready:
                self._wake()
            raise

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return


class _Delays(Generic[K]):
    """Keys that become due later: a heap and one loop timer for its top, whatever the number of keys."""

    def __init__(self, due: Callable[[K], None]) -> None:
        self._due = due
        self._when: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._order = count()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._when)

    def put(self, key: K, when: float) -> None:
        known = self._when.get(key)
        if known is not None and known <= when:
            return
        self._when[key] = when
        heapq.heappush(self._heap, (when, next(self._order), key))
        self._sweep()
        self._arm()

    def clear(self) -> None:
        self._when.clear()
        self._heap.clear()
        self._arm()

    def _sweep(self) -> None:
        if len(self._heap) > 2 * len(self._when) + _SLACK:
            self._heap = [entry for entry in self._heap if self._when.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)

    def _arm(self) -> None:
        if self._timer is not None:
            if self._heap and self._timer.when() == self._heap[0][0]:
                return
            self._timer.cancel()
            self._timer = None
        if self._heap:
            self._timer = asyncio.get_running_loop().call_at(self._heap[0][0], self._fire)

    def _fire(self) -> None:
        # The timer's own moment counts as reached: the loop's resolution may call a timer slightly early.
        assert self._timer is not None
        reached = max(self._timer.when(), asyncio.get_running_loop().time())
        self._timer = None
        while self._heap and self._heap[0][0] <= reached:
            when, _, key = heapq.heappop(self._heap)
            if self._when.get(key) == when:
                del self._when[key]
                self._due(key)
        self._arm()
