"""Outcome → metrics, events, log."""

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from ebbtide.kube.resources import NODES
from ebbtide.model import NodeFacts
from ebbtide.notices import REASONS, Kind, Notice
from reconciler.engine.events import Event, Recorder, Regarding
from reconciler.signals.decide import Result

log = structlog.stdlib.get_logger(__name__)


class Report:
    """`recorder` is None in a dry run."""

    def __init__(self, registry: CollectorRegistry, recorder: Recorder | None) -> None:
        self._recorder = recorder
        self._problem = ""
        self._messages = Counter(
            "signals_messages", "Messages of the queue, by what became of them.", ["result"], registry=registry
        )
        self._undeleted = Counter(
            "signals_undeleted",
            "Messages that were done with and could not be deleted; they come again, and change nothing.",
            registry=registry,
        )
        self._errors = Counter("signals_queue_errors", "Failed requests to the queue.", registry=registry)
        self._answering = Gauge("signals_queue_answering", "1 while the queue answers.", registry=registry)
        for result in Result:
            self._messages.labels(result.value)

    def became(self, result: Result, why: str = "") -> None:
        """A message has been looked at. `why` it is not done with."""
        self._messages.labels(result.value).inc()
        if why:
            log.warning("message stays in the queue", result=result.value, why=why)

    def defect(self, error: Exception) -> None:
        """Looking at a message has failed as nobody foresaw: the message stays, and each time may be another defect."""
        log.error("message failed unexpectedly", exc_info=error)

    def stored(self, notice: Notice, node: NodeFacts) -> None:
        """The node has the signal now."""
        log.info("signal stored", node=node.name, notice=str(notice))
        if self._recorder is not None:
            note = f"AWS says of the node's instance {node.instance}: {notice}"
            regarding = Regarding(NODES, node.name, node.uid)
            if notice.kind is Kind.INTERRUPTION:
                self._recorder.emit(Event(regarding, "Warning", REASONS[notice.kind], "Signal", note))
            else:
                self._recorder.emit(Event(regarding, "Normal", REASONS[notice.kind], "Signal", note))

    def undeleted(self, count: int, why: str = "") -> None:
        """So many messages could not be deleted."""
        self._undeleted.inc(count)
        if why:
            log.warning("messages not deleted", count=count, problem=why)

    def answered(self) -> None:
        """The queue has answered."""
        if self._problem:
            log.info("queue answers again")
        self._problem = ""
        self._answering.set(1)

    def failed(self, problem: str) -> None:
        """The queue has not."""
        if problem != self._problem:
            log.warning("queue does not answer, asking on", problem=problem)
        self._problem = problem
        self._errors.inc()
        self._answering.set(0)

    def idle(self) -> None:
        """Nobody asks the queue: this process does not lead."""
        self._answering.set(0)
