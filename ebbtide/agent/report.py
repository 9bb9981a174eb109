"""What the agent shows: metrics, and one event per notice on the node."""

import socket
from enum import StrEnum
from typing import Any, Final
from uuid import uuid4

from prometheus_client import CollectorRegistry, Counter, Gauge

from ebbtide.agent.imds import Result
from ebbtide.kube.resources import EVENTS, NODES
from ebbtide.model import NodeFacts, format_micro_time
from ebbtide.notices import REASONS, Kind, Notice

CONTROLLER: Final = "ebbtide/agent"
# events.k8s.io/v1, `reportingInstance`.
_LONGEST_INSTANCE: Final = 128


class Stored(StrEnum):
    """What became of a notice."""

    WRITTEN = "written"
    KNOWN = "known"
    FAILED = "failed"


class Report:
    """Counts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "agent_metadata_requests", "Questions to the metadata service.", ["kind", "result"], registry=registry
        )
        self._notices = Counter("agent_notices", "Notices heard, each counted once.", ["kind"], registry=registry)
        self._writes = Counter(
            "agent_writes", "Attempts to put a notice on the node, by result.", ["result"], registry=registry
        )
        self._waiting = Gauge("agent_waiting_notices", "Notices that are not on the node yet.", registry=registry)
        for kind in Kind:
            self._notices.labels(kind.value)
        for stored in Stored:
            self._writes.labels(stored.value)

    def asked(self, kind: Kind, result: Result) -> None:
        """A question to the metadata service has ended."""
        self._requests.labels(kind.value, result.value).inc()

    def heard(self, notice: Notice) -> None:
        """A notice that was not known before."""
        self._notices.labels(notice.kind.value).inc()

    def stored(self, result: Stored) -> None:
        """An attempt to put a notice on the node has ended."""
        self._writes.labels(result.value).inc()

    def waiting(self, count: int) -> None:
        """So many notices are not on the node yet."""
        self._waiting.set(count)


def event(notice: Notice, node: NodeFacts, now: float) -> dict[str, Any]:
    """An events.k8s.io/v1 Event about the node; `now` in epoch seconds."""
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": f"{node.name}.{uuid4().hex[:16]}"},
        "eventTime": format_micro_time(now),
        "reportingController": CONTROLLER,
        "reportingInstance": socket.gethostname()[:_LONGEST_INSTANCE],
        "action": "Signal",
        "reason": REASONS[notice.kind],
        "type": "Warning" if notice.kind is Kind.INTERRUPTION else "Normal",
        "note": f"AWS says of this instance: {notice}",
        "regarding": {
            "apiVersion": NODES.api_version,
            "kind": NODES.kind,
            "name": node.name,
            "uid": node.uid,
        },
    }
