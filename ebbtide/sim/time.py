"""Event loops whose time is not the machine's, so that hours pass in seconds and the demo plays faster than life.

A `SimulatedLoop` either jumps (`speed` None): when nothing is ready and no I/O is under way its time is at once that of
the next timer. Or it runs at a multiple of real time, which may change while it runs. In both cases whoever waits with
`asyncio.sleep` or a timer needs to know nothing of it. A jumping loop is deterministic as long as nobody uses threads
or sockets; it stands still while threads work, and gives open sockets a moment before each jump.
"""

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, Final, TypeVar

T = TypeVar("T")

# A moment after New Year, so that dates in tests are easy to read: 2026-01-01T00:00:00Z.
DEFAULT_EPOCH: Final = 1_767_225_600.0
# How long (real seconds) a jumping loop with open sockets listens to them before it lets its own time go on.
_MOMENT: Final = 0.02
# How long (real seconds) it waits for a thread it knows nothing of (asyncio's own at the end) before it calls itself
# stalled.
_LAST_MOMENT: Final = 1.0
# A simulation that has not ended after this many simulated seconds will not end by itself.
DEFAULT_LIMIT: Final = 30 * 86_400.0
# Timers nearer than this (simulated seconds) may be what rounding has left of a wait.
_INSTANT: Final = 1e-6
# A thousand nodes that are created, watched and tainted in the same instant take some thousand turns of the loop.
_MOST_TURNS_IN_AN_INSTANT: Final = 500_000


class StalledError(RuntimeError):
    """Nothing is ready, no timer is set and no I/O is under way: what is being waited for will never happen."""


class SpinningError(RuntimeError):
    """Something runs again and again without waiting: the simulated time would never go on."""


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop with a time of its own, which starts at 0.

    `speed` None jumps from timer to timer; a number is how many seconds pass in one real second.
    """

    def __init__(self, speed: float | None = None) -> None:
        self._elapsed = 0.0
        self._speed = speed
        self._since = time.monotonic()
        self._threads = 0
        self._turns = 0
        self._files = _SimulatedSelector(self)
        super().__init__(self._files)
        self._own_files = len(self._files.get_map())

    @property
    def speed(self) -> float | None:
        return self._speed

    @speed.setter
    def speed(self, speed: float | None) -> None:
        self._elapsed, self._since, self._speed = self.time(), time.monotonic(), speed

    def time(self) -> float:
        if self._speed is None:
            return self._elapsed
        return self._elapsed + (time.monotonic() - self._since) * self._speed

    def run_in_executor(  # type: ignore[override] # typeshed's *args have no type that a subclass could repeat
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._threads += 1
        future.add_done_callback(self._thread_done)
        return future

    def wait(self, select: Callable[[float | None], list[Any]], timeout: float | None) -> list[Any]:
        """One wait of the loop: `select` is the real one, `timeout` in this loop's seconds (None: no timer is set)."""
        self._turns = self._turns + 1 if timeout is not None and timeout < _INSTANT else 0
        if self._speed is None and self._turns > _MOST_TURNS_IN_AN_INSTANT:
            self._turns = 0  # so that the tasks can be cancelled
            raise SpinningError(f"the loop does not come to rest at {self._elapsed} s")
        if timeout is not None and timeout <= 0:
            return select(0)
        if self._speed is not None:
            return select(None if timeout is None else timeout / self._speed)
        return self._jump(select, timeout)

    def _jump(self, select: Callable[[float | None], list[Any]], timeout: float | None) -> list[Any]:
        events = select(self._patience(timeout))
        if events:
            return events
        if timeout is None:
            raise StalledError("nothing is ready, no timer is set and no I/O is under way")
        self._elapsed += timeout
        return events

    def _patience(self, timeout: float | None) -> float | None:
        """How long (real seconds) the real world may take before time jumps: as long as it likes while threads work."""
        if self._threads:
            return None
        if timeout is None:
            return _LAST_MOMENT
        return _MOMENT if len(self._files.get_map()) > self._own_files else 0

    def _thread_done(self, _: object) -> None:
        self._threads -= 1


class _SimulatedSelector(selectors.DefaultSelector):
    """Asks the loop how long to wait."""

    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return self._loop.wait(super().select, timeout)


class SimulatedClock:
    """Wall clock of a simulated cluster: `epoch` at the loop's time 0, plus a skew that `jump` changes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, epoch: float = DEFAULT_EPOCH) -> None:
        self._loop = loop
        self._epoch = epoch
        self.skew = 0.0

    def now(self) -> float:
        return self._epoch + self._loop.time() + self.skew

    def monotonic(self) -> float:
        return self._loop.time()

    def jump(self, seconds: float) -> None:
        """Sets the wall clock forward or back; durations do not notice."""
        self.skew += seconds

    def skewed(self, seconds: float) -> "SimulatedClock":
        """The clock of another machine, which is that much ahead (negative: behind)."""
        other = SimulatedClock(self._loop, self._epoch)
        other.skew = self.skew + seconds
        return other


def simulate(main: Coroutine[Any, Any, T], *, speed: float | None = None, limit: float = DEFAULT_LIMIT) -> T:
    """Runs a coroutine on a simulated loop of its own, as `asyncio.run` does.

    Raises what the coroutine raises, TimeoutError after `limit` simulated seconds (at once when nothing else can
    happen), and an ExceptionGroup of what callbacks raised that nobody was there to catch.
    """
    strays: list[BaseException] = []

    async def bounded() -> T:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: strays.append(_stray(context)))
        async with asyncio.timeout(limit):
            return await main

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(speed)) as runner:
        result = runner.run(bounded())
    if strays:
        raise BaseExceptionGroup("raised where nobody was waiting", strays)
    return result


def _stray(context: dict[str, Any]) -> BaseException:
    exception = context.get("exception")
    return exception if isinstance(exception, BaseException) else RuntimeError(context["message"])
