"""One decision per task, whoever asks and however often.

A decision and the work that follows from it (a worker that has to start, a place that has to become free) is a flight.
It belongs to the desk: requests for the task join it, and one that goes away ends its own waiting only. What is known
of tasks is not kept here: the three placements know it from the cluster and from workers, at any time anew.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from reconciler.scaler.contract import (
    MOST_AT_ONCE,
    Arrival,
    Phase,
    Place,
    Placement,
    PlacementError,
    Refused,
    Target,
    TaskRecord,
    Unavailable,
    too_many,
)
from reconciler.scaler.discovery import Discovery
from reconciler.scaler.local.controller import Local
from reconciler.scaler.placement import Rules, Verdict, decide
from reconciler.scaler.report import PlacementReport, Result
from reconciler.scaler.task import TaskId, TaskPrefix

log = structlog.stdlib.get_logger(__name__)

# A keyspace may have thousands of tasks, and each of them is a request.
CANCELS_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True)
class Placements:
    """The three of them; a task is looked for in this order."""

    dedicated: Placement
    shared: Placement
    local: Local

    @property
    def all(self) -> Sequence[Placement]:
        return (self.dedicated, self.shared, self.local)

    def at(self, target: Target) -> Placement:
        return next(placement for placement in self.all if placement.target is target)


@dataclass(slots=True)
class _Flight:
    """A decision under way. `outcome` is what all who wait are told; nobody has to."""

    arrival: Arrival
    target: Target
    outcome: asyncio.Future[Place]
    work: asyncio.Task[None] | None = field(default=None, repr=False)


class TaskDesk:
    """The desk; see `contract.Desk`. Places tasks while `run` runs; `find` and `records` answer at any time."""

    def __init__(
        self,
        rules: Rules,
        placements: Placements,
        discovery: Discovery,
        report: PlacementReport,
        most_at_once: int = MOST_AT_ONCE,
    ) -> None:
        self.name = "worker-desk"
        self._rules = rules
        self._placements = placements
        self._discovery = discovery
        self._report = report
        self._most_at_once = most_at_once
        self._flights: dict[TaskId, _Flight] = {}
        self._group: asyncio.TaskGroup | None = None
        self._drained = asyncio.Event()

    # --- life ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Owns the work of one term; at its end whoever still waits is told to come again."""
        self._discovery.begin()
        try:
            async with asyncio.TaskGroup() as self._group:
                await self._drained.wait()
                self._end_term()
                for flight in self._flights.values():
                    _stop(flight)
        finally:
            self._end_term()

    def drain(self) -> None:
        self._drained.set()

    def longest(self) -> float:
        """Nothing here works by itself; waiting is bounded by the placements."""
        return 0.0

    def _end_term(self) -> None:
        self._group = None
        self._discovery.end()

    # --- what is known -------------------------------------------------------------------------------------------

    def unknown(self, cluster: int = 0) -> str:
        return self._discovery.unknown(cluster)

    def find(self, task: TaskId, cluster: int) -> Place | None:
        place = self._find(task)
        if place is None or place.cluster != cluster:
            return None
        # While this process leads nothing is told before all is known; without a lease what was known last is.
        unknown = self._discovery.unknown() if self.running else ""
        if self.running and not place.ready:
            self._placements.at(place.target).wanted(task)
        return _not_ready(place, unknown) if unknown else place

    def records(self, cluster: int) -> Iterable[TaskRecord]:
        return [record for record in self.everything() if record.cluster == cluster]

    def everything(self) -> Iterable[TaskRecord]:
        """All tasks of all clusters, each once."""
        found: dict[TaskId, TaskRecord] = {}
        for placement in self._placements.all:
            for record in placement.records():
                found.setdefault(record.task, record)
        for flight in self._flights.values():
            found.setdefault(flight.arrival.task, _waiting(flight))
        return found.values()

    def clusters(self) -> Iterable[int]:
        """Those of tasks that are being placed."""
        return {flight.arrival.cluster for flight in self._flights.values()}

    @property
    def running(self) -> bool:
        """Whether tasks are placed here now."""
        return self._group is not None

    def _find(self, task: TaskId) -> Place | None:
        place, flight = self._placed(task), self._flights.get(task)
        if place is None and flight is not None:
            place = Place(task, flight.arrival.cluster, flight.target, "", ready=False, reason="it is being placed")
        return place

    def _placed(self, task: TaskId) -> Place | None:
        return next((place for each in self._placements.all if (place := each.find(task)) is not None), None)

    # --- placing -------------------------------------------------------------------------------------------------

    async def place(self, arrival: Arrival) -> Place:
        unknown = self.unknown(arrival.cluster)
        if unknown:
            raise Unavailable(unknown, code="Discovering", retry_after=1)
        known = self._find(arrival.task)
        self._demand_same_cluster(arrival, known)
        self._demand_size(arrival)
        flight = self._flights.get(arrival.task) or self._begin(arrival, known)
        return await asyncio.shield(flight.outcome)

    def _demand_same_cluster(self, arrival: Arrival, known: Place | None) -> None:
        if known is None or known.cluster == arrival.cluster:
            return
        reason = f"cluster id mismatch: task {arrival.task} is of another cluster than {arrival.cluster}"
        self._report.failed(arrival, known.target, Result.REFUSED, reason)
        raise Refused(reason)

    def _demand_size(self, arrival: Arrival) -> None:
        """A task above the limit is refused even when it has a place: it cannot have got it with that size."""
        if arrival.size > self._rules.max_size:
            reason = decide(arrival.size, None, self._rules).reason
            self._report.failed(arrival, Target.DEDICATED, Result.TOO_LARGE, reason)
            raise Refused(reason)

    def _begin(self, arrival: Arrival, known: Place | None) -> _Flight:
        if self._group is None:
            raise Unavailable("this replica does not lead", code="NotLeading")
        verdict = self._verdict(arrival, known)
        assert verdict.target is not None, "sizes above the limit were refused before"
        if known is None:
            self._demand_room(arrival, verdict.target)
        flight = _Flight(arrival, verdict.target, asyncio.get_running_loop().create_future())
        self._flights[arrival.task] = flight
        flight.work = self._group.create_task(self._fly(flight), name=f"place {arrival.task}")
        flight.work.add_done_callback(lambda _: self._landed(flight))
        return flight

    def _demand_room(self, arrival: Arrival, target: Target) -> None:
        """For a new task: those that have a place are as many as there are places, and only ask for the way."""
        crowded = f"{self._most_at_once} tasks are being placed" if len(self._flights) >= self._most_at_once else ""
        reason = crowded or self._discovery.refusal(arrival.cluster)
        if reason:
            self._report.failed(arrival, target, Result.UNAVAILABLE, reason)
            raise too_many(reason)

    def _verdict(self, arrival: Arrival, known: Place | None) -> Verdict:
        """A task that has a place stays there, and is promised it anew: its client is about to come."""
        if known is not None:
            return Verdict(known.target, "it has its place already")
        return decide(arrival.size, self._placements.local.least(), self._rules)

    async def _fly(self, flight: _Flight) -> None:
        """Never raises but for cancellation: the end of one flight is none of the others' business.

        Decided here and not when it was asked for: between this decision and its promise nobody else decides.
        """
        arrival = flight.arrival
        known = self._placed(arrival.task)
        verdict = self._verdict(arrival, known)
        assert verdict.target is not None, "sizes above the limit were refused before"
        flight.target = verdict.target
        try:
            place = await self._placements.at(flight.target).place(arrival)
        except PlacementError as error:
            result = Result.REFUSED if isinstance(error, Refused) else Result.UNAVAILABLE
            self._report.failed(arrival, flight.target, result, str(error))
            flight.outcome.set_exception(error)
        except Exception as error:  # a fault of ours in one task; whoever waits for it is told
            log.exception("task not placed", task=str(arrival.task))
            flight.outcome.set_exception(error)
        else:
            if known is None or not known.ready:
                self._report.placed(arrival, place, verdict.reason)
            flight.outcome.set_result(place)

    def _landed(self, flight: _Flight) -> None:
        """Its work is over, perhaps before it has begun."""
        del self._flights[flight.arrival.task]
        if not flight.outcome.done():
            flight.outcome.set_exception(Unavailable("its placement was given up", code="GivenUp", retry_after=1))
        if not flight.outcome.cancelled():
            # One that nobody waits for any more has nobody to tell of its failure.
            flight.outcome.exception()

    # --- cancelling ----------------------------------------------------------------------------------------------

    async def cancel(self, task: TaskId, cluster: int) -> bool:
        place = self._find(task)
        if place is None or place.cluster != cluster:
            return False
        self._demand_leading()
        if await self._placements.at(place.target).cancel(task, remove=False):
            return True
        if task in self._flights:
            raise Unavailable(f"task {task} is being placed")
        return False

    async def cancel_all(self, prefix: str, cluster: int) -> int:
        """Goes on past workers that do not answer, and tells of them in the end."""
        try:
            within = TaskPrefix.parse(prefix)
        except ValueError as error:
            raise Refused(f"task_id_prefix {prefix!r}: {error}") from error
        self._demand_leading()
        concerned = [record for record in self.records(cluster) if record.task.within(within)]
        troubles: list[str] = []
        free = asyncio.Semaphore(CANCELS_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for record in concerned:
                group.create_task(self._end(record, troubles, free))
        if troubles:
            raise Unavailable(f"{len(troubles)} of {len(concerned)} tasks are not cancelled: {troubles[0]}")
        return len(concerned)

    async def _end(self, record: TaskRecord, troubles: list[str], free: asyncio.Semaphore) -> None:
        flight = self._flights.get(record.task)
        if flight is not None:
            _stop(flight)
        try:
            async with free:
                await self._placements.at(record.target).cancel(record.task, remove=True)
        except PlacementError as error:
            troubles.append(str(error))

    def _demand_leading(self) -> None:
        if self._group is None:
            raise Unavailable("this replica does not lead", code="NotLeading")


def _stop(flight: _Flight) -> None:
    if flight.work is not None:
        flight.work.cancel()


def _waiting(flight: _Flight) -> TaskRecord:
    arrival = flight.arrival
    return TaskRecord(arrival.task, arrival.cluster, flight.target, "", Phase.WAITING, arrival.size)


def _not_ready(place: Place, reason: str) -> Place:
    return Place(place.task, place.cluster, place.target, place.address, ready=False, reason=reason)
