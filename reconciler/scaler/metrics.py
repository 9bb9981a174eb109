"""Metrics of workers of every pool: how many are in which state, how long they take to start, why they go.

No series is about a single worker or task, so none is left behind by one.
"""

from collections import Counter as Count
from collections.abc import Callable, Iterable
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class WorkerState(StrEnum):
    """What a worker is doing; the values are those of a metric label.

    STARTING has not been ready yet, READY has a promise and no task yet, BUSY runs a task, IDLE has neither, UNKNOWN
    does not say, ENDING is on its way out.
    """

    STARTING = "starting"
    READY = "ready"
    BUSY = "busy"
    IDLE = "idle"
    UNKNOWN = "unknown"
    ENDING = "ending"


class Cleanup(StrEnum):
    """Why a worker, or what is left of one, was removed; the values are those of a metric label."""

    IDLE = "idle"
    NEVER_READY = "never-ready"
    POD_GONE = "pod-gone"
    STUCK = "stuck"
    CANCELLED = "cancelled"
    ORPHANED_CLAIM = "orphaned-claim"


# Seconds: from a warm node to one that the autoscaler has to make first.
_BUCKETS = (1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 90.0, 120.0, 180.0, 240.0, 300.0, 600.0)


class WorkerMetrics:
    """One per process, for all pools."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._sources: dict[str, Callable[[], Iterable[WorkerState]]] = {}
        registry.register(_Workers(self._sources))
        self._registry = registry
        self._starts = Histogram(
            "worker_scaler_start_duration_seconds",
            "From the request that a worker was made for until it is ready and has answered.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self._cleanups = Counter(
            "worker_scaler_cleanup",
            "Workers, and volumes without one, that were removed.",
            ["reason"],
            registry=registry,
        )

    def of_pool(self, pool: str, states: Callable[[], Iterable[WorkerState]]) -> None:
        """Where the states of a pool's workers are read when somebody asks; `pool` is that of our label."""
        self._sources[pool] = states

    def of_troubles(self, reasons: Iterable[str], holding: Callable[[], Iterable[str]]) -> None:
        """Where it is read what keeps workers of a task's own: one of `reasons` for each that something does."""
        self._registry.register(_Troubles(tuple(reasons), holding))

    def started(self, seconds: float) -> None:
        """A worker is ready, so long after it was asked for."""
        self._starts.observe(seconds)

    def cleaned(self, reason: Cleanup) -> None:
        """A worker, or a volume without one, is removed."""
        self._cleanups.labels(reason).inc()


class _Workers(Collector):
    """Counts when somebody asks."""

    def __init__(self, sources: dict[str, Callable[[], Iterable[WorkerState]]]) -> None:
        self._sources = sources

    def collect(self) -> Iterable[Metric]:
        gauge = GaugeMetricFamily("worker_scaler_workers", "Workers, by what they are doing.", labels=["pool", "state"])
        for pool, states in self._sources.items():
            count = Count(states())
            for state in WorkerState:
                gauge.add_metric([pool, state], count[state])
        return (gauge,)


class _Troubles(Collector):
    """Counts when somebody asks."""

    def __init__(self, reasons: tuple[str, ...], holding: Callable[[], Iterable[str]]) -> None:
        self._reasons = reasons
        self._holding = holding

    def collect(self) -> Iterable[Metric]:
        gauge = GaugeMetricFamily(
            "worker_scaler_dedicated_trouble",
            "Workers of a task's own that do not start, or do not say what they do, by why.",
            labels=["reason"],
        )
        count = Count(self._holding())
        for reason in self._reasons:
            gauge.add_metric([reason], count[reason])
        return (gauge,)
