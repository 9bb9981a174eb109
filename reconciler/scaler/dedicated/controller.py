"""Which events lead to which look at a worker, and what a look is. A key is the name of a set, existing or not."""

from collections.abc import Iterable
from typing import Final

from ebbtide.vocabulary import POOL_DEDICATED
from reconciler.engine.beside import running
from reconciler.engine.controller import Again, Controller
from reconciler.engine.informer import connect
from reconciler.scaler.contract import Unavailable
from reconciler.scaler.dedicated.act import Act
from reconciler.scaler.dedicated.basis import Basis
from reconciler.scaler.dedicated.census import Census
from reconciler.scaler.dedicated.decide import Verdict, decide
from reconciler.scaler.dedicated.memory import Life
from reconciler.scaler.dedicated.removal import Orphans, Removal
from reconciler.scaler.dedicated.snapshot import Foreign, Worker, owner_name, read
from reconciler.scaler.dedicated.spawn import Spawn
from reconciler.scaler.dedicated.wants import Want
from reconciler.scaler.metrics import WorkerState
from reconciler.scaler.pods import WorkerClaim, WorkerPod, WorkerSet
from reconciler.scaler.refusals import CLOCKS_DIFFER, READ_EVERY
from reconciler.scaler.stores import Stores

# Looks under way at the same time: each may wait for a worker's answer, or for a name, while others go on.
_WORKERS: Final = 32
_UNTIL_KNOWN: Final = 0.5
_UNTIL_GONE: Final = 1.0
_RESYNC: Final = 300.0
# The controller of sets makes a pod within moments, and tells why it cannot as soon.
PODLESS_FOR: Final = 5.0


class Upkeep:
    """Keeps the workers as their tasks and clients want them. `act` is None in a dry run: it then only looks."""

    def __init__(self, basis: Basis, act: Act | None, stores: Stores) -> None:
        self.name = "dedicated-workers"
        self.leading = False
        self._basis = basis
        self._stores = stores
        self._act = act
        self._ignored: set[str] = set()
        self.controller: Controller[str] = Controller(
            self.name, self.reconcile, workers=_WORKERS, everything=basis.snapshot.names, resync_period=_RESYNC
        )
        if act is not None:
            self._spawn, self._removal, self._orphans = Spawn(basis, act), Removal(basis, act), Orphans(basis, act)
            self._census = Census(basis, act, self.controller.queue.add)
        self._follow()

    # --- life ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Works until drained or cancelled; knows nothing at its start, since others may have led meanwhile."""
        basis = self._basis
        basis.lives.begin()
        basis.admission.begin()
        basis.report.begin()
        self._ignored.clear()
        if self._act is not None:
            self._orphans.begin()
        self.leading = True
        try:
            async with running(() if self._act is None else (self._census,)):
                await self.controller.run()
        finally:
            self.leading = False
            basis.wants.refuse_all(Unavailable("this replica does not lead any more", code="NotLeading"))

    def drain(self) -> None:
        """Begins no further look, finishes those under way."""
        self.controller.drain()

    def longest(self) -> float:
        """Seconds for which the oldest look under way has been running."""
        return self.controller.longest()

    def look_at(self, name: str) -> None:
        """There is news of that worker."""
        self.controller.queue.add(name)

    # --- events --------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        queue = self.controller.queue
        self._stores.sets.subscribe(self._set_changed)
        connect(self._stores.sets, _name_of_set, queue)
        connect(self._stores.pods, _name_for_pod, queue)
        connect(self._stores.claims, _name_for_claim, queue)
        self._basis.book.subscribe(self._told)

    def _set_changed(self, old: WorkerSet | None, new: WorkerSet | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._account_for(old)
            self._basis.lives.end(old.uid)
            self._ignored.discard(old.uid)

    def _account_for(self, last: WorkerSet) -> None:
        """A set that goes while a deletion of ours is not answered went by that."""
        life, worker = self._basis.lives.known(last.uid), read(last, None)
        if life is not None and life.in_doubt is not None and isinstance(worker, Worker):
            self._removal.accepted(worker, life, life.in_doubt)

    def _told(self, key: str) -> None:
        pod = self._stores.pods.get(key)
        for name in _name_for_pod(None, pod):
            self.look_at(name)

    # --- looks ---------------------------------------------------------------------------------------------------

    async def reconcile(self, name: str) -> Again | None:
        """Looks at one worker. Raises what its requests raised."""
        basis = self._basis
        if basis.snapshot.unknown:
            return Again(_UNTIL_KNOWN)
        await self._learn(name)
        found, want = basis.snapshot.worker(name), basis.wants.get(name, basis.now)
        if isinstance(found, Worker):
            return await self._look(found, want)
        basis.report.gone(name)
        if isinstance(found, Foreign):
            self._leave_alone(found, want)
            return None
        return await self._without_set(name, want)

    async def _learn(self, name: str) -> None:
        """Why the worker has no pod, if it has had none for longer than its controller takes to make one."""
        basis, found = self._basis, self._basis.snapshot.worker(name)
        life = basis.lives.known(found.set.uid) if isinstance(found, Worker) and not found.set.deleting else None
        if not isinstance(found, Worker) or life is None or life.podless_since is None or found.pod is not None:
            return
        podless = basis.now - life.podless_since
        if podless >= PODLESS_FOR:
            since = basis.clock.now() - podless - CLOCKS_DIFFER if life.had_pod else 0.0
            # Events do not last for ever, and what they have told holds until there is a pod.
            life.refused = await basis.refusals.of(found.set.uid, since) or life.refused

    async def _look(self, worker: Worker, want: Want | None) -> Again | None:
        basis = self._basis
        life = basis.lives.of(worker, basis.now)
        if self._act is not None and life.in_doubt is not None:
            await self._removal.settle(worker, life, life.in_doubt)
        verdict = decide(basis.facts(worker, life), basis.rules, basis.now)
        basis.report.looked(worker, verdict)
        if worker.set.deleting or life.removed:
            return Again(_UNTIL_GONE) if want is not None else None
        if life.podless_since is not None:
            waited = basis.now - life.podless_since
            self.controller.queue.add_after(
                worker.set.name, PODLESS_FOR - waited if waited < PODLESS_FOR else READ_EVERY
            )
        if self._act is None:
            if verdict.remove is not None:
                basis.report.would_remove(worker, verdict)
            return _again(verdict)
        if verdict.remove is not None:
            return await self._removal.remove(worker, life, verdict)
        if verdict.look_again_in is not None:
            # Whatever the writes below come to: a worker's time runs out by its own clock.
            self.controller.queue.add_after(worker.set.name, verdict.look_again_in)
        return await self._keep(worker, life, verdict, self._act)

    async def _keep(self, worker: Worker, life: Life, verdict: Verdict, act: Act) -> Again | None:
        """Whatever is missing of it is made, what it is doing is marked, and who waits for it is served."""
        basis, name = self._basis, worker.set.name
        self._orphans.forget(name)
        want = basis.wants.get(name, basis.now)
        if want is not None or self._census.taken:
            await self._spawn.service(worker.set, life, want)
        want = basis.wants.get(name, basis.now)
        if want is not None:
            return await self._spawn.serve(worker, life, want)
        await self._mark(worker, life, verdict, act)
        return _again(verdict)

    async def _mark(self, worker: Worker, life: Life, verdict: Verdict, act: Act) -> None:
        """Says on the set that its task runs, and on the pod that it must not be evicted, where it is not said yet."""
        if life.ran != worker.ran:
            await act.mark_seen(worker, self._basis.clock.now() if life.ran else None)
        pod = worker.pod
        if pod is None or pod.deleting:
            return
        if verdict.state in (WorkerState.BUSY, WorkerState.READY) and not pod.busy:
            await act.mark_busy(pod, busy=True)
        elif verdict.state is WorkerState.IDLE and pod.busy:
            await act.mark_busy(pod, busy=False)

    async def _without_set(self, name: str, want: Want | None) -> Again | None:
        if self._act is None:
            return None
        if want is not None:
            return await self._spawn.create(name, want)
        if self._basis.admission.pending(name):
            return await self._spawn.settle(name)
        return await self._orphans.look(name)

    def _leave_alone(self, foreign: Foreign, want: Want | None) -> None:
        if foreign.set.uid not in self._ignored:
            self._ignored.add(foreign.set.uid)
            self._basis.report.ignored(foreign)
        if want is not None:
            taken = f"StatefulSet {foreign.set.key} has the name of its worker: {foreign.reason}"
            self._basis.wants.answer(foreign.set.name, Unavailable(taken, code="NameTaken"))


def _again(verdict: Verdict) -> Again | None:
    return None if verdict.look_again_in is None else Again(verdict.look_again_in)


def _name_of_set(old: WorkerSet | None, new: WorkerSet | None) -> Iterable[str]:
    return {one.name for one in (old, new) if one is not None and one.pool == POOL_DEDICATED}


def _name_for_pod(old: WorkerPod | None, new: WorkerPod | None) -> Iterable[str]:
    return {pod.set_name for pod in (old, new) if pod is not None and pod.pool == POOL_DEDICATED and pod.set_name}


def _name_for_claim(old: WorkerClaim | None, new: WorkerClaim | None) -> Iterable[str]:
    return {name for claim in (old, new) if (name := owner_name(claim))}
