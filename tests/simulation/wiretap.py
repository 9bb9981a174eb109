"""Sees every request of one replica on its way to the embedded API server, and every change that it led to.

Each replica has a wire of its own, so that it can be killed as `kill -9` does it: from one moment on no byte of it
arrives, whatever its tasks may still be doing, and no answer reaches it.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Protocol

import orjson
from aiohttp import web

from ebbtide.kube.access import Access
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.kinds import NODES, PODS
from ebbtide.sim.stored import Event, Object
from ebbtide.sim.wire import FOR_EVER, Wire

NODE_PATH = "/api/v1/nodes/*"
POD_PATH = "/api/v1/namespaces/*/pods/*"
EVICTION_PATH = "/api/v1/namespaces/*/pods/*/eviction"
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/*"
EVENT_PATH = "/apis/events.k8s.io/v1/namespaces/*"
_QUESTIONS = "/apis/authorization.k8s.io/*"


@dataclass(slots=True, eq=False)
class Request:
    """One request that arrived. `status` is None until it is answered, and for one whose answer was lost."""

    time: float
    who: str
    method: str
    path: str
    query: str
    body: bytes
    status: int | None = None

    @property
    def document(self) -> Any:
        return orjson.loads(self.body)

    @property
    def writes(self) -> bool:
        return self.method != "GET" and not fnmatchcase(self.path, _QUESTIONS)

    @property
    def uid(self) -> str:
        """The pod that an eviction means."""
        return str(self.document["deleteOptions"]["preconditions"]["uid"])

    @property
    def pod(self) -> str:
        """The name of the pod that an eviction means."""
        return self.path.split("/")[-2]

    @property
    def node(self) -> str:
        """The name of the node that a write means."""
        return self.path.split("/")[-1]

    def matches(self, method: str, path: str) -> bool:
        return self.method == method and fnmatchcase(self.path, path)


@dataclass(frozen=True, slots=True)
class Change:
    """One stored change of a node or pod. `cause` is None when it was not a replica's."""

    time: float
    cause: Request | None
    event: Event

    @property
    def name(self) -> str:
        return self.event.stored.name

    @property
    def before(self) -> Object:
        return {} if self.event.before is None else self.event.before.body

    @property
    def after(self) -> Object:
        return self.event.stored.body


@dataclass(slots=True, eq=False)
class Hook:
    """Something to do when a certain request is there: before it is handled, or once it is (`answered`)."""

    method: str
    path: str
    do: Callable[[Request], object]
    answered: bool = False
    skip: int = 0
    times: int | None = 1

    def strike(self, request: Request, *, answered: bool) -> None:
        if answered is not self.answered or not request.matches(self.method, self.path):
            return
        if self.skip:
            self.skip -= 1
        elif self.times is None or self.times > 0:
            self.times = None if self.times is None else self.times - 1
            self.do(request)


class Watcher(Protocol):
    """Is told of every request when it arrives and when it has been answered, not of answers that get lost."""

    def arrived(self, request: Request) -> None: ...

    def answered(self, request: Request) -> None: ...


_cause: ContextVar[Request | None] = ContextVar("cause", default=None)


@dataclass(slots=True)
class Journal:
    """Everything that happened on the wires of a cluster, in order."""

    cluster: Cluster
    requests: list[Request] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    hooks: list[Hook] = field(default_factory=list)
    watchers: list[Watcher] = field(default_factory=list)

    def __post_init__(self) -> None:
        for kind in (NODES, PODS):
            self.cluster.storage.listen(self._changed, kind)

    def _changed(self, event: Event) -> None:
        self.changes.append(Change(self.cluster.clock.monotonic(), _cause.get(), event))

    def arrived(self, request: Request) -> None:
        self.requests.append(request)
        _cause.set(request)
        for watcher in self.watchers:
            watcher.arrived(request)

    def answered(self, request: Request, status: int) -> None:
        request.status = status
        for watcher in self.watchers:
            watcher.answered(request)

    def strike(self, request: Request, *, answered: bool) -> None:
        for hook in self.hooks:
            hook.strike(request, answered=answered)

    # --- what tests ask ----------------------------------------------------------------------------------------

    def matching(self, method: str, path: str) -> list[Request]:
        return [request for request in self.requests if request.matches(method, path)]

    @property
    def writes(self) -> list[Request]:
        """Every write except those of the election."""
        return [r for r in self.requests if r.writes and not fnmatchcase(r.path, LEASE_PATH)]

    @property
    def deeds(self) -> list[Request]:
        """Every write but those of the election and Events, which only tell."""
        return [request for request in self.writes if not fnmatchcase(request.path, EVENT_PATH)]

    @property
    def node_writes(self) -> list[Request]:
        return self.matching("PATCH", NODE_PATH)

    @property
    def evictions(self) -> list[Request]:
        return self.matching("POST", EVICTION_PATH)

    def events(self, reason: str) -> list[Request]:
        """The Events with that reason that were asked to be stored."""
        return [r for r in self.matching("POST", EVENT_PATH) if r.document["reason"] == reason]

    def accepted(self) -> Counter[str]:
        """By pod UID, how often an eviction got its yes delivered."""
        return Counter(request.uid for request in self.evictions if request.status == 201)

    def own_changes(self, name: str) -> Iterator[Change]:
        """Changes of the object of that name that replicas made."""
        return (change for change in self.changes if change.cause is not None and change.name == name)


class Wiretap:
    """The way of one replica to the server."""

    def __init__(self, cluster: Cluster, who: str, journal: Journal) -> None:
        self._cluster = cluster
        self._who = who
        self._journal = journal
        self._server = web.Server(self._handle, handler_cancellation=True, keepalive_timeout=FOR_EVER, access_log=None)
        self.wire = Wire(self._server)

    def access(self) -> Access:
        return replace(self._cluster.access(), connector=self.wire.connector, identity=self._who)

    def cut(self) -> None:
        """For good: what is on the way is lost, and nothing gets through any more."""
        self.wire.refusing = True
        self.wire.reset()

    async def close(self) -> None:
        self.cut()
        await self._server.shutdown(1.0)

    async def _handle(self, incoming: web.BaseRequest) -> web.StreamResponse:
        body = await incoming.read()
        now = self._cluster.clock.monotonic()
        request = Request(now, self._who, incoming.method, incoming.path, incoming.query_string, body)
        self._journal.arrived(request)
        self._journal.strike(request, answered=False)
        self._still_there()
        response = await self._cluster.api.handle(incoming)
        self._journal.strike(request, answered=True)
        self._still_there()
        self._journal.answered(request, response.status)
        return response

    def _still_there(self) -> None:
        if self.wire.refusing:
            raise ConnectionResetError("cut on order")
