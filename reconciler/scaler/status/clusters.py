"""The clusters that workers are asked for: a worker lists tasks of one cluster at a time, and only if it is named."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from ebbtide import vocabulary
from reconciler.scaler.pods import WorkerPod
from reconciler.scaler.stores import Stores

# Clusters that requests have named but no task is known of. More at once are a client that makes up numbers; each
# costs every worker a question per round.
MOST_HEARD_OF: Final = 8
_LATELY: Final = 1.0


class Clusters:
    """`fixed` is the setting, 0 when requests name the cluster."""

    def __init__(self, fixed: int, stores: Stores) -> None:
        self._fixed = fixed
        self._stores = stores
        self._sources: list[Callable[[], Iterable[int]]] = []
        self._heard: dict[int, None] = {}
        self._lately: frozenset[int] = frozenset()
        self._lately_at = float("-inf")

    def begin(self) -> None:
        """A new term."""
        self._heard.clear()
        self.look_anew()

    def add_source(self, source: Callable[[], Iterable[int]]) -> None:
        """Clusters of tasks that somebody knows."""
        self._sources.append(source)

    def hear_of(self, cluster: int) -> bool:
        """A request has named it; whether that is news."""
        news = not self._fixed and cluster not in self._heard
        if news:
            self.look_anew()
        if not self._fixed:
            self._heard.pop(cluster, None)
            self._heard[cluster] = None
            while len(self._heard) > MOST_HEARD_OF:
                del self._heard[next(iter(self._heard))]
        return news

    def of(self, pod: WorkerPod) -> frozenset[int]:
        """What to ask that pod for; nothing when no cluster is known yet."""
        if self._fixed:
            return frozenset((self._fixed,))
        own = self._stores.worker_set(pod.set_name) if pod.pool == vocabulary.POOL_DEDICATED else None
        written = "" if own is None else own.annotations.get(vocabulary.CLUSTER_ID_ANNOTATION, "")
        return frozenset((int(written),)) if written.isascii() and written.isdigit() else self._all_lately()

    def look_anew(self) -> None:
        """The next question is for every cluster that is known by then."""
        self._lately_at = float("-inf")

    def _all_lately(self) -> frozenset[int]:
        """Of a second ago at most: a thousand workers are asked in a row, and every source goes through its tasks."""
        now = asyncio.get_running_loop().time()
        if now - self._lately_at >= _LATELY:
            self._lately, self._lately_at = self.all(), now
        return self._lately

    def all(self) -> frozenset[int]:
        """Every cluster that a task is known of, or that a request has named lately."""
        if self._fixed:
            return frozenset((self._fixed,))
        return frozenset(self._heard).union(*(source() for source in self._sources))
