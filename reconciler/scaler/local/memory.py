"""Which local pod has which task: what the pods list, and what was promised and not seen yet.

Nothing of it is on the cluster. A promise that is forgotten by a restart was for a pod that the client has been told
already; where the client has begun its task the pod lists it, and where it has not any pod will do.

Instants are monotonic seconds.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from reconciler.scaler.task import TaskId, TaskState

Life = tuple[str, str]


@dataclass(slots=True)
class Entry:
    """One task. `life` is the pod's UID and its container's life that last listed it, None for a mere promise.

    `promised` is since when it counts as promised (again): told to a client, or lost sight of by a restart of the
    pod. `seen` is what the pod last said of it, in its present life.
    """

    task: TaskId
    cluster: int
    pod: str
    promised: float
    size: int = 0
    life: Life | None = None
    seen: TaskState | None = None

    @property
    def load(self) -> bool:
        """Whether it counts as running on its pod."""
        return self.seen is None or self.seen.running


@dataclass(frozen=True, slots=True)
class Lists:
    """What a pod has answered: its states by task with their clusters, and all clusters that it was asked for."""

    pod: str
    life: Life
    states: Mapping[TaskId, tuple[TaskState, int]]
    asked: frozenset[int]


class Memory:
    """All local tasks. A promise holds for `patience` seconds.

    What is counted for every arrival is kept beside the entries: see `_count`.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._entries: dict[TaskId, Entry] = {}
        self._of_pod: dict[str, set[TaskId]] = {}
        self._running: Counter[str] = Counter()
        self._promises = 0

    def get(self, task: TaskId) -> Entry | None:
        return self._entries.get(task)

    def entries(self) -> Iterable[Entry]:
        return tuple(self._entries.values())

    def running(self, pod: str) -> int:
        """Tasks that count as running there."""
        return self._running[pod]

    @property
    def promises(self) -> int:
        """Tasks that no pod lists (any more)."""
        return self._promises

    def promise(self, entry: Entry) -> None:
        """A client is told that its task is there."""
        self._put(entry)

    def renew(self, task: TaskId, now: float) -> None:
        """Its client has come again, and will now go there."""
        self._entries[task].promised = now

    def forget(self, task: TaskId) -> None:
        entry = self._entries.pop(task, None)
        if entry is None:
            return
        tasks = self._of_pod[entry.pod]
        tasks.discard(task)
        self._count(entry, -1)
        if not tasks:
            del self._of_pod[entry.pod], self._running[entry.pod]

    def told(self, lists: Lists, now: float) -> None:
        """Takes a pod's answer."""
        for state, cluster in lists.states.values():
            self._sighted(lists, state, cluster, now)
        for entry in list(self._missing(lists)):
            self._missed(entry, lists.life, now)

    def sweep(self, now: float, pods: frozenset[str]) -> None:
        """Lets promises run out, and forgets tasks of pods that are no more after the same time."""
        for entry in self.entries():
            if entry.seen is not None and entry.pod not in pods:
                self._lost(entry, now)
            if entry.seen is None and now - entry.promised >= self._patience:
                self.forget(entry.task)

    def _sighted(self, lists: Lists, state: TaskState, cluster: int, now: float) -> None:
        known = self._entries.get(state.task)
        if known is None or (known.pod != lists.pod and (state.running or not known.load)):
            known = Entry(state.task, cluster, lists.pod, now, size=0 if known is None else known.size)
            self._put(known)
        if known.pod == lists.pod:
            known.life = lists.life
            self._see(known, state)

    def _missing(self, lists: Lists) -> Iterator[Entry]:
        for task in self._of_pod.get(lists.pod, ()):
            entry = self._entries[task]
            if task not in lists.states and entry.cluster in lists.asked:
                yield entry

    def _missed(self, entry: Entry, life: Life, now: float) -> None:
        """Not listed: over and collected, or lost sight of in a restart, or only promised so far."""
        if entry.life == life and entry.seen is not None:
            self.forget(entry.task)
        elif entry.seen is not None:
            self._lost(entry, now)

    def _lost(self, entry: Entry, now: float) -> None:
        """It counts as promised again."""
        entry.promised = now
        self._see(entry, None)

    def _see(self, entry: Entry, seen: TaskState | None) -> None:
        self._count(entry, -1)
        entry.seen = seen
        self._count(entry, 1)

    def _count(self, entry: Entry, by: int) -> None:
        """An entry is counted (1), or as it was is not any more (-1)."""
        self._running[entry.pod] += by * entry.load
        self._promises += by * (entry.seen is None)

    def _put(self, entry: Entry) -> None:
        self.forget(entry.task)
        self._entries[entry.task] = entry
        self._of_pod.setdefault(entry.pod, set()).add(entry.task)
        self._count(entry, 1)
