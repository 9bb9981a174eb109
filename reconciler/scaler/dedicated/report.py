"""Outcomes → metrics, events and log lines; and what every worker is doing, for status and explanations."""

from collections.abc import Iterable
from dataclasses import dataclass

import structlog

from ebbtide.kube.resources import PERSISTENT_VOLUME_CLAIMS, STATEFUL_SETS
from ebbtide.vocabulary import POOL_DEDICATED
from reconciler.engine.events import Recorder, Regarding, Story
from reconciler.scaler.contract import Arrival, Unavailable
from reconciler.scaler.dedicated import stories
from reconciler.scaler.dedicated.decide import Trouble, Verdict
from reconciler.scaler.dedicated.snapshot import Foreign, Worker
from reconciler.scaler.metrics import Cleanup, WorkerMetrics, WorkerState
from reconciler.scaler.pods import WorkerClaim, WorkerSet

log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Seen:
    """A worker as it was last looked at."""

    worker: Worker
    verdict: Verdict


class Report:
    """Tells the world. Without a recorder (a dry run) no event is written; `template` is what workers are made of."""

    def __init__(self, metrics: WorkerMetrics, recorder: Recorder | None, namespace: str, template: str) -> None:
        self._metrics = metrics
        self._recorder = recorder
        self._template = Regarding(STATEFUL_SETS, template, "", namespace)
        self._seen: dict[str, Seen] = {}
        metrics.of_pool(POOL_DEDICATED, self._states)
        metrics.of_troubles(Trouble, self._troubles)

    @property
    def workers(self) -> Iterable[Seen]:
        """Every worker that has been looked at, by name."""
        return tuple(self._seen[name] for name in sorted(self._seen))

    def begin(self) -> None:
        """Nothing is known (a new term)."""
        self._seen.clear()

    def last(self, name: str) -> Verdict | None:
        """What was last decided about the worker of that name."""
        seen = self._seen.get(name)
        return None if seen is None else seen.verdict

    def looked(self, worker: Worker, verdict: Verdict) -> None:
        """A worker was looked at."""
        before = self._seen.get(worker.set.name)
        self._seen[worker.set.name] = Seen(worker, verdict)
        if before is None or before.verdict.state is not verdict.state:
            log.info("worker state", worker=worker.set.name, state=verdict.state, reason=verdict.reason)
        if verdict.trouble is not None and (before is None or before.verdict.trouble is not verdict.trouble):
            self._about(worker.set, stories.troubled(verdict.trouble, verdict.reason))

    def gone(self, name: str) -> None:
        """There is no such worker any more."""
        self._seen.pop(name, None)

    def created(self, made: WorkerSet, arrival: Arrival) -> None:
        log.info("worker created", worker=made.name, task=str(arrival.task), size=arrival.size)
        self._about(made, stories.created(arrival.task, arrival.size))

    def ready(self, worker: Worker, seconds: float | None) -> None:
        """Its clients are told; `seconds` after it was asked for, None for one that was not made just now."""
        if seconds is not None:
            self._metrics.started(seconds)
            log.info("worker ready", worker=worker.set.name, seconds=round(seconds, 1))

    def not_ready(self, arrival: Arrival, why: Unavailable) -> None:
        """Clients are told to come again."""
        log.info("no worker yet", task=str(arrival.task), code=why.code, reason=str(why))

    def refused(self, arrival: Arrival, why: Unavailable) -> None:
        """Nothing could be made. The event is about the template: there is nothing else that it could be about."""
        log.warning("worker not created", task=str(arrival.task), code=why.code, reason=str(why))
        match why.code:
            case "TemplateUnusable":
                story = stories.template_unusable(str(why))
            case "LimitReached":
                story = stories.limit_reached(str(why))
            case "QuotaExceeded":
                story = stories.quota_exceeded(str(why))
            case _:
                story = stories.not_created(arrival.task, str(why))
        self._tell(self._template, story)

    def would_remove(self, worker: Worker, verdict: Verdict) -> None:
        """A dry run."""
        log.info("would remove worker", worker=worker.set.name, reason=verdict.reason)

    def removed(self, worker: Worker, why: Cleanup, words: str) -> None:
        """A worker's deletion was accepted."""
        self._metrics.cleaned(why)
        log.info("worker removed", worker=worker.set.name, task=str(worker.task), why=why, reason=words)
        self._about(worker.set, stories.removed(worker.task, why, words))

    def collected(self, claim: WorkerClaim) -> None:
        """A volume without a worker was deleted."""
        self._metrics.cleaned(Cleanup.ORPHANED_CLAIM)
        log.info("volume claim removed, its worker has gone", claim=claim.name, kind=PERSISTENT_VOLUME_CLAIMS.kind)

    def ignored(self, foreign: Foreign) -> None:
        """A set that is left alone."""
        log.warning("set with the label of a worker is left alone", set=foreign.set.name, reason=foreign.reason)
        self._about(foreign.set, stories.not_recognised(foreign.reason))

    def _states(self) -> Iterable[WorkerState]:
        return [seen.verdict.state for seen in self._seen.values()]

    def _troubles(self) -> Iterable[str]:
        return [seen.verdict.trouble for seen in self._seen.values() if seen.verdict.trouble is not None]

    def _about(self, owner: WorkerSet, story: Story) -> None:
        self._tell(Regarding(STATEFUL_SETS, owner.name, owner.uid, owner.namespace), story)

    def _tell(self, regarding: Regarding, story: Story) -> None:
        if self._recorder is not None:
            self._recorder.emit(story.about(regarding))
