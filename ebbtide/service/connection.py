"""Metrics of the connection to the cluster: requests, watches, and how old what they have brought may be."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ebbtide.kube.traffic import Traffic, Verb

Age = Callable[[], float | None]


class ApiFigures(Collector):
    """`ebbtide_api_requests_total` and `ebbtide_watch_restarts_total` of a client, read when somebody asks."""

    def __init__(self, registry: CollectorRegistry, traffic: Traffic) -> None:
        self._traffic = traffic
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(
            "ebbtide_api_requests", "Requests to the API server by answer.", labels=["verb", "resource", "code"]
        )
        counts: Counter[tuple[str, str, str]] = Counter()
        for (verb, code), count in self._traffic.answers.items():
            counts[verb.verb, _resource(verb), code] += count
        for labels, count in counts.items():
            requests.add_metric(labels, count)
        restarts = CounterMetricFamily(
            "ebbtide_watch_restarts", "Watches that ended, to begin again, by why.", labels=["kind", "reason"]
        )
        for (kind, ending), count in self._traffic.endings.items():
            restarts.add_metric([kind, ending], count)
        return (requests, restarts)


class Watched(Protocol):
    """A `Reflector` of whatever objects."""

    @property
    def kind(self) -> str: ...

    def age(self) -> float | None: ...


R = TypeVar("R", bound=Watched)


class StoreAges(Collector):
    """`ebbtide_store_age_seconds`: of each kind that is followed, while it is, the store that is oldest."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._ages: list[tuple[str, Age]] = []
        registry.register(self)

    def follow(self, reflector: R) -> R:
        """Tells of the store that this one keeps, and returns it."""
        self._ages.append((reflector.kind, reflector.age))
        return reflector

    def collect(self) -> Iterable[Metric]:
        gauge = GaugeMetricFamily(
            "ebbtide_store_age_seconds",
            "Since the API server was last heard of about the objects of a kind, while they are watched.",
            labels=["kind"],
        )
        oldest: dict[str, float] = {}
        for kind, read in self._ages:
            age = read()
            if age is not None:
                oldest[kind] = max(age, oldest.get(kind, 0.0))
        for kind, age in oldest.items():
            gauge.add_metric([kind], age)
        return (gauge,)


def _resource(verb: Verb) -> str:
    return "/".join(part for part in (verb.resource, verb.subresource) if part)
