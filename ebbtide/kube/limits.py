"""How fast this process may ask, in two lanes.

    NORMAL   everything; all of it pauses together when the server asks to slow down
    URGENT   taints and the lease: their delay costs more than the server saves, so neither a full NORMAL lane nor a
             pause that the server asked for holds them up

One client, one throttle: the limits are the process's, not a controller's.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import Enum

from ebbtide.kube.backoff import Backoff, jittered
from ebbtide.kube.errors import ApiError, Throttled, Unavailable

# A proxy that says "come back in a day" must not stop the product for a day.
LONGEST_PAUSE = 60.0


class Lane(Enum):
    """Which requests wait for which."""

    URGENT = "urgent"
    NORMAL = "normal"


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Requests per second and how many may go at once after a quiet time.

    `normal_in_flight` bounds the connections that a frozen server can tie up.
    """

    normal_per_second: float = 100.0
    normal_burst: int = 200
    normal_in_flight: int = 64
    urgent_per_second: float = 500.0
    urgent_burst: int = 1000


class TokenBucket:
    """Lets `per_second` callers through, up to `burst` at once, in the order in which they came."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._tokens = float(burst)
        self._filled_at: float | None = None

    async def take(self) -> None:
        self._fill()
        self._tokens -= 1
        if self._tokens >= 0:
            return
        try:
            await asyncio.sleep(-self._tokens / self._per_second)
        except asyncio.CancelledError:
            self._tokens += 1
            raise

    def _fill(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._filled_at is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._per_second)
        self._filled_at = now


class Throttle:
    """Admits requests to their lane and learns from the answers."""

    def __init__(self, limits: RateLimits) -> None:
        self._buckets = {
            Lane.NORMAL: TokenBucket(limits.normal_per_second, limits.normal_burst),
            Lane.URGENT: TokenBucket(limits.urgent_per_second, limits.urgent_burst),
        }
        self._in_flight = asyncio.Semaphore(limits.normal_in_flight)
        self._held_until = 0.0
        self._unasked_pause = Backoff(1.0, 30.0)

    @contextlib.asynccontextmanager
    async def slot(self, lane: Lane) -> AsyncIterator[None]:
        """Waits for the lane; a NORMAL request counts as in flight until the block ends."""
        if lane is Lane.URGENT:
            await self._buckets[lane].take()
            yield
            return
        async with self._in_flight:
            await self.wait(lane)
            yield

    async def wait(self, lane: Lane) -> None:
        """Waits for the lane without counting as in flight (watches, which stay for minutes)."""
        await self._buckets[lane].take()
        if lane is Lane.NORMAL:
            await self._pause_is_over()

    def learn(self, lane: Lane, error: ApiError | None) -> None:
        """Takes note of an answer: `error` is None for a success."""
        if error is None:
            if lane is Lane.NORMAL:
                self._unasked_pause.reset()
        elif isinstance(error, Throttled) or (isinstance(error, Unavailable) and error.retry_after is not None):
            self._hold(error.retry_after)

    async def _pause_is_over(self) -> None:
        remaining = self._held_until - asyncio.get_running_loop().time()
        if remaining > 0:
            await asyncio.sleep(remaining)
            # It may have been made longer meanwhile.
            await self._pause_is_over()

    def _hold(self, asked: float | None) -> None:
        now = asyncio.get_running_loop().time()
        if asked is None:
            # Requests that were under way when the server began to refuse say nothing new.
            pause = self._unasked_pause.next() if now >= self._held_until else 0.0
        else:
            pause = min(asked, LONGEST_PAUSE)
            pause += jittered(0.1 * pause)
        self._held_until = max(self._held_until, now + pause)
