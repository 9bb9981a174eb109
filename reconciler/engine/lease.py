"""Leader election over a Lease, with client-go's rules.

Safety rests on durations alone. The holder may write until `renew_deadline` after it *began* its last successful
renewal. A candidate takes over when it has seen the same record for the record's whole duration, by its own clock,
counted from when it first saw it, which is later than the holder began to write it. As the deadline is shorter than
the duration, the old holder has stopped before anybody else can start, however wrong the machines' clocks are.

Every write depends on the resourceVersion that was read, so of two candidates one gets a conflict, and an answer that
was lost is found out by reading again. The one gap that remains is client-go's too: somebody who deletes the Lease or
writes another holder into it by hand; this holder notices at its next renewal and stops at once.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from ebbtide.clock import Clock
from ebbtide.kube.client import Client
from ebbtide.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from ebbtide.kube.limits import Lane
from ebbtide.kube.resources import LEASES
from reconciler.engine import lease_record
from reconciler.engine.lease_record import Claim, Record

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
class Candidacy:
    """Who stands for which Lease. `annotations` are on the Lease while this process holds it."""

    namespace: str
    lease: str
    identity: str
    annotations: Mapping[str, str] = field(default_factory=dict)


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
        self._client = client
        self._clock = clock
        self._timing = timing or Timing()
        self._claim = Claim(candidacy.identity, self._timing.duration, candidacy.annotations)
        self._chance = chance
        self._stop = asyncio.Event()
        self._terms = 0
        self._problem = ""
        # The record as last seen, and the loop time at which it was first seen like that.
        self._seen: Record | None = None
        self._seen_at = _NEVER
        self._answered = False
        self._turned = _NEVER
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
        return self._seen

    @property
    def answered(self) -> bool:
        """Whether the server has answered the question for the Lease at least once."""
        return self._answered

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
            if not await self._attempt(min(self._timing.attempt, left)) and self._taken():
                self._deadline = _NEVER
                self._limit()
                return
            await asyncio.sleep(self._timing.retry)

    async def _release(self) -> None:
        """Best effort: without it the others wait for the duration."""
        try:
            async with asyncio.timeout(self._timing.attempt):
                with suppress(Conflict):
                    return await self._let_go()
                # A renewal that was cut off by the end of the work may have arrived all the same.
                await self._read()
                await self._let_go()
        except (KubeError, TimeoutError) as error:
            log.warning("the lease could not be released, it will run out", error=str(error))

    async def _let_go(self) -> None:
        if self._seen is not None and self._seen.holder == self.candidacy.identity:
            await self._replace(self._claim.released(self._seen, self._clock.now()))

    # --- one attempt --------------------------------------------------------------------------------------------

    async def _attempt(self, seconds: float) -> bool:
        """Acquires or renews within `seconds`; whether this process holds the lease now."""
        begun = self._loop_time()
        try:
            async with asyncio.timeout(seconds):
                holds = await self._acquire_or_renew()
        except TimeoutError:
            self._complain("the API server did not answer in time", seconds=round(seconds, 3))
            holds = False
        except KubeError as error:
            self._complain(str(error))
            holds = False
        finally:
            self._turned = self._loop_time()
        if holds:
            self._problem = ""
            self._deadline = begun + self._timing.deadline
            self._limit()
        return holds

    async def _acquire_or_renew(self) -> bool:
        # Its own record can be renewed without reading first, unless somebody has written meanwhile.
        if self._seen is not None and self._seen.holder == self.candidacy.identity:
            with suppress(Conflict, NotFound):
                return await self._hold(self._seen)
        seen = await self._read()
        if seen is None:
            return await self._create()
        if self._taken() and self._loop_time() < self._runs_out():
            return False
        with suppress(Conflict):
            return await self._hold(seen)
        return False

    async def _hold(self, before: Record) -> bool:
        await self._replace(self._claim.held(before, self._clock.now()))
        return True

    async def _create(self) -> bool:
        body = lease_record.body(self._claim.first(self.candidacy.lease, self._clock.now()))
        try:
            raw = await self._client.create(LEASES, body, namespace=self.candidacy.namespace, lane=Lane.URGENT)
        except AlreadyExists:
            return False
        except NotFound as error:
            self._complain(f"namespace {self.candidacy.namespace!r} of the lease does not exist", error=error.message)
            return False
        self._see(raw)
        return True

    async def _read(self) -> Record | None:
        try:
            raw = await self._client.get(
                LEASES, self.candidacy.lease, namespace=self.candidacy.namespace, lane=Lane.URGENT
            )
        except NotFound:
            self._seen = None
        else:
            self._see(raw)
        self._answered = True
        return self._seen

    async def _replace(self, record: Record) -> None:
        body = lease_record.body(record)
        raw = await self._client.replace(
            LEASES, self.candidacy.lease, body, namespace=self.candidacy.namespace, lane=Lane.URGENT
        )
        self._see(raw)

    def _see(self, raw: Mapping[str, Any]) -> Record:
        record = lease_record.read(raw, self._timing.duration)
        if self._seen is None or record.holder != self._seen.holder:
            log.info("lease holder", holder=record.holder or "none")
        if record != self._seen:
            self._seen_at = self._loop_time()
        self._seen = record
        return record

    # --- time ---------------------------------------------------------------------------------------------------

    def _runs_out(self) -> float:
        """Loop time at which the record seen may be taken over."""
        return self._seen_at + (self._seen.duration if self._seen else 0.0)

    def _patience(self) -> float:
        """Seconds to the next attempt of a candidate: jittered, but not past the end of what another one holds."""
        jittered = self._timing.retry * (1 + _JITTER * self._chance())
        left = self._runs_out() - self._loop_time()
        return min(jittered, left + 0.1 * jittered) if left > 0 else jittered

    def _taken(self) -> bool:
        return self._seen is not None and self._seen.holder not in ("", self.candidacy.identity)

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
