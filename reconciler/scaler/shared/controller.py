"""The placement on the shared pool: which events lead to which look, and what the desk is told.

Two looks, each in one worker at a time: at who waits, and at the pool's size and pods. The first must not wait for the
second, which asks workers.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ebbtide.counting import count
from reconciler.engine.controller import Again, Controller
from reconciler.scaler.address import Addresses
from reconciler.scaler.contract import Arrival, Phase, Place, Target, TaskRecord, Unavailable
from reconciler.scaler.knowledge import Knowledge
from reconciler.scaler.metrics import WorkerState
from reconciler.scaler.pods import WorkerPod, WorkerSet
from reconciler.scaler.resolving import Names
from reconciler.scaler.shared.describe import describe, doing
from reconciler.scaler.shared.facts import PodState, Pool
from reconciler.scaler.shared.looking import Looks
from reconciler.scaler.shared.memory import Pin
from reconciler.scaler.shared.queue import Waiter
from reconciler.scaler.shared.report import Report
from reconciler.scaler.shared.standing import Standing
from reconciler.scaler.status.book import Answer
from reconciler.scaler.task import TaskId

# How soon a look is repeated while something has not been read yet.
_UNTIL_KNOWN: Final = 1.0


class Key(StrEnum):
    """What is looked at: who waits, or the pool's size and pods."""

    ASSIGN = "assign"
    SCALE = "scale"


@dataclass(frozen=True, slots=True)
class Frame:
    """The pool's name, where its pods are reached, and how long (seconds) until a look by itself and for a request."""

    pool: str
    addresses: Addresses
    names: Names
    refresh: float
    start_timeout: float


class Shared:
    """Tasks on the pool; see `contract.Placement`."""

    target = Target.SHARED

    def __init__(self, frame: Frame, knowledge: Knowledge, standing: Standing, looks: Looks, report: Report) -> None:
        self.name = "shared-pool"
        self._frame = frame
        self._pool = frame.pool
        self._knowledge = knowledge
        self._standing = standing
        self._looks = looks
        self._report = report
        self._changed = asyncio.Event()
        self._arrived = False
        self.controller: Controller[Key] = Controller(self.name, self.reconcile, workers=2, everything=lambda: Key)
        knowledge.stores.pods.subscribe(self._pod_changed)
        knowledge.stores.sets.subscribe(self._set_changed)
        knowledge.clusters.add_source(lambda: self.clusters)
        knowledge.book.subscribe(self._told)

    # --- life ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """One term; starts without knowing anything, since others may have led. At its end nobody waits any more."""
        self._standing.begin()
        self._looks.begin()
        try:
            await self.controller.run()
        finally:
            self._standing.end()
            self._standing.waiting.refuse_all(_not_leading())
            self._report.clear()

    def drain(self) -> None:
        """Begins no further look, finishes those under way."""
        self.controller.drain()

    def longest(self) -> float:
        """Seconds for which the oldest look under way has been running."""
        return self.controller.longest()

    # --- what is known -------------------------------------------------------------------------------------------

    @property
    def discovered(self) -> str:
        return self._standing.discovered

    @property
    def clusters(self) -> frozenset[int]:
        """Every cluster that tasks of the pool are from, or were; also of those that wait."""
        return self._standing.clusters | {waiter.arrival.cluster for waiter in self._standing.waiting.all}

    def find(self, task: TaskId) -> Place | None:
        pin = self._standing.memory.pins.get(task)
        return None if pin is None else self._place(pin)

    def wanted(self, task: TaskId) -> None:
        """Changes nothing: a pin lasts while its pod is away."""

    def records(self) -> Iterable[TaskRecord]:
        """Also those that wait."""
        waiting = (waiter.arrival for waiter in self._standing.waiting.all)
        yield from [TaskRecord(a.task, a.cluster, self.target, "", Phase.WAITING, a.size) for a in waiting]
        yield from [self._record(pin) for pin in self._standing.memory.pins.values()]

    def facts(self) -> Pool:
        """The pool as it is known now, with who waits."""
        return self._standing.pool()

    def describe(self) -> dict[str, Any]:
        """The pool in the state document."""
        return describe(self.facts(), self._standing.rules, self._report.conditions)

    def worker_states(self) -> Iterable[WorkerState]:
        """What each pod is doing, for the metric."""
        return [doing(pod) for pod in self.facts().pods if pod.state is not PodState.MISSING]

    # --- placing -------------------------------------------------------------------------------------------------

    async def place(self, arrival: Arrival) -> Place:
        unread = self.discovered
        if unread or not self._standing.leading:
            raise Unavailable(unread, code="Discovering", retry_after=1) if self._standing.leading else _not_leading()
        try:
            async with asyncio.timeout(self._frame.start_timeout):
                await self._pin(arrival)
                return await self._ready(arrival.task)
        except TimeoutError as error:
            raise Unavailable(self._too_late(), code="NoCapacity") from error

    async def cancel(self, task: TaskId, *, remove: bool) -> bool:
        """The pod is others' too, and stays. A task that it has never heard of is just forgotten."""
        del remove
        pin = self._standing.memory.pins.get(task)
        if pin is None:
            return False
        pod = self._standing.snapshot.pod(pin.ordinal)
        if pod is None:
            raise Unavailable(f"pod {pin.ordinal} of {self._pool} is away")
        known = await self._knowledge.cancel(pod, pin.cluster, task)
        if not known and self._standing.memory.pins.get(task) is pin:
            self._standing.memory.forget(task)
        return True

    async def _pin(self, arrival: Arrival) -> None:
        """Returns when the task has its pod, and that is stored."""
        pin = self._standing.memory.pins.get(arrival.task)
        if pin is not None:
            self._standing.memory.renew(pin, self._standing.now)
            return
        if not self._standing.rules.enabled:
            raise Unavailable("the shared pool is switched off", code="SwitchedOff")
        waiter = self._standing.waiting.add(arrival)
        self._arrived = True
        self.controller.queue.add(Key.ASSIGN)
        await self._wait(waiter)

    async def _wait(self, waiter: Waiter) -> None:
        try:
            await waiter.placed()
        finally:
            self._standing.waiting.remove(waiter)
            waiter.give_up()

    async def _ready(self, task: TaskId) -> Place:
        while True:
            await self._named(task)
            place = self.find(task)
            if place is None:
                raise Unavailable("its place was given up", code="GivenUp", retry_after=1)
            if place.ready:
                return place
            await self._changed.wait()

    async def _named(self, task: TaskId) -> None:
        """Returns when clients can be sent to the task's pod by its name; at once for a pod that is not ready."""
        pin, frame = self._standing.memory.pins.get(task), self._frame
        pod = None if pin is None else self._standing.snapshot.pod(pin.ordinal)
        if pod is not None and pod.ready:
            await frame.names.wait(pod, frame.addresses.host_of_pod(pod, self._pool))

    def _too_late(self) -> str:
        pool, within = self._standing.pool(), f"{self._frame.start_timeout:g} s"
        told = f": {pool.refused}" if pool.refused else ""
        pods = count(pool.replicas, "pod is", "pods are")
        return f"no pod took the task within {within}: {len(pool.usable)} of {pods} usable{told}"

    # --- looks ---------------------------------------------------------------------------------------------------

    async def reconcile(self, key: Key) -> Again | None:
        """Raises what its writes raised."""
        if self._standing.snapshot.unknown:
            return Again(_UNTIL_KNOWN)
        if key is Key.ASSIGN:
            # Only who has just come leads to a look at the size: those who wait already have had theirs.
            arrived, self._arrived = self._arrived, False
            await self._looks.assign(self._grow if arrived else _nothing)
            return None
        after = await self._looks.scale(self._frame.refresh)
        self._wake()
        return Again(_UNTIL_KNOWN if self.discovered else after)

    def _grow(self) -> None:
        self.controller.queue.add(Key.SCALE)

    # --- events --------------------------------------------------------------------------------------------------

    def _pod_changed(self, old: WorkerPod | None, new: WorkerPod | None) -> None:
        pod = new or old
        assert pod is not None
        if pod.set_name != self._pool or pod.ordinal < 0:
            return
        if new is None or not new.ready or (old is not None and (old.uid, old.started) != (new.uid, new.started)):
            self._standing.memory.unsettled(pod.ordinal)
        self._look()

    def _set_changed(self, old: WorkerSet | None, new: WorkerSet | None) -> None:
        found = new or old
        assert found is not None
        if found.name == self._pool or self._looks.concerns(found):
            self._look()

    def _told(self, key: str) -> None:
        """An answer of some pod has come, or has not."""
        pod = self._knowledge.stores.pods.get(key)
        if pod is None or pod.set_name != self._pool or pod.ordinal < 0 or not self._standing.leading:
            return
        unread, answer = self.discovered, self._standing.snapshot.answer(pod, self._standing.now)
        if answer is None:
            self._standing.memory.unsettled(pod.ordinal)
        else:
            self._heard(pod, answer)
        if unread and not self.discovered:
            self.controller.queue.add(Key.SCALE)
        if len(self._standing.waiting):
            self.controller.queue.add(Key.ASSIGN)

    def _heard(self, pod: WorkerPod, answer: Answer) -> None:
        now = self._standing.now
        self._looks.came(pod.ordinal)
        lost = self._standing.memory.heard(pod.ordinal, pod.uid, answer, now)
        if lost:
            self._report.lost_tasks(pod, lost)

    def _look(self) -> None:
        """Something has changed that the size may depend on."""
        self.controller.queue.add(Key.SCALE)
        self._wake()

    def _wake(self) -> None:
        """Whoever waits for a place, or for a pod to be ready, is looked at again."""
        self._changed.set()
        self._changed = asyncio.Event()
        if len(self._standing.waiting):
            self.controller.queue.add(Key.ASSIGN)

    # --- facts → words -------------------------------------------------------------------------------------------

    def _place(self, pin: Pin) -> Place:
        pod = self._standing.snapshot.pod(pin.ordinal)
        address = "" if pod is None else self._frame.addresses.shared(pod, self._pool)
        closing = self._standing.closing is not None and pin.ordinal >= self._standing.closing
        unnamed = pod is not None and self._frame.names.pending(pod)
        ready = bool(address) and pod is not None and pod.ready and not closing and not unnamed
        state = "being removed" if closing else "not known to DNS yet" if unnamed else "not ready"
        reason = "" if ready else f"pod {self._pool}-{pin.ordinal} is {state}"
        return Place(pin.task, pin.cluster, self.target, address, ready, reason)

    def _record(self, pin: Pin) -> TaskRecord:
        seen = self._standing.memory.seat(pin.ordinal).listed.get(pin.task)
        phase = Phase.WAITING if seen is None else Phase.RUNNING if seen.running else Phase.ENDED
        return TaskRecord(pin.task, pin.cluster, self.target, f"{self._pool}-{pin.ordinal}", phase, pin.size, seen)


def _nothing() -> None:
    """In place of a look at the size."""


def _not_leading() -> Unavailable:
    return Unavailable("this replica does not lead", code="NotLeading")
