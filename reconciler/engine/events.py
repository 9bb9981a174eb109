"""Events on cluster objects: what happened and why, for whoever runs `kubectl describe`.

An event is a courtesy: it is written in the background, never waited for, never repeated within a while, and dropped
rather than piled up when the API server has other worries.
"""

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Any, Final, Literal
from uuid import uuid4

import structlog

from ebbtide.clock import Clock
from ebbtide.kube.client import Client
from ebbtide.kube.errors import KubeError
from ebbtide.kube.resources import EVENTS, Resource
from ebbtide.model import format_micro_time

log = structlog.stdlib.get_logger(__name__)

CONTROLLER: Final = "ebbtide/reconciler"
# The same words about the same object are news again after this many seconds.
QUIET: Final = 600.0
_MOST_WAITING: Final = 1000
_MOST_REMEMBERED: Final = 5000
# So many are shown on the status page.
LATEST: Final = 50
# Limits of events.k8s.io/v1: note 1 kB, reportingInstance 128 characters.
_LONGEST_NOTE: Final = 1000
_LONGEST_INSTANCE: Final = 128


@dataclass(frozen=True, slots=True)
class Regarding:
    """The object that an event is about."""

    resource: Resource
    name: str
    uid: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """`reason` is one UpperCamelCase word of the reference, `action` what was done, `note` a sentence for a person."""

    regarding: Regarding
    kind: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str


@dataclass(frozen=True, slots=True)
class Story:
    """The words of an event, as yet without the object that it is about."""

    kind: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str

    def about(self, regarding: Regarding) -> Event:
        return Event(regarding, self.kind, self.reason, self.action, self.note)


@dataclass(frozen=True, slots=True)
class Told:
    """An event and the epoch second at which it was told."""

    at: float
    event: Event


class Recorder:
    """Writes events in the background while `run` runs, and keeps the latest."""

    def __init__(self, client: Client, clock: Clock, instance: str) -> None:
        self.name = "events"
        self._client = client
        self._clock = clock
        self._instance = instance[:_LONGEST_INSTANCE]
        self._waiting: asyncio.Queue[Event] = asyncio.Queue(_MOST_WAITING)
        self._told: OrderedDict[Event, float] = OrderedDict()
        self._latest: deque[Told] = deque(maxlen=LATEST)

    @property
    def latest(self) -> tuple[Told, ...]:
        """What was told last, in this order, whether it could be written or not."""
        return tuple(self._latest)

    def emit(self, event: Event) -> None:
        """Queues the event, unless it was told a short while ago or too many wait already."""
        now = self._clock.monotonic()
        if now - self._told.get(event, float("-inf")) < QUIET:
            return
        if self._waiting.full():
            log.warning("event dropped, too many are waiting", reason=event.reason, object=event.regarding.name)
            return
        self._waiting.put_nowait(event)
        self._latest.append(Told(self._clock.now(), event))
        self._told[event] = now
        self._told.move_to_end(event)
        while len(self._told) > _MOST_REMEMBERED:
            self._told.popitem(last=False)

    async def run(self) -> None:
        """Writes what was queued, one after the other, until cancelled."""
        while True:
            event = await self._waiting.get()
            namespace = event.regarding.namespace or "default"
            try:
                await self._client.create(EVENTS, self._body(event, namespace), namespace=namespace)
            except KubeError as error:
                log.warning("event not written", reason=event.reason, object=event.regarding.name, error=str(error))

    def _body(self, event: Event, namespace: str) -> dict[str, Any]:
        about = event.regarding
        reference = {"kind": about.resource.kind, "apiVersion": about.resource.api_version, "name": about.name}
        if about.uid:
            reference["uid"] = about.uid
        if about.namespace:
            reference["namespace"] = about.namespace
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": f"{about.name[:200]}.{uuid4().hex[:16]}", "namespace": namespace},
            "eventTime": format_micro_time(self._clock.now()),
            "type": event.kind,
            "reason": event.reason,
            "action": event.action,
            "note": event.note[:_LONGEST_NOTE],
            "regarding": reference,
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
        }
