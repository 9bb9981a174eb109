"""The placement on the pods of the template. It makes nothing on the cluster, and has nothing to wait for."""

from collections.abc import Iterable
from typing import Final

from ebbtide.config.scaler import WorkerScaler
from reconciler.scaler.address import Addresses
from reconciler.scaler.contract import Arrival, Phase, Place, Target, TaskRecord, Unavailable, too_many
from reconciler.scaler.knowledge import Knowledge
from reconciler.scaler.local.decide import Candidate, choose
from reconciler.scaler.local.memory import Entry, Lists, Memory
from reconciler.scaler.pods import WorkerPod
from reconciler.scaler.status.book import Answer
from reconciler.scaler.task import TaskId

# Tasks that pods list do not count. A client begins its task as soon as it has been told where, and one that never does
# is remembered for `reservation-seconds` all the same: who asks for ever new tasks must not fill the memory with them.
MOST_PROMISES: Final = 10_000


class Local:
    """Tasks on pods of the template.

    What is remembered is kept from one term to the next: whatever another leader has placed meanwhile is told by the
    pods before anything is said of tasks.
    """

    target = Target.LOCAL

    def __init__(self, settings: WorkerScaler, knowledge: Knowledge, most_promises: int = MOST_PROMISES) -> None:
        self._settings = settings
        self._knowledge = knowledge
        self._addresses = Addresses.of(settings)
        self._most_promises = most_promises
        self._memory = Memory(settings.reservation_seconds)
        knowledge.book.subscribe(self._told)
        knowledge.clusters.add_source(lambda: {entry.cluster for entry in self._memory.entries()})

    # --- what is known -------------------------------------------------------------------------------------------

    @property
    def discovered(self) -> str:
        return self.unread(self._knowledge.clusters.all())

    def unread(self, clusters: frozenset[int]) -> str:
        """Pods that have not said yet which tasks of these clusters they have, in words; "" for none.

        Where no cluster is known there is nothing to be read: a request names one before it names a task.
        """
        unread = [pod.name for pod in self._pods() if clusters and self._unread(pod, clusters)]
        return f"tasks of {', '.join(unread[:3])} have not been read yet" if unread else ""

    def _unread(self, pod: WorkerPod, clusters: frozenset[int]) -> bool:
        """A pod that is not ready, or has been silent for as long as one may take to start, is not waited for."""
        if not pod.started or not pod.ready:
            return False
        answer, failing = self._knowledge.book.last(pod.uid), self._knowledge.book.failing_since(pod.uid)
        if failing is not None and self._knowledge.clock.monotonic() - failing >= self._settings.start_timeout:
            return False
        return answer is None or not clusters <= answer.asked

    def least(self) -> int | None:
        """How many tasks the least busy pod runs; None when none can be asked."""
        least = choose(self._candidates())
        return None if least is None else least.running

    def find(self, task: TaskId) -> Place | None:
        entry = self._memory.get(task)
        return None if entry is None else self._place(entry)

    def wanted(self, task: TaskId) -> None:
        """Changes nothing: of a pod that never comes back the task is free when its promise has run out."""

    def records(self) -> Iterable[TaskRecord]:
        return [self._record(entry) for entry in self._memory.entries()]

    # --- what is done --------------------------------------------------------------------------------------------

    async def place(self, arrival: Arrival) -> Place:
        """Decided without a wait, so that tasks that come together are counted one by one."""
        now = self._knowledge.clock.monotonic()
        if self._memory.get(arrival.task) is None:
            self._demand_room()
            least = choose(self._candidates())
            if least is None:
                raise Unavailable(self._nowhere(), code="NoLocalPod")
            self._memory.promise(Entry(arrival.task, arrival.cluster, least.name, now, arrival.size))
        place = self.find(arrival.task)
        assert place is not None, "it was put there above"
        if not place.ready:
            # Not renewed: of a pod that never comes back the task is free when the promise has run out.
            raise Unavailable(place.reason)
        self._memory.renew(arrival.task, now)
        return place

    def _demand_room(self) -> None:
        if self._memory.promises >= self._most_promises:
            raise too_many(f"{self._most_promises} tasks are promised to local pods, which have not heard of them yet")

    async def cancel(self, task: TaskId, *, remove: bool) -> bool:
        """There is no worker to remove. A task that its pod has never heard of is just forgotten."""
        del remove
        entry = self._memory.get(task)
        if entry is None:
            return False
        pod = self._knowledge.stores.pod(entry.pod)
        if pod is None:
            raise Unavailable(f"pod {entry.pod} is away")
        known = await self._knowledge.cancel(pod, entry.cluster, task)
        if not known and self._memory.get(task) is entry:
            self._memory.forget(task)
        return True

    # --- below ---------------------------------------------------------------------------------------------------

    def _told(self, key: str) -> None:
        """An answer of some pod has come, or has not."""
        now, pod = self._knowledge.clock.monotonic(), self._knowledge.stores.pods.get(key)
        if pod is None or pod.set_name != self._settings.template_sts_name:
            return
        answer = self._knowledge.book.last(pod.uid)
        if answer is not None and self._knowledge.book.failing_since(pod.uid) is None:
            self._memory.told(_lists(pod, answer), now)
        self._memory.sweep(now, frozenset(each.name for each in self._pods()))

    def _pods(self) -> Iterable[WorkerPod]:
        return self._knowledge.stores.pods_of(self._settings.template_sts_name)

    def _candidates(self) -> Iterable[Candidate]:
        return [
            Candidate(pod.name, pod.ordinal, self._memory.running(pod.name))
            for pod in self._pods()
            if pod.ready and not self._silent(pod)
        ]

    def _silent(self, pod: WorkerPod) -> str:
        """Why what the pod runs is not known, in words; "" when it is."""
        answer = self._knowledge.book.last(pod.uid)
        if answer is None or answer.started != pod.started:
            return f"{pod.name} has not told its tasks yet"
        return self._knowledge.book.problem(pod.uid)

    def _nowhere(self) -> str:
        reasons = [self._silent(pod) or f"{pod.name} is not ready" for pod in self._pods()]
        name = self._settings.template_sts_name
        return f"no pod of {name} can take a task: {'; '.join(reasons[:3]) or 'there is none'}"

    def _place(self, entry: Entry) -> Place:
        pod = self._knowledge.stores.pod(entry.pod)
        template = self._knowledge.stores.worker_set(self._settings.template_sts_name)
        address = "" if pod is None or template is None else self._addresses.local(pod, template.service)
        ready = bool(address) and pod is not None and pod.ready
        reason = "" if ready else f"pod {entry.pod} is not ready"
        return Place(entry.task, entry.cluster, self.target, address, ready, reason)

    def _record(self, entry: Entry) -> TaskRecord:
        seen = entry.seen
        phase = Phase.WAITING if seen is None else Phase.RUNNING if seen.running else Phase.ENDED
        return TaskRecord(entry.task, entry.cluster, self.target, entry.pod, phase, entry.size, seen)


def _lists(pod: WorkerPod, answer: Answer) -> Lists:
    states = {state.task: (state, cluster) for state, cluster in zip(answer.states, answer.clusters, strict=True)}
    return Lists(pod.name, (pod.uid, answer.started), states, answer.asked)
