"""One look at the pool's size: grows it for its load, or takes the idle tail away. One conditional write each.

Shrinking and promising exclude each other through the ledger: first it says which ordinals are closing, then their
tasks are read once more, then the set is written in the very version that was looked at, then they are open again.
"""

from collections.abc import Awaitable, Callable, Iterable

from ebbtide.kube.errors import Conflict, Invalid, KubeError
from reconciler.engine.together import together
from reconciler.engine.verdict import words
from reconciler.scaler.contract import Unavailable
from reconciler.scaler.pods import WorkerPod, WorkerSet
from reconciler.scaler.shared.act import Act
from reconciler.scaler.shared.decide import PoolSize, allot, size
from reconciler.scaler.shared.facts import Pool
from reconciler.scaler.shared.keeping import Keeping
from reconciler.scaler.shared.report import Report
from reconciler.scaler.shared.shrink import Shrink, shrink
from reconciler.scaler.shared.standing import Standing
from reconciler.scaler.shared.writers import Writers
from reconciler.scaler.status.book import StatusUnknown

Ask = Callable[[WorkerPod], Awaitable[object]]


class Scaling:
    """Writes the size. `asked_for` is, by ordinal, when a pod that has not come yet was asked for."""

    def __init__(self, standing: Standing, act: Act, keeping: Keeping, report: Report, ask: Ask) -> None:
        self._standing = standing
        self._act = act
        self._keeping = keeping
        self._report = report
        self._ask = ask
        self._replicas = 0
        self.writers = Writers()
        self.asked_for: dict[int, float] = {}

    def begin(self) -> None:
        """A new term."""
        self.writers = Writers()
        self.asked_for.clear()

    def observe(self, own: WorkerSet) -> None:
        """Notices when somebody else has changed the size."""
        if self.writers.observed(own.replicas, self._standing.now):
            self._report.changed_by_others(self._replicas, own.replicas)
        self._replicas = own.replicas

    async def settle(self) -> None:
        """Makes sure that no write of the size is under way any more. Raises KubeError."""
        if not self._standing.doubtful or self._standing.dry_run:
            return
        await self._act.live_replicas()
        own = self._standing.snapshot.own_set
        if own is not None:
            await self._act.fence(own, self._standing.term)
        await self._standing.open()

    async def look(self, wanted: PoolSize, plan: Shrink | None) -> None:
        """Grows or shrinks. Raises KubeError; those who wait for a write that failed are told."""
        standing, own = self._standing, self._standing.snapshot.own_set
        replicas = 0 if own is None else own.replicas
        if standing.dry_run:
            self._report.would_scale(replicas, wanted, plan)
        elif wanted.target > replicas:
            await self._grow(own, wanted)
        elif own is not None and plan is not None and plan.replicas < replicas and not self._restrained():
            await self._shrink(own, plan)

    def _restrained(self) -> bool:
        """Whether the size is left alone for a while, since somebody else keeps changing it."""
        return self.writers.pause(self._standing.now) > 0

    # --- growing -------------------------------------------------------------------------------------------------

    async def _grow(self, own: WorkerSet | None, wanted: PoolSize) -> None:
        waiting = self._standing.waiting
        if own is not None and not waiting and self._restrained():
            return
        try:
            grown = await self._write(own, wanted)
        except (Conflict, Invalid):
            raise
        except KubeError as error:
            waiting.refuse_all(Unavailable(f"the pool cannot grow: {words(error)}", code="NotGrown"))
            raise
        if grown:
            before = 0 if own is None else own.replicas
            self._report.grown(before, wanted)
            self.asked_for |= dict.fromkeys(range(before, wanted.target), self._standing.now)
        elif own is None and self._keeping.problem:
            waiting.refuse_all(Unavailable(self._keeping.problem, code="NoPool"))

    async def _write(self, own: WorkerSet | None, wanted: PoolSize) -> bool:
        self.writers.writing(0 if own is None else own.replicas, wanted.target)
        if own is None:
            return await self._keeping.create(wanted.target, self._standing.now)
        await self._act.scale(own, wanted.target)
        self.writers.written(self._standing.now)
        self._replicas = wanted.target
        return True

    # --- shrinking -----------------------------------------------------------------------------------------------

    async def _shrink(self, own: WorkerSet, plan: Shrink) -> None:
        standing, removed = self._standing, range(plan.replicas, own.replicas)
        pool = standing.pool()
        stuck = sum(pod.never_ran for pod in pool.pods if pod.ordinal in removed)
        try:
            await standing.close(plan.replicas)
            await self._empty_still(pool, plan)
            self.writers.writing(own.replicas, plan.replicas)
            await self._act.scale(own, plan.replicas)
        except (StatusUnknown, Conflict, Invalid) as reason:
            self._report.given_up(own.replicas, plan, str(reason))
        except BaseException:
            # It may have been written all the same: they stay closed until that is known.
            standing.doubtful = True
            raise
        else:
            self._replicas = plan.replicas
            self.writers.written(standing.now)
            standing.memory.left(removed)
            self._report.shrunk(own.replicas, plan, stuck)
        await standing.open()

    async def _empty_still(self, pool: Pool, plan: Shrink) -> None:
        """Reads the tasks of all that go once more, and decides once more. Raises StatusUnknown."""
        removed = plan.removes(pool)
        pods = (self._standing.snapshot.pod(pod.ordinal) for pod in pool.pods if pod.ordinal in removed and pod.good)
        await self._ask_all(pod for pod in pods if pod is not None)
        again = shrink(self._standing.pool(), self._standing.rules)
        if again.replicas > plan.replicas:
            raise StatusUnknown(again.kept.reason if again.kept is not None else "it is needed again")

    async def _ask_all(self, pods: Iterable[WorkerPod]) -> None:
        await together(self._ask(pod) for pod in pods)


def decisions(pool: Pool, standing: Standing) -> tuple[PoolSize, Shrink]:
    """What the pool should be like, after those who wait were given what is free."""
    left = allot(pool, standing.rules).pool
    return size(pool, standing.rules), shrink(left, standing.rules)
