"""The clusters that workers are asked for: a worker lists tasks of one cluster at a time, and only if it is named.

A cluster that is not asked for is unknown, and unknown is not empty: every cluster with a task is asked for in every
round, and so their number is bounded where tasks are taken. There a cluster that has tasks comes before one that has
none, and one that has lost its last task makes room.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from ebbtide import vocabulary
from reconciler.scaler.pods import WorkerPod
from reconciler.scaler.stores import Stores

# Clusters that requests have named but no task is known of. More at once are a client that makes up numbers; each
# costs every worker a question per round.
MOST_HEARD_OF: Final = 8
# Clusters with tasks. There is one, as a rule; each costs every worker a question per round, one after the other within
# one deadline.
MOST: Final = 64
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
        self._with_tasks: frozenset[int] = frozenset()

    def begin(self) -> None:
        """A new term."""
        self._heard.clear()
        self._with_tasks = frozenset()
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

    def refusal(self, cluster: int) -> str:
        """Why no first task of that cluster can be taken, in words; "" for one that can, which counts from now on."""
        if self._fixed or cluster in self._with_tasks:
            return ""
        # Whoever is in there has got there by way of this, so that it is never larger than it may be.
        self._with_tasks = self._tasked()
        if cluster not in self._with_tasks and len(self._with_tasks) >= MOST:
            return f"tasks of {MOST} clusters are known, and workers are asked for no more of them: set cluster-id"
        self._with_tasks |= {cluster}
        return ""

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
        return self._tasked().union(self._heard)

    def _tasked(self) -> frozenset[int]:
        return frozenset().union(*(source() for source in self._sources))
