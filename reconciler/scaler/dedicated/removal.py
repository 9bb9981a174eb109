"""The end of a worker, and of volumes whose worker is no more.

What was decided from copies is looked at once more before anything is deleted: the worker is asked again, a pod that
seems to be missing is looked up in the API, and so is the set of volumes that seem to have none.
"""

from typing import Final

from ebbtide.kube.errors import Conflict, KubeError, NotFound
from reconciler.engine.controller import Again
from reconciler.engine.verdict import may_be_done
from reconciler.scaler.dedicated.act import Act
from reconciler.scaler.dedicated.basis import Basis
from reconciler.scaler.dedicated.decide import SHORTEST, Verdict, decide
from reconciler.scaler.dedicated.memory import Life
from reconciler.scaler.dedicated.snapshot import Worker
from reconciler.scaler.metrics import Cleanup
from reconciler.scaler.pods import WorkerClaim, WorkerPod
from reconciler.scaler.status.book import StatusUnknown

# A claim that is younger may be part of something that somebody is still putting together.
YOUNGEST_ORPHAN: Final = 300.0
_WITHOUT_STATUS: Final = frozenset({Cleanup.NEVER_READY, Cleanup.POD_GONE})


class Removal:
    """Removes workers."""

    def __init__(self, basis: Basis, act: Act) -> None:
        self._basis = basis
        self._act = act

    async def remove(self, worker: Worker, life: Life, verdict: Verdict) -> Again | None:
        """Deletes the worker's set, unless a second look says otherwise."""
        assert verdict.remove is not None
        found: Worker | None = worker
        if verdict.remove is not Cleanup.CANCELLED:
            found = await self._still_so(worker, life, verdict.remove)
        if found is None:
            return Again(self._basis.settings.refresh_interval)
        await self._delete(found, life, verdict)
        return None

    async def settle(self, worker: Worker, life: Life, verdict: Verdict) -> None:
        """Finds out what became of a deletion that was not answered; afterwards the worker is removed, or as before."""
        live = await self._act.set_now(worker.set.name)
        if live is None or live.uid != worker.set.uid or live.deleting:
            self.accepted(worker, life, verdict)
        life.in_doubt = None

    async def _still_so(self, worker: Worker, life: Life, why: Cleanup) -> Worker | None:
        """Asks the worker, or the API for its pod, and decides anew; the worker as it is then, None when it is kept."""
        basis, pod = self._basis, worker.pod
        if pod is not None and pod.ip and pod.started:
            if not await self._says_something(worker, pod) and why not in _WITHOUT_STATUS:
                return None
        else:
            live = await self._act.pod_now(worker.set)
            if live is not None and live.ready:
                return None
        found = basis.snapshot.worker(worker.set.name)
        if not isinstance(found, Worker) or found.set.uid != worker.set.uid:
            return None
        again = decide(basis.facts(found, life), basis.rules, basis.now)
        return found if again.remove is why else None

    async def _says_something(self, worker: Worker, pod: WorkerPod) -> bool:
        try:
            await self._basis.book.ask_now(pod, {worker.cluster})
        except StatusUnknown:
            return False
        return True

    async def _delete(self, worker: Worker, life: Life, verdict: Verdict) -> None:
        life.in_doubt = verdict
        try:
            await self._act.delete(worker.set)
        except NotFound:
            life.removed = True
            life.gone.set()
        except KubeError as error:
            life.in_doubt = verdict if may_be_done(error) else None
            raise
        else:
            self.accepted(worker, life, verdict)

    def accepted(self, worker: Worker, life: Life, verdict: Verdict) -> None:
        """The deletion has been answered, or its set is seen to be gone; told once, whichever comes first."""
        if life.removed:
            return
        assert verdict.remove is not None
        life.in_doubt, life.removed = None, True
        life.gone.set()
        self._basis.report.removed(worker, verdict.remove, verdict.reason)


class Orphans:
    """Collects claims whose set does not exist."""

    def __init__(self, basis: Basis, act: Act) -> None:
        self._basis = basis
        self._act = act
        self._first_looks: dict[str, float] = {}

    def begin(self) -> None:
        """A new term."""
        self._first_looks.clear()

    async def look(self, name: str) -> Again | None:
        """Looks at the claims that were made for a set of that name, which our copy does not have."""
        claims, interval = self._basis.snapshot.claims(name), self._basis.settings.refresh_interval
        if not claims:
            self.forget(name)
            return None
        waited = self._basis.now - self._first_looks.setdefault(name, self._basis.now)
        if waited < interval:
            return Again(max(interval - waited, SHORTEST))
        ages = [self._basis.clock.now() - claim.created for claim in claims]
        old = [claim for claim, age in zip(claims, ages, strict=True) if age >= YOUNGEST_ORPHAN]
        if old and await self._act.set_now(name) is not None:
            self.forget(name)
            return Again(YOUNGEST_ORPHAN)
        for claim in old:
            await self._collect(claim)
        young = [YOUNGEST_ORPHAN - age for age in ages if age < YOUNGEST_ORPHAN]
        return Again(max(interval, min(young))) if young else None

    def forget(self, name: str) -> None:
        """The set is there, or nothing of it is."""
        self._first_looks.pop(name, None)

    async def _collect(self, claim: WorkerClaim) -> None:
        try:
            collected = await self._act.delete_claim(claim)
        except Conflict:
            return
        if collected:
            self._basis.report.collected(claim)
