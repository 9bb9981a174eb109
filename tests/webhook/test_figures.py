"""Figures that are counted without the client library look as though it had counted them."""

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from webhook.figures import Durations, Tally

BOUNDS = (0.0005, 0.01, 1.0, 10.0)


def shown(registry: CollectorRegistry) -> list[str]:
    """All but the times at which the library's own began."""
    return [line for line in generate_latest(registry).decode().splitlines() if "_created" not in line]


def test_a_tally_is_a_counter() -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    tally = Tally("x", "What it is.", ("kind", "result"), [("pod", "fine"), ("pod", 'o"dd')], ours)
    counter = Counter("x", "What it is.", ("kind", "result"), registry=theirs)
    for values in tally.counts:
        counter.labels(*values)
    for values in [("pod", "fine"), ("pod", 'o"dd'), ("pod", "fine")]:
        tally.counts[values] += 1
        counter.labels(*values).inc()
    assert shown(ours) == shown(theirs)


def test_what_is_not_on_the_list_is_not_counted() -> None:
    """A value of chance would be a series for ever."""
    tally = Tally("x", "What it is.", ("kind",), [("pod",)], CollectorRegistry())
    with pytest.raises(KeyError):
        tally.counts[("other",)] += 1


def test_durations_are_a_histogram() -> None:
    """Also those on a bound, below the first and above the last."""
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    durations = Durations("x_seconds", "How long.", BOUNDS, ours)
    histogram = Histogram("x_seconds", "How long.", buckets=BOUNDS, registry=theirs)
    for seconds in (0.0, 0.0005, 0.25, 1.0, 9.5, 60.0):
        durations.add(seconds)
        histogram.observe(seconds)
    assert shown(ours) == shown(theirs)
