"""A stage for stories of dedicated workers: the embedded cluster with everybody who makes pods run, on simulated time.

Wherever a pod of ours runs, a worker double answers at its address. A `Process` is the part of the reconciler that
looks after dedicated workers, on a wire of its own, so that it can be killed at any request.

@story()
async def test_something(stage: Stage) -> None:
    process = stage.start()
    place = await process.place(ID1, 3 * GIB)
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, Self

from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from ebbtide import vocabulary
from ebbtide.config import Settings
from ebbtide.kube.client import Client
from ebbtide.kube.store import Store
from ebbtide.model import CellLabels, NodeFacts, node_facts
from ebbtide.service.connection import StoreAges
from ebbtide.sim import objects
from ebbtide.sim.actors.ensemble import living
from ebbtide.sim.actors.kubelet import Timings
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.deletion import Deletion
from ebbtide.sim.kinds import NODES, PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES, STATEFUL_SETS, Kind
from ebbtide.sim.storage import Write
from ebbtide.sim.stored import Event, Object
from ebbtide.sim.time import SimulatedClock, simulate
from ebbtide.sim.wire import Network
from reconciler.engine.beside import running
from reconciler.engine.context import Context
from reconciler.engine.shared import Shared
from reconciler.scaler.contract import Arrival, Place, Unavailable
from reconciler.scaler.dedicated.names import set_name
from reconciler.scaler.dedicated.wiring import build
from reconciler.scaler.knowledge import Knowledge
from reconciler.scaler.metrics import WorkerMetrics
from reconciler.scaler.report import StatusReport
from reconciler.scaler.status.rounds import Rounds
from reconciler.scaler.stores import Stores
from reconciler.scaler.task import TaskId
from tests.doubles.worker import Worker
from tests.reconciler.scaler.templates import NAMESPACE, template
from tests.simulation.wiretap import Hook, Journal, Request, Wiretap
from tests.waiting import until

GIB: Final = 1 << 30
LARGE: Final = 3 * GIB
ID1: Final = TaskId.parse("1-1701753296955293956-139-0")
NAME1: Final = f"load-data-worker-{ID1}"
PORT: Final = 19500
# Started two seconds after it got a node, ready three seconds after that.
TIMINGS: Final = Timings(starting=2.0, warming=3.0, stopping=2.0)
TICK: Final = 10.0
SETS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets"
SERVICES_PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/services"
_OTHERS: Final = Write("somebody-else")
_CORDONED: Final = {"spec": {"unschedulable": True}}
_OPEN: Final = {"spec": {"unschedulable": None}}


def task(engine: int) -> TaskId:
    """ID1 and its neighbours."""
    return ID1._replace(engine=engine)


@dataclass
class Beat:
    """What a client did last: its place, or why it got none."""

    place: Place | None = None
    refused: Unavailable | None = None
    at: float = 0.0


class Process:
    """One process while it leads."""

    def __init__(self, stage: "Stage", name: str, settings: Settings, *, dry_run: bool) -> None:
        self._stage = stage
        self.tap = Wiretap(stage.cluster, name, stage.journal)
        self.client = Client(
            self.tap.access(), field_manager=vocabulary.FIELD_MANAGER_RECONCILER, user_agent=f"reconciler/{name}"
        )
        self.registry = CollectorRegistry()
        ages = StoreAges(self.registry)
        shared = Shared(self.client, stage.cluster.clock, name, ages, dry_run=dry_run)
        nodes: Store[NodeFacts] = Store(lambda raw: node_facts(raw, CellLabels()))
        context = Context(
            settings=settings,
            client=self.client,
            nodes=nodes,
            shared=shared,
            ages=ages,
            registry=self.registry,
            clock=stage.cluster.clock,
            namespace="ebbtide-system",
            identity=name,
            deployment="",
            dry_run=dry_run,
        )
        rules = settings.worker_scaler
        stores = Stores(self.client, NAMESPACE, ages)
        self.knowledge = known = Knowledge.of(
            rules, stores, stage.network.connector, stage.cluster.clock, stage.resolve
        )
        rounds = Rounds(rules, stores, known.book, known.clusters, StatusReport(self.registry))
        self.dedicated = build(context, known, WorkerMetrics(self.registry))
        recorder = () if shared.recorder is None else (shared.recorder,)
        self._beside = (*stores.watches, known.workers, rounds, *recorder)
        self.work = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        async with self.client, running(self._beside):
            await self.dedicated.upkeep.run()

    async def ready(self) -> None:
        """Until all is known that was there before."""
        await self._stage.until(lambda: self.dedicated.upkeep.leading and not self.dedicated.discovered)

    async def place(self, of: TaskId = ID1, size: int = LARGE, cluster: int = 7) -> Place:
        """One init request. Raises Unavailable."""
        await self.ready()
        return await self.dedicated.place(Arrival(of, cluster, size))

    def ask(self, of: TaskId = ID1, size: int = LARGE) -> "asyncio.Task[Beat]":
        """One init request beside the story."""

        async def asked() -> Beat:
            beat = Beat()
            try:
                beat.place = await self.place(of, size)
            except Unavailable as refused:
                beat.refused = refused
            except TimeoutError:
                beat.refused = Unavailable("it does not know yet what there is")
            beat.at = self._stage.time
            return beat

        return asyncio.ensure_future(asked())

    async def insist(self, of: TaskId = ID1, size: int = LARGE) -> Place:
        """As the real client: again three seconds after each temporary refusal."""
        while True:
            try:
                return await self.place(of, size)
            except Unavailable:
                await asyncio.sleep(3.0)

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def state(self, name: str = NAME1) -> str:
        """The worker's state as it was last looked at, "" for one that is not known."""
        return next((str(s.verdict.state) for s in self.dedicated.workers if s.worker.set.name == name), "")

    def kill(self) -> None:
        """`kill -9`."""
        self.tap.cut()
        self.work.cancel()

    async def close(self) -> None:
        """Ends it if it still runs. Raises what it died of."""
        if not self.work.done():
            self.kill()
        with suppress(asyncio.CancelledError):
            await self.work
        await self.tap.close()


class Stage:
    """What there is."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self.cluster = cluster
        self.settings = settings
        self.faults = cluster.faults
        self.storage = cluster.storage
        self.journal = Journal(cluster)
        self.network = Network()
        self.workers: dict[str, Worker] = {}
        self.before: Callable[[Worker], None] = lambda _worker: None
        self.names_known = True
        self._processes: list[Process] = []
        self._known: set[str] = set()
        cluster.create(objects.namespace(NAMESPACE), template(replicas=0))
        for zone in "ab":
            for number in range(3):
                cluster.create(_node(f"{zone}{number}", zone))
        cluster.storage.listen(self._pod_changed, PODS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        async with AsyncExitStack() as stack:
            for worker in self.workers.values():
                stack.push_async_callback(worker.close)
            for process in self._processes:
                stack.push_async_callback(process.close)

    def start(self, name: str = "one", *, dry_run: bool = False, **changed: Any) -> Process:
        """A further process; after a kill, the next one."""
        settings = scaler(**changed) if changed else self.settings
        process = Process(self, name, settings, dry_run=dry_run)
        self._processes.append(process)
        return process

    async def resolve(self, _host: str) -> None:
        """What the cluster's DNS says."""
        if not self.names_known:
            raise OSError("Name or service not known")

    # --- workers -------------------------------------------------------------------------------------------------

    def _pod_changed(self, event: Event) -> None:
        """A worker double runs wherever a pod of ours does."""
        pod = event.stored.body
        address = (pod.get("status") or {}).get("podIP")
        name, uid = event.stored.name, event.stored.uid
        ours = (pod["metadata"].get("labels") or {}).get(vocabulary.POOL_LABEL)
        if event.type == "DELETED" and address:
            self.network.leave(address, PORT)
        elif ours and address and uid not in self._known:
            self._known.add(uid)
            worker = self.workers[name] = Worker()
            self.before(worker)
            self.network.listen(address, PORT, worker.accept)

    def worker(self, name: str = NAME1) -> Worker:
        """The double in the pod of that set."""
        return self.workers[f"{name}-0"]

    async def imports(self, process: Process, of: TaskId = ID1, size: int = LARGE) -> Worker:
        """A client gets its place and begins its task there."""
        await process.insist(of, size)
        worker = self.worker(set_name(self.settings.worker_scaler.name, of))
        worker.begin(str(of))
        return worker

    # --- objects -------------------------------------------------------------------------------------------------

    def names(self, kind: Kind) -> list[str]:
        return sorted(stored.name for stored in self.storage.scan(kind, NAMESPACE))

    def sets(self) -> list[str]:
        return [name for name in self.names(STATEFUL_SETS) if name != "tikv-api"]

    def left(self) -> list[str]:
        """Everything of workers that is still there."""
        kinds = (STATEFUL_SETS, SERVICES, PERSISTENT_VOLUME_CLAIMS, PODS)
        return [name for kind in kinds for name in self.names(kind) if name != "tikv-api"]

    def body(self, kind: Kind, name: str) -> Object:
        return self.storage.find(kind, name, NAMESPACE).body

    def pod(self, name: str = NAME1) -> Object:
        return self.body(PODS, f"{name}-0")

    def busy(self, name: str = NAME1) -> bool:
        labels = self.pod(name)["metadata"]["labels"]
        return bool(labels.get(vocabulary.BUSY_LABEL) == "true")

    def patch(self, kind: Kind, name: str, patch: Object) -> None:
        """Another program writes."""
        self.storage.modify(kind, name, NAMESPACE, lambda body: objects.changed(body, patch), _OTHERS)

    def remove(self, kind: Kind, name: str, grace: int | None = None) -> None:
        """Another program deletes."""
        self.storage.delete(kind, name, NAMESPACE, Deletion(grace_seconds=grace))

    def no_room(self) -> None:
        """No node takes pods any more."""
        for node in self.storage.scan(NODES):
            self.storage.modify(NODES, node.name, "", lambda body: objects.changed(body, _CORDONED), _OTHERS)

    def room(self) -> None:
        for node in self.storage.scan(NODES):
            self.storage.modify(NODES, node.name, "", lambda body: objects.changed(body, _OPEN), _OTHERS)

    def on(self, method: str, path: str, do: Callable[[Request], object], **how: Any) -> None:
        """Does something when such a request arrives, or with `answered` once it is processed."""
        self.journal.hooks.append(Hook(method, path, do, **how))

    def events(self, reason: str) -> list[str]:
        return [request.document["note"] for request in self.journal.events(reason)]

    # --- time ----------------------------------------------------------------------------------------------------

    @property
    def time(self) -> float:
        return self.cluster.clock.monotonic()

    @property
    def clock(self) -> SimulatedClock:
        assert isinstance(self.cluster.clock, SimulatedClock)
        return self.cluster.clock

    async def until(self, holds: Callable[[], object], within: float = 60.0) -> float:
        """Waits; the seconds it took. Raises TimeoutError."""
        return await until(holds, within, picture=self.left)


def scaler(**changed: Any) -> Settings:
    """The default configuration with some keys of `[worker-scaler]` changed."""
    keys = {"run": True, **{key.replace("_", "-"): value for key, value in changed.items()}}
    return Settings.model_validate({"worker-scaler": keys, "certs": {"mode": "files"}})


def _node(name: str, zone: str) -> Object:
    amounts = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "100Gi", "pods": "110"}
    body = objects.node(name, group="g", zone=zone)
    return objects.changed(body, {"status": {"capacity": amounts, "allocatable": amounts}})


Story = Callable[[Stage], Coroutine[Any, Any, None]]


def story(**changed: Any) -> Callable[[Story], Callable[[], None]]:
    """Plays a test on simulated time; fails for any error that the program logs."""

    def decorate(told: Story) -> Callable[[], None]:
        async def play() -> None:
            async with (
                Cluster() as cluster,
                Stage(cluster, scaler(**changed)) as stage,
                living(cluster.storage, timings=TIMINGS),
            ):
                await told(stage)

        @wraps(told)
        def test() -> None:
            with capture_logs() as logs:
                simulate(play())
            assert not [entry for entry in logs if entry["log_level"] in ("error", "critical")]

        del test.__wrapped__  # pytest would take the stage for a fixture
        return test

    return decorate
