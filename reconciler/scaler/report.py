"""What the desk decides and what workers do not say → metrics and log lines. Labels are closed lists, never a task."""

from collections import Counter as Count
from collections import OrderedDict
from collections.abc import Callable, Iterable
from enum import StrEnum
from itertools import product
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ebbtide import vocabulary
from reconciler.scaler.contract import Arrival, Phase, Place, Target, TaskRecord
from reconciler.scaler.pods import WorkerPod
from reconciler.scaler.task import TaskId

log = structlog.stdlib.get_logger(__name__)

_POOLS: Final = {vocabulary.POOL_DEDICATED: Target.DEDICATED, vocabulary.POOL_SHARED: Target.SHARED}


# Tasks whose last decision is remembered, so that it is logged once: more than wait at any time.
MOST_TOLD: Final = 20_000


class Result(StrEnum):
    """Label values of `worker_scaler_placements_total`: what became of one decision, however many asked for it."""

    PLACED = "placed"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"
    TOO_LARGE = "too-large"


def pool_of(pod: WorkerPod) -> Target:
    """The kind of place that a pod is; one without our label is a pod of the template itself."""
    return _POOLS.get(pod.pool, Target.LOCAL)


class PlacementReport:
    """Tells of decisions: all are counted, and each task's are logged when they are news. Clients repeat themselves."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._placements = Counter(
            "worker_scaler_placements",
            "Decisions about tasks, one however many requests waited for it.",
            ["target", "result"],
            registry=registry,
        )
        # There from the start: what has never happened is 0, so that the first time is a change.
        for target, result in product(Target, Result):
            self._placements.labels(target, result)
        self._told: OrderedDict[TaskId, tuple[Target, Result]] = OrderedDict()

    def placed(self, arrival: Arrival, place: Place, reason: str) -> None:
        self._placements.labels(place.target, Result.PLACED).inc()
        self._tell(arrival, place.target, Result.PLACED)(
            "task placed",
            task=str(arrival.task),
            size=arrival.size,
            target=str(place.target),
            address=place.address,
            reason=reason,
        )

    def failed(self, arrival: Arrival, target: Target, result: Result, reason: str) -> None:
        self._placements.labels(target, result).inc()
        self._tell(arrival, target, result)(
            "task not placed",
            task=str(arrival.task),
            size=arrival.size,
            target=str(target),
            result=str(result),
            reason=reason,
        )

    def _tell(self, arrival: Arrival, target: Target, result: Result) -> Callable[..., object]:
        """The way to log that decision."""
        known = self._told.pop(arrival.task, None)
        self._told[arrival.task] = (target, result)
        if len(self._told) > MOST_TOLD:
            self._told.popitem(last=False)
        return log.debug if known == (target, result) else log.info


class StatusReport:
    """Tells of workers that do not answer: counted each time, logged when it begins."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._failures = Counter(
            "worker_scaler_status_failures",
            "Questions for their tasks that workers have not answered, or not in a way that can be read.",
            ["pool"],
            registry=registry,
        )
        for pool in Target:
            self._failures.labels(pool)

    def unknown(self, pod: WorkerPod, reason: str, *, again: bool) -> None:
        self._failures.labels(pool_of(pod)).inc()
        tell = log.debug if again else log.info
        tell("tasks of a worker are unknown", pod=pod.key, reason=reason)


class TaskMetrics(Collector):
    """`worker_scaler_tasks`: counted when somebody asks. Nothing is told while this process does not lead."""

    def __init__(self, registry: CollectorRegistry, records: Callable[[], Iterable[TaskRecord] | None]) -> None:
        self._records = records
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        gauge = GaugeMetricFamily(
            "worker_scaler_tasks", "Tasks that have a place or wait for one.", labels=["pool", "state"]
        )
        records = self._records()
        if records is not None:
            count = Count((record.target, record.phase) for record in records)
            for target in Target:
                for phase in Phase:
                    gauge.add_metric([target, phase], count[target, phase])
        return (gauge,)
