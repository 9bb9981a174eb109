"""What the desk speaks to: where tasks with a worker of their own are, and how they get one."""

import asyncio
from collections.abc import Iterable
from typing import Final

from reconciler.scaler.contract import Arrival, Phase, Place, Target, TaskRecord, Unavailable
from reconciler.scaler.dedicated.basis import Basis
from reconciler.scaler.dedicated.controller import Upkeep
from reconciler.scaler.dedicated.report import Seen
from reconciler.scaler.dedicated.snapshot import Worker
from reconciler.scaler.knowledge import Knowledge
from reconciler.scaler.task import TaskId, TaskState

# How long a client that cancels is kept waiting for the API server before it is told to come again; seconds.
_REMOVED_WITHIN: Final = 10.0
_NOT_READY: Final = "its worker is not ready"
_NOT_NAMED: Final = "the name of its worker is not known to DNS yet"


class Dedicated:
    """The placement on dedicated workers; `upkeep` does the work, and is to run while this process leads.

    Nobody asks it for a place in a dry run, which has no front; where workers are is told all the same.
    """

    target = Target.DEDICATED

    def __init__(self, basis: Basis, upkeep: Upkeep, knowledge: Knowledge) -> None:
        self.upkeep = upkeep
        self._basis = basis
        self._knowledge = knowledge

    # --- what is known -------------------------------------------------------------------------------------------

    @property
    def discovered(self) -> str:
        return self._basis.snapshot.unknown

    @property
    def workers(self) -> Iterable[Seen]:
        """Every worker with what was last decided about it."""
        return self._basis.report.workers

    def find(self, task: TaskId) -> Place | None:
        basis = self._basis
        name = basis.snapshot.name_for(task)
        worker = self._worker(name, task)
        if worker is not None:
            return self._place(worker)
        want = basis.wants.get(name, basis.now)
        if want is None:
            return None
        reason = "its worker is being created"
        return Place(task, want.arrival.cluster, self.target, "", ready=False, reason=reason)

    def wanted(self, task: TaskId) -> None:
        """A client that was started anew only asks where its task is until it is sent there: a retry as well."""
        worker = self._worker(self._basis.snapshot.name_for(task), task)
        life = None if worker is None else self._basis.lives.known(worker.set.uid)
        if life is not None:
            life.use(self._basis.now)

    def records(self) -> Iterable[TaskRecord]:
        workers = (self._worker(worker.set.name, worker.task) for worker in self._basis.snapshot.workers())
        return [self._record(worker) for worker in workers if worker is not None]

    # --- what is done --------------------------------------------------------------------------------------------

    async def place(self, arrival: Arrival) -> Place:
        basis = self._basis
        self._demand_working()
        renewed = self._renewed(arrival.task)
        if renewed is not None:
            return renewed
        name = basis.snapshot.name_for(arrival.task)
        want = basis.wants.join(name, arrival, basis.now)
        self.upkeep.look_at(name)
        await asyncio.wait((want.outcome,), timeout=basis.settings.start_timeout)
        if not want.outcome.done():
            raise self._late(name, arrival)
        outcome = want.outcome.result()
        if isinstance(outcome, Unavailable):
            raise outcome
        return outcome

    async def cancel(self, task: TaskId, *, remove: bool) -> bool:
        basis = self._basis
        name = basis.snapshot.name_for(task)
        worker = self._worker(name, task)
        if remove:
            given_up = basis.wants.cancel(name)
            return await self._remove(worker) if worker is not None else given_up
        if worker is None:
            return False
        if worker.pod is None:
            raise Unavailable("its worker has no pod yet")
        await self._knowledge.cancel(worker.pod, worker.cluster, task)
        return True

    async def _remove(self, worker: Worker) -> bool:
        self._demand_working()
        life = self._basis.lives.of(worker, self._basis.now)
        life.cancelled = True
        self.upkeep.look_at(worker.set.name)
        try:
            async with asyncio.timeout(_REMOVED_WITHIN):
                await life.gone.wait()
        except TimeoutError:
            raise Unavailable("its worker could not be removed yet", code="NotRemoved") from None
        return True

    # --- below ---------------------------------------------------------------------------------------------------

    def _demand_working(self) -> None:
        if not self.upkeep.leading:
            raise Unavailable("this replica does not lead", code="NotLeading")
        if unknown := self.discovered:
            raise Unavailable(unknown, code="Discovering", retry_after=1)

    def _worker(self, name: str, task: TaskId) -> Worker | None:
        """The worker of the task, unless it is on its way out."""
        worker = self._basis.snapshot.worker(name)
        if not isinstance(worker, Worker) or worker.task != task or worker.set.deleting:
            return None
        life = self._basis.lives.known(worker.set.uid)
        return None if life is not None and (life.removed or life.cancelled) else worker

    def _renewed(self, task: TaskId) -> Place | None:
        """The place of a task whose worker is in order, promised anew; None where there is something to be done first.

        Nothing is awaited between the look and the promise.
        """
        basis = self._basis
        worker = self._worker(basis.snapshot.name_for(task), task)
        life = None if worker is None else basis.lives.known(worker.set.uid)
        if worker is None or life is None or worker.pod is None or not worker.pod.ready or not worker.pod.busy:
            return None
        answer = basis.heard(worker).of(worker.pod, basis.now, basis.valid_for)
        if answer is None or not (life.served_by(worker.pod, answer) and basis.names.known(worker.pod) and life.usable):
            return None
        life.promise(basis.now, basis.settings.reservation_seconds)
        self.upkeep.look_at(worker.set.name)
        return self._place(worker)

    def _place(self, worker: Worker) -> Place:
        """Ready: its pod is, and has answered in this life; that it is silent now is between the client and it."""
        pod = worker.pod
        if pod is None:
            life = self._basis.lives.known(worker.set.uid)
            refused = "" if life is None else life.refused
            return self._at(worker, "", f"its worker's pod cannot be made: {refused}" if refused else _NOT_READY)
        if not pod.ready:
            return self._at(worker, self._address(worker), _NOT_READY)
        answer = self._basis.book.last(pod.uid)
        if answer is None or answer.started != pod.started:
            return self._at(worker, self._address(worker), "its worker has not answered yet")
        unnamed = self._basis.names.pending(pod)
        return self._at(worker, self._address(worker), _NOT_NAMED if unnamed else "")

    def _at(self, worker: Worker, address: str, reason: str) -> Place:
        return Place(worker.task, worker.cluster, self.target, address, ready=not reason, reason=reason)

    def _address(self, worker: Worker) -> str:
        assert worker.pod is not None
        return self._basis.addresses.dedicated(worker.pod, worker.set.service)

    def _record(self, worker: Worker) -> TaskRecord:
        seen = self._state(worker)
        running = worker.ran if seen is None else seen.running
        phase = Phase.RUNNING if running else Phase.WAITING if seen is None else Phase.ENDED
        pod = "" if worker.pod is None else worker.pod.name
        return TaskRecord(worker.task, worker.cluster, self.target, pod, phase, worker.size, seen)

    def _state(self, worker: Worker) -> TaskState | None:
        answer = None if worker.pod is None else self._basis.book.last(worker.pod.uid)
        return next((state for state in answer.states if state.task == worker.task), None) if answer else None

    def _late(self, name: str, arrival: Arrival) -> Unavailable:
        """What a client is told whose time is over."""
        verdict = self._basis.report.last(name)
        reason = "it has not been created yet" if verdict is None else verdict.reason
        code = "NotReady" if verdict is None or verdict.trouble is None else str(verdict.trouble)
        late = Unavailable(f"its worker is not ready: {reason}", code=code)
        self._basis.report.not_ready(arrival, late)
        return late
