"""Stores → what there is of each worker: its set, whose it is, its pod, and volumes that are left over."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ebbtide import vocabulary
from reconciler.scaler.dedicated.names import set_name
from reconciler.scaler.pods import WorkerClaim, WorkerPod, WorkerSet
from reconciler.scaler.stores import Stores
from reconciler.scaler.task import TaskId


@dataclass(frozen=True, slots=True)
class Worker:
    """A set that can be related to its task. `size` in bytes."""

    set: WorkerSet
    task: TaskId
    cluster: int
    size: int
    pod: WorkerPod | None

    @property
    def ran(self) -> bool:
        """Whether a task of it was seen running, and no end of it."""
        return vocabulary.TASK_SEEN_ANNOTATION in self.set.annotations


@dataclass(frozen=True, slots=True)
class Foreign:
    """A set with our label that says of no task that it is for it; `reason` in words."""

    set: WorkerSet
    reason: str


class Snapshot:
    """Reads the stores; `prefix` begins the names of workers."""

    def __init__(self, stores: Stores, prefix: str) -> None:
        self._stores = stores
        self._prefix = prefix
        self._sets: dict[str, Worker | Foreign] = {}
        self._tasks: dict[TaskId, dict[str, None]] = defaultdict(dict)
        self._claims: dict[str, dict[str, None]] = defaultdict(dict)
        stores.sets.subscribe(self._set_changed)
        stores.claims.subscribe(self._claim_changed)

    @property
    def unknown(self) -> str:
        """What is still to be read, in words; "" when nothing is."""
        return self._stores.unknown

    def worker(self, name: str) -> Worker | Foreign | None:
        """What a set of that name is; None for one that is not there, or that does not carry our label."""
        found = self._sets.get(name)
        return self._current(found) if isinstance(found, Worker) else found

    def name_for(self, task: TaskId) -> str:
        """The worker of the task: the one that it has, whatever that is called, else what it would be called."""
        usual = set_name(self._prefix, task)
        known = self._tasks.get(task)
        return usual if not known or usual in known else next(iter(known))

    def names(self) -> Iterable[str]:
        """Everything that there may be something to do about."""
        return {*self._sets, *self._claims}

    def workers(self) -> Iterable[Worker]:
        """All of them, as they are now; safe against changes meanwhile."""
        return tuple(self._current(one) for one in self._sets.values() if isinstance(one, Worker))

    def clusters(self) -> Iterable[int]:
        """Those that their tasks belong to."""
        return {one.cluster for one in self._sets.values() if isinstance(one, Worker)}

    def claims(self, name: str) -> tuple[WorkerClaim, ...]:
        """The claims that were made for a set of that name, and carry our label."""
        found = (self._stores.claims.get(key) for key in self._claims.get(name, ()))
        return tuple(claim for claim in found if claim is not None and not claim.deleting)

    def _current(self, worker: Worker) -> Worker:
        """With its pod, and in the version that the copy has now: a change of nothing but the version is not told."""
        live = self._stores.worker_set(worker.set.name) or worker.set
        return replace(worker, set=live, pod=self._pod(live))

    def _pod(self, owner: WorkerSet) -> WorkerPod | None:
        """A pod of a set that had the same name before is none of this one's."""
        return next((pod for pod in self._stores.pods_of(owner.name) if pod.set_uid == owner.uid), None)

    def _set_changed(self, old: WorkerSet | None, new: WorkerSet | None) -> None:
        if old is not None:
            self._forget(old.name)
        if new is not None and new.pool == vocabulary.POOL_DEDICATED:
            found = self._sets[new.name] = read(new, None)
            if isinstance(found, Worker):
                self._tasks[found.task][new.name] = None

    def _forget(self, name: str) -> None:
        found = self._sets.pop(name, None)
        if isinstance(found, Worker):
            self._tasks[found.task].pop(name, None)
            if not self._tasks[found.task]:
                del self._tasks[found.task]

    def _claim_changed(self, old: WorkerClaim | None, new: WorkerClaim | None) -> None:
        before, after = owner_name(old), owner_name(new)
        if old is not None and before and before != after:
            self._claims[before].pop(old.key, None)
            if not self._claims[before]:
                del self._claims[before]
        if new is not None and after:
            self._claims[after][new.key] = None


def read(found: WorkerSet, pod: WorkerPod | None) -> Worker | Foreign:
    """Whose a set with our label is."""
    words = found.annotations
    try:
        task = TaskId.parse(words.get(vocabulary.TASK_ID_ANNOTATION, ""))
    except ValueError as error:
        return Foreign(found, f"annotation {vocabulary.TASK_ID_ANNOTATION} is {error}")
    cluster, size = words.get(vocabulary.CLUSTER_ID_ANNOTATION, ""), words.get(vocabulary.DATA_SIZE_ANNOTATION, "0")
    if not (cluster.isascii() and cluster.isdigit()):
        return Foreign(found, f"annotation {vocabulary.CLUSTER_ID_ANNOTATION} is no number")
    return Worker(found, task, int(cluster), int(size) if size.isascii() and size.isdigit() else 0, pod)


def owner_name(claim: WorkerClaim | None) -> str:
    """The set that one of our claims was made for; "" for a claim that is not ours."""
    if claim is None or claim.labels.get(vocabulary.POOL_LABEL) != vocabulary.POOL_DEDICATED:
        return ""
    return claim.labels.get(vocabulary.WORKER_LABEL, "")
