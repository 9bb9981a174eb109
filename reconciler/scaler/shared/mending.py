"""One look at the pool's pods and claims: marks, pods that only a deletion can help, claims that nobody will use."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from ebbtide.kube.errors import Conflict, Forbidden, NotFound
from reconciler.scaler.pods import WorkerPod, WorkerSet
from reconciler.scaler.shared.act import Act
from reconciler.scaler.shared.facts import Pool, PoolPod
from reconciler.scaler.shared.marks import Marks
from reconciler.scaler.shared.repair import ORPHANED_AFTER, Patience, Replacement, Seen, orphans, replacements
from reconciler.scaler.shared.report import Report
from reconciler.scaler.shared.standing import Standing
from reconciler.scaler.status.book import StatusUnknown
from reconciler.scaler.stores import Stores


class Mending:
    """Keeps pods and claims in order. `pool` is the pool's name."""

    def __init__(self, standing: Standing, act: Act, marks: Marks, stores: Stores, report: Report, pool: str) -> None:
        self._standing = standing
        self._act = act
        self._marks = marks
        self._stores = stores
        self._report = report
        self._pool = pool
        self._patience: Patience[str] = Patience(ORPHANED_AFTER)
        self._deleted: set[str] = set()

    def begin(self) -> None:
        """A new term."""
        self._patience.clear()
        self._deleted.clear()

    async def mark(self, pool: Pool) -> None:
        """Busy pods are marked, empty ones are not. Raises KubeError."""
        pods = {pod.ordinal: self._standing.snapshot.pod(pod.ordinal) for pod in pool.pods}
        loaded = (pods[each.ordinal] for each in pool.pods if each.load)
        await self._marks.busy(pod for pod in loaded if pod is not None and not pod.deleting)
        for each in pool.pods:
            pod = pods[each.ordinal]
            if pod is not None and pod.busy and each.good and not each.load:
                await self._marks.idle(pod, partial(self._is_empty, each.ordinal))

    async def replace(self, own: WorkerSet, pool: Pool, ask: Callable[[WorkerPod], Awaitable[object]]) -> None:
        """Deletes pods that are to be made anew. Raises KubeError."""
        seen = [self._seen(pod, each) for each in pool.pods if (pod := self._standing.snapshot.pod(each.ordinal))]
        self._deleted &= {each.pod.uid for each in seen}
        for replacement in replacements(own, seen):
            # Our copy may be a moment behind the deletion.
            if replacement.pod.uid not in self._deleted:
                await self._replace(replacement, ask)

    async def collect(self, own: WorkerSet | None) -> None:
        """Deletes claims that neither a pod nor the server will. Raises KubeError."""
        pods = self._standing.snapshot.pods()
        keys = orphans(self._stores.claims.values(), pods, own, self._pool)
        for key in self._patience.ripe(keys, self._standing.now):
            claim = self._stores.claims.get(key)
            if claim is not None:
                await self._act.delete_claim(claim)
                self._report.collected(key)

    def _is_empty(self, ordinal: int) -> bool:
        return ordinal not in set(self._standing.memory.loaded())

    def _seen(self, pod: WorkerPod, facts: PoolPod) -> Seen:
        claims: Mapping[str, object | None] = {name: self._stores.claim(name) for name in pod.claims}
        lacking = tuple(name for name, claim in claims.items() if claim is None)
        return Seen(pod, facts, self._standing.snapshot.tied(pod), lacking)

    async def _replace(self, replacement: Replacement, ask: Callable[[WorkerPod], Awaitable[object]]) -> None:
        """The claims first: they go when their pod has gone, and a pod made before that would have to wait for it."""
        pod = replacement.pod
        try:
            if replacement.ask:
                await ask(pod)
            if not self._is_empty(pod.ordinal):
                return
            for name in replacement.claims:
                claim = self._stores.claim(name)
                if claim is not None and not claim.deleting:
                    await self._act.delete_claim(claim)
            await self._act.delete_pod(pod)
            self._deleted.add(pod.uid)
        except (StatusUnknown, NotFound, Conflict):
            return  # it is not what it was; the next look sees what it is
        except Forbidden as error:
            # The scaler does without this permission; pods only stay as they are.
            self._report.not_replaced(replacement, error)
            return
        self._report.replaced(replacement)
