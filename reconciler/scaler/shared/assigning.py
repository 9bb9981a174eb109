"""One look at who waits: gives out what is free, marks the pods, stores the promises, and only then lets them go.

Whoever arrives while promises are being stored, or a moment after that has begun, waits for the next look, so that the
writes per task become fewer the more tasks come.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from ebbtide.counting import count
from ebbtide.kube.errors import Conflict, KubeError
from reconciler.engine.verdict import words
from reconciler.scaler.contract import Unavailable
from reconciler.scaler.refusals import code_of
from reconciler.scaler.shared.decide import Given, allot, size
from reconciler.scaler.shared.facts import Pool
from reconciler.scaler.shared.ledger import LedgerFullError
from reconciler.scaler.shared.marks import Marks
from reconciler.scaler.shared.queue import Waiter
from reconciler.scaler.shared.report import Report
from reconciler.scaler.shared.standing import Standing

# Seconds between two writes of promises: at 200 tasks a second four share one, and one that comes alone does not wait.
APART: Final = 0.02
# A client that is refused for want of room need not come back at once.
_FULL_RETRY = 10


class Assigning:
    """Gives out places."""

    def __init__(self, standing: Standing, marks: Marks, report: Report) -> None:
        self._standing = standing
        self._marks = marks
        self._report = report
        self._last = float("-inf")

    async def look(self, grow: Callable[[], None]) -> None:
        """Calls `grow` when the pool is too small for all of them, before it goes on.

        Raises KubeError when a write failed; whoever it was for is told.
        """
        standing = self._standing
        await asyncio.sleep(max(0.0, self._last + APART - standing.now))
        try:
            await standing.agree()
        except KubeError as error:
            standing.waiting.refuse_all(_failed(error))
            raise
        self._settle_pinned()
        pool = standing.pool()
        if size(pool, standing.rules).target > pool.replicas:
            grow()
        given: list[Waiter] = []
        for waiter, answer in standing.waiting.take(allot(pool, standing.rules).answers):
            if isinstance(answer, Given):
                self._promise(waiter, answer)
                given.append(waiter)
            else:
                waiter.refuse(self._refusal(pool))
        if given:
            await self._keep(given)

    def _settle_pinned(self) -> None:
        """The ledger may have told of tasks that wait."""
        standing = self._standing
        known = [waiter for waiter in standing.waiting.all if waiter.arrival.task in standing.memory.pins]
        for waiter in known:
            standing.waiting.remove(waiter)
            waiter.settle()

    def _promise(self, waiter: Waiter, given: Given) -> None:
        standing = self._standing
        standing.memory.promise(waiter.arrival, given.ordinal, standing.now, int(standing.clock.now()))
        if given.beyond:
            self._report.beyond(given.ordinal)

    async def _keep(self, given: Sequence[Waiter]) -> None:
        """Stores what was promised, or takes all of it back."""
        again: list[Waiter] = []
        self._last = self._standing.now
        try:
            again = await self._mark(given)
            await self._standing.store({waiter.arrival.cluster for waiter in given})
        except Conflict:
            self._take_back(given)
            self._standing.waiting.put_back(given)
            raise
        except LedgerFullError as error:
            self._refuse(given, error)
            return
        except KubeError as error:
            self._refuse(given, error)
            raise
        for waiter in given:
            if waiter not in again:
                waiter.settle()
        self._standing.waiting.put_back(again)

    async def _mark(self, given: Sequence[Waiter]) -> list[Waiter]:
        """Marks the pods; those whose pod is going wait on."""
        standing = self._standing
        ordinals = {standing.memory.pins[waiter.arrival.task].ordinal for waiter in given}
        pods = [pod for ordinal in sorted(ordinals) if (pod := standing.snapshot.pod(ordinal)) is not None]
        gone = await self._marks.busy(pods) | (ordinals - {pod.ordinal for pod in pods})
        again = [waiter for waiter in given if standing.memory.pins[waiter.arrival.task].ordinal in gone]
        self._take_back(again)
        return again

    def _refuse(self, given: Sequence[Waiter], error: Exception) -> None:
        self._take_back(given)
        for waiter in given:
            waiter.refuse(_failed(error))

    def _take_back(self, waiters: Sequence[Waiter]) -> None:
        for waiter in waiters:
            self._standing.memory.forget(waiter.arrival.task)

    def _refusal(self, pool: Pool) -> Unavailable:
        if pool.paused:
            return Unavailable("scaling is paused and all pods are full", code="Paused", retry_after=_FULL_RETRY)
        if pool.refused:
            words = f"no pod is left, and none can be made: {pool.refused}"
            return Unavailable(words, code=code_of(pool.refused), retry_after=_FULL_RETRY)
        words = f"{count(pool.replicas, 'pod is', 'pods are')} full, and the pool may not have more"
        return Unavailable(words, code="NoCapacity", retry_after=_FULL_RETRY)


def _failed(error: Exception) -> Unavailable:
    return Unavailable(f"its place could not be stored: {words(error)}", code="NotStored")
