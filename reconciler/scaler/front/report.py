"""Requests → figures and log lines. Decisions about tasks are told by those who make them."""

import asyncio
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from reconciler.scaler.front.answers import Answer, Status
from reconciler.scaler.front.query import Kind

log = structlog.stdlib.get_logger(__name__)

# A known task is answered in less than a millisecond; an init may wait until its worker has started.
_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
# Seconds. Whoever reaches the port can send nonsense as fast as it likes, and the log is not there for that.
REFUSALS_EVERY: Final = 60.0


@dataclass(slots=True)
class _Refusals:
    """Of one kind of request: from when on one is told again (loop time), and how many were not told meanwhile."""

    due: float
    untold: int = 0


class Report:
    """Tells the world. Refusals are counted one by one; of each kind of request one a minute is in the log."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "worker_scaler_requests", "Requests at the front, by their answers.", ["request", "code"], registry=registry
        )
        self._took = Histogram(
            "worker_scaler_request_duration_seconds",
            "From the head of a request to its answer, the wait for a worker included.",
            ["request"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self.in_flight = Gauge(
            "worker_scaler_requests_in_flight", "Requests at the front, waiting ones included.", registry=registry
        )
        self._refusals: dict[Kind, _Refusals] = {}
        # Label lookups cost more than the rest of a request's figures.
        self._count_of = lru_cache(lambda kind, status: self._requests.labels(kind, int(status)))
        self._time_of = lru_cache(self._took.labels)

    def answered(self, kind: Kind, answer: Answer, seconds: float) -> None:
        """One request is over."""
        self._count_of(kind, answer.status).inc()
        self._time_of(kind).observe(seconds)
        if answer.status == Status.BAD:
            self._refused(kind, answer)

    def _refused(self, kind: Kind, answer: Answer) -> None:
        """By kind and not by words: those may be the client's, of which there are endlessly many."""
        now = asyncio.get_running_loop().time()
        refusals = self._refusals.setdefault(kind, _Refusals(now))
        if now < refusals.due:
            refusals.untold += 1
            return
        log.info(
            "request refused",
            request=str(kind),
            why=answer.body.decode().strip(),
            others_since_the_last=refusals.untold,
        )
        self._refusals[kind] = _Refusals(now + REFUSALS_EVERY)

    def broken_off(self, kind: Kind) -> None:
        """The client went away before its answer. What was begun for it goes on."""
        log.debug("client went away", request=str(kind))

    def fault(self, kind: Kind, error: Exception) -> None:
        """Something that nobody has foreseen."""
        log.error("request failed", request=str(kind), exc_info=error)
