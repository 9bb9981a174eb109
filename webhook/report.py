"""Outcomes → metrics and log lines. Of an object nothing is told but its kind, its name and its namespace."""

import math
import traceback
from collections.abc import Callable
from enum import StrEnum
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Gauge

from ebbtide.exclusion.decide import Concern, Skip
from ebbtide.exclusion.zones import BlockedZones
from ebbtide.service.log import frequent
from webhook.decide import Decision, Untouched
from webhook.figures import Durations, Tally
from webhook.review import Kind, Operation, Request

log = structlog.stdlib.get_logger(__name__)

# From half a millisecond, which a decision stays below, to the time that the API server waits at most.
_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# Names of objects are no longer (apimachinery, IsDNS1123Subdomain); what is longer will be refused.
_LONGEST_NAME: Final = 253
UNKNOWN: Final = "unknown"


class Result(StrEnum):
    """What became of a request; the values are those of a metric label."""

    MUTATED = "mutated"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"
    ERROR = "error"


class Failure(StrEnum):
    """Why a request got no answer from us; the values are those of a metric label."""

    FAULT = "fault"
    NOT_SYNCED = "not-synced"
    LEAVING = "leaving"
    BUSY = "busy"
    BROKEN_OFF = "broken-off"
    TOO_SLOW = "too-slow"
    NOT_A_REVIEW = "not-a-review"
    TOO_LARGE = "too-large"
    CONTENT_TYPE = "content-type"
    METHOD = "method"
    PATH = "path"


_UNREAD: Final = (UNKNOWN, UNKNOWN, Result.ERROR)


def result_of(decision: Decision, *, changed: bool) -> Result:
    """A pinned pod whose last zone must stay open is changed, although something was skipped."""
    if changed:
        return Result.MUTATED
    return Result.UNCHANGED if decision.skipped is None else Result.SKIPPED


class Report:
    """The webhook's own metrics in `registry`; `age` is that of the state, in seconds."""

    def __init__(self, registry: CollectorRegistry, age: Callable[[], float]) -> None:
        self._line = frequent(__name__)
        known = [(kind, operation, result) for kind in Kind for operation in Operation for result in Result]
        self._requests = Tally(
            "webhook_requests", "Admission requests.", ("webhook", "operation", "result"), [*known, _UNREAD], registry
        ).counts
        self._skipped = Tally(
            "webhook_skipped",
            "Requests by why nothing was excluded.",
            ("reason",),
            [(reason,) for reason in (*Untouched, *Skip)],
            registry,
        ).counts
        self._warnings = Tally(
            "webhook_warnings",
            "Reasons to warn whoever created it.",
            ("concern",),
            [(concern,) for concern in Concern],
            registry,
        ).counts
        self._errors = Tally(
            "webhook_errors", "Requests without an answer by why.", ("reason",), [(each,) for each in Failure], registry
        ).counts
        self._duration = Durations(
            "webhook_request_duration_seconds",
            "From the head of a request to its answer, the body's arrival included.",
            _BUCKETS,
            registry,
        )
        self.in_flight = Gauge("webhook_in_flight", "Requests under way.", registry=registry)
        self._blocked = Gauge("webhook_blocked_zones", "Blocked zones.", ["node_group"], registry=registry)
        state_age = Gauge(
            "webhook_state_age_seconds",
            "Since the API server was last heard of about nodes; NaN before.",
            registry=registry,
        )
        state_age.set_function(lambda: seconds if math.isfinite(seconds := age()) else math.nan)

    def follow(self, zones: BlockedZones) -> None:
        """Keeps the number of blocked zones of every group."""
        zones.on_change(lambda group: self._count_blocked(zones, group))

    def _count_blocked(self, zones: BlockedZones, group: str) -> None:
        found = zones.groups.get(group)
        if found is None:
            self._blocked.remove(group)
        else:
            self._blocked.labels(group).set(len(found.blocked))

    def answered(self, request: Request, decision: Decision, result: Result, seconds: float) -> None:
        """A request was answered."""
        self._requests[request.kind, request.operation, result] += 1
        self._duration.add(seconds)
        if decision.skipped is not None:
            self._skipped[(decision.skipped,)] += 1
        for caution in decision.warnings:
            self._warnings[(caution.concern,)] += 1
        self._line(
            "admission",
            {
                "result": result,
                "reason": decision.skipped,
                "kind": request.kind,
                "operation": request.operation,
                "namespace": request.namespace[:_LONGEST_NAME],
                "name": request.shown_name[:_LONGEST_NAME],
                "pool": decision.pool[:_LONGEST_NAME],
                "zones": decision.exclusion.annotation,
                "warning": decision.warning,
                "dry_run": request.dry_run,
                "uid": request.uid[:_LONGEST_NAME],
                "ms": round(seconds * 1000, 3),
            },
        )

    def failed(self, failure: Failure, seconds: float | None = None, request: Request | None = None) -> None:
        """A request got no answer, or one that says so."""
        self._errors[(failure,)] += 1
        kept = _UNREAD if request is None else (request.kind, request.operation, Result.ERROR)
        self._requests[kept] += 1
        if seconds is not None:
            self._duration.add(seconds)

    def fault(self, error: Exception, request: Request | None, seconds: float) -> None:
        """Our own fault. Its message may quote the object, so only its kind and place are told."""
        self.failed(Failure.FAULT, seconds, request)
        places = [f"{frame.name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
        log.error(
            "admission failed",
            error=type(error).__name__,
            at=places[-6:],
            kind=None if request is None else request.kind,
            operation=None if request is None else request.operation,
            namespace=None if request is None else request.namespace[:_LONGEST_NAME],
            uid=None if request is None else request.uid[:_LONGEST_NAME],
        )
