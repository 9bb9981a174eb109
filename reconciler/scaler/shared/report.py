"""Outcomes → metrics, events and log lines. Labels are closed lists, never a pod or a task."""

from collections.abc import Callable, Iterable
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ebbtide.kube.errors import KubeError
from reconciler.engine.events import Event, Recorder
from reconciler.scaler.metrics import Cleanup, WorkerMetrics
from reconciler.scaler.pods import WorkerPod
from reconciler.scaler.shared import stories
from reconciler.scaler.shared.conditions import Condition, Reason
from reconciler.scaler.shared.decide import PoolSize
from reconciler.scaler.shared.facts import Pool
from reconciler.scaler.shared.repair import Replacement
from reconciler.scaler.shared.shrink import Shrink
from reconciler.scaler.shared.stories import Subject

log = structlog.stdlib.get_logger(__name__)

# Label values of `worker_scaler_shared_replicas`.
KINDS: Final = ("desired", "spec", "usable")


class Report:
    """Tells the world. Without a recorder (a dry run) no event is written; `subject` is what they are about."""

    def __init__(
        self,
        registry: CollectorRegistry,
        recorder: Recorder | None,
        metrics: WorkerMetrics,
        subject: Callable[[], Subject],
    ) -> None:
        self._recorder = recorder
        self._subject = subject
        self._metrics = metrics
        self._seen = _Figures(registry)
        self._beyond = Counter(
            "worker_scaler_shared_beyond_cap",
            "Tasks that were given a place above shared-max-tasks-per-pod, since the pool may not grow.",
            registry=registry,
        )
        self._conditions: dict[Reason, Condition] = {}
        self._would: int | None = None

    def clear(self) -> None:
        """Nothing is known of the pool (a term is over)."""
        self._seen.clear()
        self._conditions.clear()

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Those that held at the last look."""
        return tuple(self._conditions.values())

    # --- looks ---------------------------------------------------------------------------------------------------

    def looked(self, pool: Pool, size: PoolSize, found: tuple[Condition, ...]) -> None:
        """One look is over."""
        self._seen.set(size.desired, pool.replicas, len(pool.usable), {condition.reason for condition in found})
        for condition in found:
            known = self._conditions.get(condition.reason)
            if known is None or known.note != condition.note:
                log.warning("condition of the shared pool", reason=str(condition.reason), note=condition.note)
                self._emit(stories.condition(self._subject(), condition))
        for reason in self._conditions.keys() - {condition.reason for condition in found}:
            log.info("condition of the shared pool is over", reason=str(reason))
        self._conditions = {condition.reason: condition for condition in found}

    # --- the set -------------------------------------------------------------------------------------------------

    def created(self, replicas: int) -> None:
        log.info("shared pool made", replicas=replicas)

    def service_created(self) -> None:
        log.info("service of the shared pool made")

    def redesigned(self) -> None:
        log.info("template of the shared pool's pods replaced")

    def made_anew(self) -> None:
        log.info("empty shared pool removed, to be made with other volumes")

    def grown(self, before: int, size: PoolSize) -> None:
        log.info("shared pool grown", before=before, replicas=size.target, why=size.why)
        self._emit(stories.grown(self._subject(), before, size))

    def would_scale(self, before: int, size: PoolSize, plan: Shrink | None) -> None:
        """In a dry run; told when it is news."""
        target = size.target if size.target > before or plan is None else plan.replicas
        if target not in (before, self._would):
            log.info("would scale shared pool", before=before, replicas=target)
        self._would = target

    def shrunk(self, before: int, plan: Shrink, stuck: int) -> None:
        """The pool was shrunk; `stuck` of the pods that went had never run."""
        log.info("shared pool shrunk", before=before, replicas=plan.replicas)
        for number in range(before - plan.replicas):
            self._metrics.cleaned(Cleanup.NEVER_READY if number < stuck else Cleanup.IDLE)
        self._emit(stories.shrunk(self._subject(), before, plan.replicas))

    def given_up(self, before: int, plan: Shrink, reason: str) -> None:
        """Nothing was removed after all."""
        log.info("shared pool not shrunk", before=before, replicas=plan.replicas, reason=reason)

    def changed_by_others(self, before: int, now: int) -> None:
        log.warning("somebody else changed the size of the shared pool", before=before, replicas=now)
        self._emit(stories.changed_by_others(self._subject(), before, now))

    # --- pods ----------------------------------------------------------------------------------------------------

    def beyond(self, ordinal: int) -> None:
        """A task was put above the soft cap."""
        self._beyond.inc()
        log.info("task put above the soft cap", ordinal=ordinal)

    def started(self, seconds: float) -> None:
        """A pod takes tasks, so long after it was asked for."""
        self._metrics.started(seconds)

    def lost_tasks(self, pod: WorkerPod, tasks: int) -> None:
        """A pod began anew and does not list what it ran before."""
        log.warning("pod of the shared pool began anew without its tasks", pod=pod.key, tasks=tasks)
        self._emit(stories.lost_tasks(pod, tasks))

    def replaced(self, replacement: Replacement) -> None:
        log.info("pod of the shared pool deleted", pod=replacement.pod.key, why=str(replacement.why))
        self._emit(stories.replaced(replacement))

    def not_replaced(self, replacement: Replacement, error: KubeError) -> None:
        """We may not delete it."""
        log.info("pod of the shared pool not deleted", pod=replacement.pod.key, error=str(error))
        self._emit(stories.not_replaced(replacement))

    def collected(self, claim: str) -> None:
        log.info("claim without a pod deleted", claim=claim)
        self._metrics.cleaned(Cleanup.ORPHANED_CLAIM)

    def _emit(self, event: Event) -> None:
        if self._recorder is not None:
            self._recorder.emit(event)


class _Figures(Collector):
    """The sizes and conditions of the last look, when somebody asks; nothing while this process does not lead."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._kinds: dict[str, int] = {}
        self._holding: set[Reason] = set()
        registry.register(self)

    def set(self, desired: int, spec: int, usable: int, holding: set[Reason]) -> None:
        self._kinds = dict(zip(KINDS, (desired, spec, usable), strict=True))
        self._holding = holding

    def clear(self) -> None:
        self._kinds.clear()

    def collect(self) -> Iterable[Metric]:
        replicas = GaugeMetricFamily(
            "worker_scaler_shared_replicas", "Pods of the shared pool: wanted, asked for, usable.", labels=["kind"]
        )
        conditions = GaugeMetricFamily(
            "worker_scaler_shared_condition", "1 while the condition holds for the shared pool.", labels=["reason"]
        )
        for kind, count in self._kinds.items():
            replicas.add_metric([kind], count)
        for reason in Reason if self._kinds else ():
            conditions.add_metric([reason], reason in self._holding)
        return (replicas, conditions)
