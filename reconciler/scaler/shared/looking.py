"""The two looks at the pool: at who waits, and at its size, pods and claims."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from reconciler.scaler.pods import WorkerSet
from reconciler.scaler.refusals import CLOCKS_DIFFER, Refusals
from reconciler.scaler.shared.assigning import Assigning
from reconciler.scaler.shared.conditions import Around, conditions
from reconciler.scaler.shared.keeping import Keeping
from reconciler.scaler.shared.mending import Mending
from reconciler.scaler.shared.report import Report
from reconciler.scaler.shared.scaling import Ask, Scaling, decisions
from reconciler.scaler.shared.shrink import Shrink
from reconciler.scaler.shared.standing import Standing

# An idle time that is almost over is not looked at more often than this; seconds.
_SOONEST: Final = 0.1


@dataclass(frozen=True, slots=True)
class Works:
    """The parts that act."""

    assigning: Assigning
    scaling: Scaling
    keeping: Keeping
    mending: Mending
    refusals: Refusals
    ask: Ask


class Looks:
    """Reads the pool as it stands, decides, and has it done. `hurry` has all workers asked at once."""

    def __init__(self, standing: Standing, works: Works, report: Report, hurry: Callable[[], None]) -> None:
        self._standing = standing
        self._works = works
        self._report = report
        self._hurry = hurry

    def begin(self) -> None:
        """A new term."""
        self._works.scaling.begin()
        self._works.mending.begin()

    def concerns(self, found: WorkerSet) -> bool:
        """Whether the pool's pods are made after that set."""
        return self._works.keeping.concerns(found)

    def came(self, ordinal: int) -> None:
        """A pod has answered."""
        asked_for = self._works.scaling.asked_for.pop(ordinal, None)
        if asked_for is not None:
            self._report.started(self._standing.now - asked_for)

    async def assign(self, grow: Callable[[], None]) -> None:
        """At who waits; calls `grow` at once when the pool is too small for them. Raises KubeError."""
        if len(self._standing.waiting) and not self._standing.discovered:
            await self._works.assigning.look(grow)

    async def scale(self, refresh: float) -> float:
        """At everything else; returns the seconds until the next look, at most `refresh`. Raises KubeError."""
        standing, works = self._standing, self._works
        if await standing.agree():
            # There may be clusters now that no worker has been asked for.
            self._hurry()
        await works.scaling.settle()
        own = standing.snapshot.own_set
        if own is not None:
            works.scaling.observe(own)
        unread = standing.discovered
        self._sweep(own)
        await self._learn(own)
        pool = standing.pool()
        wanted, plan = decisions(pool, standing)
        self._report.looked(pool, wanted, conditions(pool, plan, standing.rules, self._around()))
        if own is not None and not standing.dry_run:
            await works.keeping.refresh(own, empty=not own.replicas and not standing.snapshot.pods())
        await works.scaling.look(wanted, None if unread else plan)
        if not standing.dry_run:
            await self._keep_order(unread)
        return _next(plan, refresh)

    async def _learn(self, own: WorkerSet | None) -> None:
        """Why pods are missing. Events do not last for ever, and what they have told holds until the pods are there."""
        standing = self._standing
        missing = standing.pool().lacking() if own is not None else {}
        if own is None or not missing:
            standing.refused = ""
            return
        since = standing.clock.now() - max(missing.values()) - CLOCKS_DIFFER
        standing.refused = await self._works.refusals.of(own.uid, since) or standing.refused

    async def _keep_order(self, unread: str) -> None:
        """What is looked after beside the size. Raises KubeError."""
        standing, works = self._standing, self._works
        own = standing.snapshot.own_set
        if own is not None:
            await works.keeping.keep_service(standing.now)
        if not unread:
            if standing.memory.changed:
                await standing.store()
            pool = standing.pool()
            await works.mending.mark(pool)
            own = standing.snapshot.own_set
            if own is not None:
                await works.mending.replace(own, pool, works.ask)
            await works.mending.collect(own)

    def _sweep(self, own: WorkerSet | None) -> None:
        """What only somebody else can have scaled away: promises there end by time alone, and then nothing is left."""
        standing, memory = self._standing, self._standing.memory
        replicas = 0 if own is None else own.replicas
        pods = standing.snapshot.pods()
        away = [ordinal for ordinal in memory.seats if ordinal >= replicas and ordinal not in pods]
        memory.sweep(standing.now, [ordinal for ordinal in away if ordinal >= standing.rules.most])
        memory.left(set(away) - set(memory.loaded()))

    def _around(self) -> Around:
        snapshot, keeping = self._standing.snapshot, self._works.keeping
        loaded = set(self._standing.memory.loaded())
        pods = snapshot.pods()
        return Around(
            unschedulable=tuple(snapshot.unschedulable()),
            tied=tuple(n for n, pod in sorted(pods.items()) if n in loaded and snapshot.tied(pod)),
            unread=tuple(snapshot.failing(self._standing.now)),
            rival=self._works.scaling.writers.conflicting,
            template=keeping.template_problem,
            name=keeping.name_problem,
            claims_pending=keeping.claims_pending,
        )


def _next(plan: Shrink, refresh: float) -> float:
    after = plan.kept.after if plan.kept is not None else None
    return refresh if after is None else min(refresh, max(after, _SOONEST))
