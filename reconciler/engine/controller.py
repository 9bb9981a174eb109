"""Runs a reconcile function over the keys of a queue, and decides what becomes of a key afterwards.

A reconcile is given a key, reads the world anew, acts, and returns when to look again (or None). It raises what its
requests raised: no reconcile has a retry policy of its own, `verdict` holds the one table.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import structlog

from reconciler.engine.queue import QueueClosedError, RetryDelay, WorkQueue
from reconciler.engine.verdict import Retry, Verdict, judge, words

K = TypeVar("K", bound=Hashable)

log = structlog.stdlib.get_logger(__name__)

# After a conflict the watch usually brings the newer version within milliseconds; doubled, so that it is no hot loop.
SOON: Final = RetryDelay(first=0.005, most=60.0)
# A permission or a budget that is wrong stays wrong until somebody edits it.
SLOW: Final = RetryDelay(first=10.0, most=300.0)


@dataclass(frozen=True, slots=True)
class Again:
    """Look at the key again `after` seconds, at the latest; an event may bring it sooner."""

    after: float


Reconcile = Callable[[K], Awaitable[Again | None]]


def _end_if_cancelled() -> None:
    """Raises the cancellation that a reconcile has swallowed, be it inside of a library: the term would never end."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _unmeasured(_seconds: float, _result: str) -> None:
    """Default of `measure`."""


class Controller(Generic[K]):
    """`workers` tasks that reconcile the keys of `queue`, each key in one of them at a time.

    `everything` names all keys there are: they are added whenever `run` begins (a new term starts from the whole
    world) and every `resync_period` seconds (0: never). `measure(seconds, result)` is told about every reconcile;
    `result` is one of `verdict.RESULTS`.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile[K],
        *,
        workers: int = 1,
        queue: WorkQueue[K] | None = None,
        everything: Callable[[], Iterable[K]] = tuple,
        resync_period: float = 0.0,
        measure: Callable[[float, str], None] = _unmeasured,
    ) -> None:
        self.name = name
        self.queue: WorkQueue[K] = queue or WorkQueue()
        self._reconcile = reconcile
        self._workers = workers
        self._everything = everything
        self._resync_period = resync_period
        self._measure = measure
        self._started: dict[K, float] = {}

    async def run(self) -> None:
        """Works until `drain` (returns) or cancellation. May be run again afterwards unless it was drained.

        A key whose reconcile was cancelled half way waits in the queue for the next run.
        """
        self._add_everything()
        async with asyncio.TaskGroup() as around:
            resync = around.create_task(self._resync(), name=f"{self.name}: resync")
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    group.create_task(self._work(), name=f"{self.name}: worker {number}")
            resync.cancel()

    def drain(self) -> None:
        """Lets the reconciles under way finish, starts no more, then `run` returns. Cannot be taken back."""
        self.queue.shut_down()

    def longest(self) -> float:
        """Seconds for which the oldest reconcile under way has been running; 0 without any."""
        if not self._started:
            return 0.0
        return asyncio.get_running_loop().time() - min(self._started.values())

    async def _resync(self) -> None:
        while self._resync_period > 0:
            await asyncio.sleep(self._resync_period)
            self._add_everything()

    def _add_everything(self) -> None:
        for key in self._everything():
            self.queue.add(key)

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueClosedError:
                return
            try:
                await self._look_at(key)
                _end_if_cancelled()
            except asyncio.CancelledError:
                self.queue.add(key)
                raise
            finally:
                self.queue.done(key)

    async def _look_at(self, key: K) -> None:
        loop = asyncio.get_running_loop()
        self._started[key] = begun = loop.time()
        try:
            with structlog.contextvars.bound_contextvars(controller=self.name, key=str(key)):
                result = await self._attempt(key)
            self._measure(loop.time() - begun, result)
        finally:
            del self._started[key]

    async def _attempt(self, key: K) -> str:
        try:
            again = await self._reconcile(key)
        except Exception as error:  # any reconcile's failure ends here, so that no key stops the others
            verdict = judge(error)
            self._tell(key, verdict, error)
            self._repeat(key, verdict)
            return verdict.result
        self.queue.forget(key)
        if again is None:
            return "done"
        self.queue.add_after(key, again.after)
        return "again"

    def _repeat(self, key: K, verdict: Verdict) -> None:
        match verdict:
            case Verdict(retry=Retry.DROP):
                self.queue.forget(key)
            case Verdict(retry=Retry.ASKED, after=float() | int() as after):
                self.queue.add_after(key, after, jitter=0.1)
            case Verdict(retry=Retry.SOON):
                self.queue.add_rate_limited(key, SOON)
            case Verdict(retry=Retry.SLOW):
                self.queue.add_rate_limited(key, SLOW)
            case _:
                self.queue.add_rate_limited(key)

    def _tell(self, key: K, verdict: Verdict, error: Exception) -> None:
        """Once per key and row of failures; repetitions, and what passes by itself, are for debugging only.

        A defect of ours is told every time, with its traceback: each may be another one.
        """
        first = self.queue.failures(key) == 0
        match verdict.retry:
            case Retry.DEFECT:
                log.error("reconcile failed unexpectedly", exc_info=error)
            case Retry.SLOW | Retry.BACKOFF if first:
                log.warning("reconcile failed, will be repeated", result=verdict.result, error=words(error))
            case _:
                log.debug("reconcile not finished", result=verdict.result, error=words(error))
