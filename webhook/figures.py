"""Counters and a histogram that cost next to nothing where they are counted, and are put together when somebody asks.

Those of the client library lock, since they may be used by several threads; that is several microseconds for each
request. These belong to the loop: it counts, and it answers `/metrics`.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector


class Tally(Collector):
    """How often what has happened: a counter by values of its labels, all of which are known from the start."""

    def __init__(
        self,
        name: str,
        words: str,
        labels: Sequence[str],
        values: Iterable[tuple[str, ...]],
        registry: CollectorRegistry,
    ) -> None:
        self.counts = dict.fromkeys(values, 0)
        self._name = name
        self._words = words
        self._labels = labels
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(self._name, self._words, labels=self._labels)
        for values, count in self.counts.items():
            family.add_metric(values, count)
        return (family,)


class Durations(Collector):
    """A histogram of seconds; `bounds` are the upper ends of its buckets, in order."""

    def __init__(self, name: str, words: str, bounds: Sequence[float], registry: CollectorRegistry) -> None:
        self._name = name
        self._words = words
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        registry.register(self)

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def collect(self) -> Iterable[Metric]:
        ends = [*map(str, self._bounds), "+Inf"]
        counts = accumulate(map(float, self._counts))
        return (HistogramMetricFamily(self._name, self._words, list(zip(ends, counts, strict=True)), self._sum),)
