"""Leader election over a Lease, with client-go's rules.

Safety rests on durations alone. The holder may write until `renew_deadline` after it *began* its last successful
renewal. A candidate takes over when it has seen the same record for the record's whole duration, by its own clock,
counted from when it first saw it, which is later than the holder began to write it. As the deadline is shorter than
the duration, the old holder has stopped before anybody else can start, however wrong the machines' clocks are.

The one gap that remains is client-go's too: somebody who deletes the Lease or writes another holder into it by hand;
this holder notices at its next renewal and stops at once.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import structlog

from ebbtide.clock import Clock
from ebbtide.kube.client import Client
from ebbtide.kube.errors import ApiError, KubeError
from ebbtide.kube.lease_record import Record
from reconciler.engine.lease_lock import Candidacy, LeaseLock

log = structlog.stdlib.get_logger(__name__)

# client-go's JitterFactor: candidates wait between one and 2.2 retry periods, so that they do not move in step.
_JITTER: Final = 1.2
_NEVER: Final = float("-inf")
_FOREVER: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: `duration` others wait for, `deadline` the holder stops at, `retry` between two attempts.

    Must be 1.2 `retry` < `deadline` < `duration`; the configuration sees to that. `drain` is how long the leading
    work may take to finish after `stop`.
    """

    duration: float = 15.0
    deadline: float = 10.0
    retry: float = 2.0
    drain: float = 10.0

    @property
    def attempt(self) -> float:
        """How long one request may take: half the deadline, so that a hanging one leaves time for another."""
        return self.deadline / 2


@dataclass(frozen=True, slots=True)
class Term:
    """One stretch of leading. `stopping` is set when the program ends: finish what is under way, then return."""

    number: int
    stopping: asyncio.Event


Lead = Callable[[Term], Awaitable[None]]


class Elector:
    """One candidate for one Lease."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        candidacy: Candidacy,
        timing: Timing | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.candidacy = candidacy
        self._timing = timing or Timing()
        self._lock = LeaseLock(client, clock, candidacy, self._timing.duration)
        self._chance = chance
        self._stop = asyncio.Event()
        self._terms = 0
        self._problem = ""
        self._turned = _NEVER
        self._answered = _NEVER
        # Seconds that the server asked to be left alone for, in its last answer.
        self._asked = 0.0
        # Loop times that end the right to write: the renewal's, and the one of an orderly stop.
        self._deadline = _NEVER
        self._drained = _FOREVER
        self._scope: asyncio.Timeout | None = None

    # --- what others may ask ------------------------------------------------------------------------------------

    def permit(self) -> bool:
        """Whether this process may write now. False from the renew deadline on, whatever the tasks are doing."""
        return self._loop_time() < self._deadline

    @property
    def observed(self) -> Record | None:
        """The Lease as it was last seen, None before that or while it does not exist."""
        return self._lock.seen

    def remaining(self) -> float:
        """Seconds for which the Lease as it was last seen still holds, by this process's clock; 0 or less: no more."""
        return self._lock.left()

    def answered_for(self) -> float:
        """Seconds since an attempt last went through, won or not; infinite before the first one did."""
        return self._loop_time() - self._answered

    @property
    def problem(self) -> str:
        """Why the last attempt did not go through, empty when it did or there was none."""
        return self._problem

    def stalled(self) -> float:
        """Seconds since the election last made a step, successful or not; grows only when its task is stuck."""
        return 0.0 if self._turned == _NEVER else self._loop_time() - self._turned

    # --- life ---------------------------------------------------------------------------------------------------

    async def run(self, lead: Lead) -> None:
        """Campaigns, runs `lead` while this process leads, cancels it when the lease is lost, and campaigns again.

        Returns after `stop`, once `lead` has ended and the lease is released. When `lead` raises, or returns without
        having been asked to stop, the lease is released and this raises or returns too. Cancellation cancels `lead`,
        waits for it and leaves the lease to run out.
        """
        while True:
            await self._campaign()
            lost = False
            try:
                if not self._stop.is_set():
                    lost = await self._serve(lead)
            except Exception:
                await self._release()
                raise
            if not lost:
                await self._release()
                return

    def stop(self) -> None:
        """Ends the election in order: the leading work is told, gets `drain` seconds, then the lease is released."""
        self._stop.set()
        self._drained = self._loop_time() + self._timing.drain
        self._limit()

    async def look(self) -> None:
        """Reads the Lease without standing for it: for who has stopped, and asks who comes next. Raises KubeError."""
        await self._lock.look()

    async def _campaign(self) -> None:
        """Tries until the lease is held or `stop` was called."""
        while not self._stop.is_set() and not await self._attempt(self._timing.attempt):
            await self._pause(self._patience())

    async def _serve(self, lead: Lead) -> bool:
        """Leads; True when the lease was lost, False when the work ended by itself or on `stop`."""
        self._terms += 1
        log.info("leading", identity=self.candidacy.identity, term=self._terms)
        renewing = asyncio.create_task(self._renew(), name="lease: renewal")
        scope = asyncio.timeout_at(self._deadline)
        try:
            async with scope as self._scope:
                await lead(Term(self._terms, self._stop))
        except TimeoutError:
            if not scope.expired():
                raise
        finally:
            self._scope = None
            await self._end(renewing)
        return scope.expired() and not self._stop.is_set()

    async def _end(self, renewing: asyncio.Task[None]) -> None:
        renewing.cancel()
        await asyncio.wait([renewing])
        self._deadline = _NEVER
        log.info("not leading any more", identity=self.candidacy.identity, term=self._terms)
        if not renewing.cancelled():
            renewing.result()

    async def _renew(self) -> None:
        """Renews until the deadline passes or somebody else holds the lease; both end the leading work."""
        await asyncio.sleep(self._timing.retry)
        while (left := self._deadline - self._loop_time()) > 0:
            if not await self._attempt(min(self._timing.attempt, left)) and self._lock.taken:
                self._deadline = _NEVER
                self._limit()
                return
            # A wish of the server is heeded as far as it leaves time for another attempt.
            await asyncio.sleep(max(self._timing.retry, min(self._asked, left / 2)))

    async def _release(self) -> None:
        """Best effort: without it the others wait for the duration."""
        try:
            async with asyncio.timeout(self._timing.attempt):
                await self._lock.let_go()
        except (KubeError, TimeoutError) as error:
            log.warning("the lease could not be released, it will run out", error=str(error))

    # --- one attempt --------------------------------------------------------------------------------------------

    async def _attempt(self, seconds: float) -> bool:
        """Acquires or renews within `seconds`; whether this process holds the lease now."""
        begun = self._loop_time()
        self._asked = 0.0
        try:
            async with asyncio.timeout(seconds):
                holds = await self._lock.take()
            self._problem = ""
            self._answered = self._loop_time()
        except TimeoutError:
            self._complain("the API server did not answer in time", seconds=round(seconds, 3))
            holds = False
        except KubeError as error:
            self._complain(str(error))
            self._asked = error.retry_after or 0.0 if isinstance(error, ApiError) else 0.0
            holds = False
        finally:
            self._turned = self._loop_time()
        if holds:
            self._deadline = begun + self._timing.deadline
            self._limit()
        return holds

    # --- time ---------------------------------------------------------------------------------------------------

    def _patience(self) -> float:
        """Seconds to the next attempt of a candidate: jittered, but not past the end of what another one holds.

        A server that asks for more gets it, up to the duration of a lease.
        """
        jittered = self._timing.retry * (1 + _JITTER * self._chance())
        left = self._lock.left()
        pause = min(jittered, left + 0.1 * jittered) if left > 0 else jittered
        return max(pause, min(self._asked, self._timing.duration))

    def _limit(self) -> None:
        """Moves the end of the leading work to the deadline, or to the end of the drain where that is sooner."""
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(max(self._loop_time(), min(self._deadline, self._drained)))

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            return

    def _complain(self, problem: str, **details: object) -> None:
        """Logs a problem when it is new; the attempts that repeat it say nothing."""
        if problem != self._problem:
            log.warning("no success with the lease", problem=problem, lease=self.candidacy.lease, **details)
            self._problem = problem

    @staticmethod
    def _loop_time() -> float:
        return asyncio.get_running_loop().time()
