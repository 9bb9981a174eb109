"""Outcomes → metrics, events and log lines."""

from collections import Counter as Count
from collections.abc import Iterable
from enum import StrEnum

import structlog
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ebbtide.exclusion.carried import Difference
from ebbtide.kube.errors import Conflict, Forbidden, KubeError, NotFound
from reconciler.engine.events import Recorder
from reconciler.readmission import stories
from reconciler.readmission.decide import WORDS, Deletion, OwnerKey, PendingPod, Plan, Wait
from reconciler.readmission.memory import WARN_AFTER

log = structlog.stdlib.get_logger(__name__)


class Result(StrEnum):
    """Label values of `readmission_deletions_total`."""

    DELETED = "deleted"
    GONE = "gone"
    CHANGED = "changed"
    FORBIDDEN = "forbidden"
    ERROR = "error"


def result_of(error: KubeError) -> Result:
    """The metric's word for a deletion that failed."""
    match error:
        case NotFound():
            return Result.GONE
        case Conflict():
            return Result.CHANGED
        case Forbidden():
            return Result.FORBIDDEN
        case _:
            return Result.ERROR


class Report:
    """Tells the world. Without a recorder (a dry run) no event is written."""

    def __init__(self, registry: CollectorRegistry, recorder: Recorder | None) -> None:
        self._recorder = recorder
        self._plans: dict[OwnerKey, Plan] = {}
        registry.register(_WaitingPods(self._plans))
        self._deletions = Counter(
            "readmission_deletions",
            "Answers to deletions of waiting pods that are to be admitted again.",
            ["result"],
            registry=registry,
        )
        self._futile = Counter(
            "readmission_without_effect", "Pods that came back as their predecessors were.", registry=registry
        )

    def clear(self) -> None:
        """Nothing is known of any owner (a term is over)."""
        self._plans.clear()

    def looked(self, owner: OwnerKey, plan: Plan, *, dry_run: bool) -> None:
        """One look is over, before its deletion is sent."""
        before = self._plans.pop(owner, Plan())
        if plan.delete or plan.waiting or plan.kept:
            self._plans[owner] = plan
        if dry_run and plan.delete is not None and before.delete != plan.delete:
            log.info("would delete pod", pod=plan.delete.pod.key, owner=str(owner), why=str(plan.delete.why))
        for wait in _long_waits(plan) - _long_waits(before):
            log.info("pods are not admitted again now", owner=str(owner), pods=len(plan.waiting), why=WORDS[wait])
        for kept in plan.kept:
            if kept not in before.kept:
                log.info("pod is not admitted again", pod=kept.pod.key, owner=str(owner), why=kept.reason)

    def deleted(self, owner: OwnerKey, deletion: Deletion) -> None:
        """The API server has accepted a deletion."""
        self._deletions.labels(Result.DELETED).inc()
        log.info("pod deleted, to be admitted again", pod=deletion.pod.key, owner=str(owner), why=str(deletion.why))
        if self._recorder is not None:
            self._recorder.emit(stories.readmitted(deletion))

    def failed(self, deletion: Deletion, error: KubeError) -> None:
        """A deletion was not accepted, or not answered."""
        self._deletions.labels(result_of(error)).inc()
        log.info("pod not deleted", pod=deletion.pod.key, error=str(error))

    def without_effect(self, pod: PendingPod, why: Difference, in_a_row: int) -> None:
        """A pod came back as its predecessor was, the n-th of its owner in a row."""
        self._futile.inc()
        log.info("pod came back without effect", pod=pod.key, owner=str(pod.owner), why=str(why))
        if in_a_row == WARN_AFTER and self._recorder is not None:
            self._recorder.emit(stories.futile(pod, why))


def _long_waits(plan: Plan) -> set[Wait]:
    """Those of its waits that do not pass within a minute."""
    return {each.wait for each in plan.waiting} & {Wait.NO_WEBHOOK, Wait.BACK_OFF}


class _WaitingPods(Collector):
    """How many pods are to be admitted again and are still there, by reason, when somebody asks."""

    def __init__(self, plans: dict[OwnerKey, Plan]) -> None:
        self._plans = plans

    def collect(self) -> Iterable[Metric]:
        count = Count(waiting.wait for plan in self._plans.values() for waiting in plan.waiting)
        count[Wait.NEXT] += sum(plan.delete is not None for plan in self._plans.values())
        gauge = GaugeMetricFamily(
            "readmission_waiting_pods",
            "Pods with a zone exclusion that is out of date, by why they are still there.",
            labels=["reason"],
        )
        for wait in Wait:
            gauge.add_metric([wait], count[wait])
        return (gauge,)
