"""A front that serves, with a desk and a leadership that do as a test says."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp
from aiohttp import web
from prometheus_client import CollectorRegistry
from yarl import URL

from ebbtide.config.scaler import WorkerScaler
from ebbtide.service.listening import bind
from ebbtide.sim.wire import Network, Wire
from reconciler.scaler.contract import MOST_AT_ONCE, Arrival, Phase, Place, Target, TaskRecord, Unavailable
from reconciler.scaler.front.wiring import Service, Surroundings
from reconciler.scaler.task import TaskId, TaskPrefix
from tests.doubles.client import Heard

LOOPBACK = "127.0.0.1"
IN_MEMORY = "http://front:19500"
LEADER_HOST = "192.0.2.7"
LEADER = f"http://{LEADER_HOST}:19500"
KNOWN = TaskId(1, 170, 139, 0)
UNKNOWN = TaskId(1, 170, 139, 7)
WORKER = "http://load-data-worker-1-170-139-0.tidb-serverless.svc.cluster.local:19500"
CLUSTER = 7
Body = bytes | AsyncIterator[bytes] | None


class ScriptedDesk:
    """Knows the tasks in `places`, and places others at `placing`; or raises `trouble`.

    Whoever asks for a place waits until `opened` is set. `made` are the arrivals that came to a decision, `asked` all.
    """

    def __init__(self, *places: Place) -> None:
        self.places = {place.task: place for place in places}
        self.missing = ""
        self.placing = WORKER
        self.trouble: Exception | None = None
        self.opened = asyncio.Event()
        self.opened.set()
        self.asked: list[Arrival] = []
        self.cancelled: list[str] = []
        self.waiting = 0

    def unknown(self, cluster: int = 0) -> str:
        return self.missing

    def find(self, task: TaskId, cluster: int) -> Place | None:
        place = self.places.get(task)
        return place if place is not None and place.cluster == cluster else None

    def records(self, cluster: int) -> Iterable[TaskRecord]:
        for place in self.places.values():
            if place.cluster == cluster:
                yield TaskRecord(place.task, cluster, place.target, "pod", Phase.RUNNING)

    async def place(self, arrival: Arrival) -> Place:
        self.asked.append(arrival)
        self.waiting += 1
        try:
            await self.opened.wait()
        finally:
            self.waiting -= 1
        if self.trouble is not None:
            raise self.trouble
        if self.missing:
            raise Unavailable(self.missing)
        found = self.places.get(arrival.task)
        return found or self.places.setdefault(
            arrival.task, Place(arrival.task, arrival.cluster, Target.DEDICATED, self.placing)
        )

    async def cancel(self, task: TaskId, cluster: int) -> bool:
        await self._ready_to_cancel()
        if self.find(task, cluster) is None:
            return False
        self.cancelled.append(str(task))
        return True

    async def cancel_all(self, prefix: str, cluster: int) -> int:
        await self._ready_to_cancel()
        segments = TaskPrefix.parse(prefix)
        found = [task for task in self.places if task.within(segments) and self.find(task, cluster)]
        self.cancelled += map(str, found)
        return len(found)

    async def _ready_to_cancel(self) -> None:
        await self.opened.wait()
        if self.trouble is not None:
            raise self.trouble


@dataclass
class ScriptedLeadership:
    """Says what a test says."""

    own: str = ""
    leading: bool = True
    elsewhere: str = ""
    looked: int = 0
    # Who leads from the n-th look at the lease on.
    successors: list[str] = field(default_factory=list)

    def leads(self) -> bool:
        return self.leading

    def leader(self) -> str:
        return self.elsewhere

    def trouble(self) -> str:
        return "no replica leads at the moment"

    async def look(self) -> None:
        self.looked += 1
        if self.successors:
            self.elsewhere = self.successors.pop(0)


def _leader_alone() -> Callable[[], aiohttp.BaseConnector]:
    async def leads(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=200 if request.method == "HEAD" else 501)

    network = Network()
    network.listen(LEADER_HOST, 19500, web.Server(leads))
    return network.connector


class Stage:
    """One front, and a client for it: on a port of loopback, or on a network in memory for simulated time.

    `elsewhere` is how it reaches other fronts; without it there is one at LEADER, which leads.
    """

    def __init__(
        self,
        desk: ScriptedDesk,
        leadership: ScriptedLeadership,
        rules: WorkerScaler,
        *,
        in_memory: bool = False,
        most_at_once: int = MOST_AT_ONCE,
        elsewhere: Callable[[], aiohttp.BaseConnector] | None = None,
    ) -> None:
        self.desk = desk
        self.leadership = leadership
        self.registry = CollectorRegistry()
        around = Surroundings(desk, leadership, leadership.look, elsewhere or _leader_alone(), self.registry)
        self.service = Service(rules, around, most_at_once)
        self.wire = Wire(self.service.connections)
        self.listening = None if in_memory else bind(LOOPBACK, 0)
        self.port = 0 if self.listening is None else int(self.listening.getsockname()[1])
        self.url = IN_MEMORY if self.listening is None else f"http://{LOOPBACK}:{self.port}"
        leadership.own = leadership.own or self.url

    async def __aenter__(self) -> Self:
        connector = self.wire.connector() if self.listening is None else aiohttp.TCPConnector(limit=0)
        self.session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout())
        self.serving = asyncio.create_task(self.service.run(self.listening))
        return self

    async def __aexit__(self, *_why: object) -> None:
        await self.session.close()
        self.serving.cancel()
        await asyncio.wait([self.serving])
        if not self.serving.cancelled():
            self.serving.result()

    async def ask(self, method: str, query: str, *, path: str = "/load_data", body: Body = None) -> Heard:
        """`query` is sent as it is."""
        url = URL(f"{self.url}{path}?{query}", encoded=True)
        async with self.session.request(method, url, data=body, allow_redirects=False) as answer:
            return Heard(answer.status, await answer.text(), answer.headers.copy())

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


@asynccontextmanager
async def front(*places: Place, rules: WorkerScaler | None = None, **options: Any) -> AsyncIterator[Stage]:
    """A front that leads and whose desk knows these tasks; see `Stage` for the options."""
    async with Stage(ScriptedDesk(*places), ScriptedLeadership(), rules or WorkerScaler(), **options) as stage:
        yield stage


class Raw(asyncio.Protocol):
    """A client that sends what it likes. `received` is all that came."""

    def __init__(self) -> None:
        self.received = b""
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True

    @property
    def statuses(self) -> list[int]:
        """Of all answers so far."""
        return [int(code) for code in re.findall(rb"HTTP/1\.[01] (\d+) ", self.received)]


def raw(stage: Stage) -> Raw:
    """A new connection in memory."""
    client = Raw()
    stage.wire.connect(client)
    return client


def known(
    task: TaskId = KNOWN, address: str = WORKER, *, cluster: int = CLUSTER, ready: bool = True, reason: str = ""
) -> Place:
    return Place(task, cluster, Target.DEDICATED, address, ready, reason)


def init(task: TaskId | str = KNOWN, cluster: int = CLUSTER, size: str = "1048576") -> str:
    return f"cluster_id={cluster}&task_id={task}&start_ts=1&commit_ts=2&data_size={size}"


def state(task: TaskId | str = KNOWN, cluster: int = CLUSTER) -> str:
    return f"cluster_id={cluster}&task_id={task}"


async def until(condition: Callable[[], bool]) -> None:
    """Waits for it, some ten seconds at most."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise TimeoutError("it never came true")
