"""A basin for the pool: the embedded cluster with everybody who makes pods, workers in them, and processes of ours.

@in_basin()
async def test_something(basin: Basin) -> None:
    basin.start()
    place = await basin.place(1)
    await basin.until(lambda: basin.replicas == 0)

Time is simulated. A pod runs two seconds after it has a node and is Ready a second later; from then on a worker double
answers at its address.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from functools import wraps
from random import Random
from typing import Any, Final

import orjson
from prometheus_client import CollectorRegistry

from ebbtide import vocabulary
from ebbtide.config import Settings
from ebbtide.kube.client import Client
from ebbtide.sim import objects
from ebbtide.sim.actors.binder import Binder
from ebbtide.sim.actors.kubelet import Kubelet, Timings
from ebbtide.sim.actors.scheduler import Scheduler
from ebbtide.sim.actors.workloads import Workloads
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.deletion import Deletion
from ebbtide.sim.kinds import CONFIG_MAPS, NODES, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS, Kind
from ebbtide.sim.storage import Write
from ebbtide.sim.stored import Object
from ebbtide.sim.time import simulate
from ebbtide.sim.wire import Network
from reconciler.engine.beside import running
from reconciler.scaler.contract import Arrival, Place, PlacementError
from reconciler.scaler.shared import ledger
from reconciler.scaler.shared.facts import Pool
from reconciler.scaler.task import TaskId
from tests.doubles.worker import Worker
from tests.reconciler.scaler.shared.program import Beside, Surroundings, assemble
from tests.simulation.wiretap import Journal, Request, Wiretap
from tests.waiting import until

NAMESPACE: Final = "tidb-serverless"
TEMPLATE: Final = "tikv-api"
POOL: Final = "ldw-shared"
PORT: Final = 19500
CLUSTER: Final = 7
MB: Final = 1 << 20
TIMINGS: Final = Timings(joining=0.0, starting=2.0, warming=1.0, stopping=2.0, orphaned=40.0)
_SOMEBODY: Final = Write("somebody-else")
_KUBELET: Final = Write("kubelet", "status")


def settings(**changed: Any) -> Settings:
    """The defaults with the pool switched on, and some keys of `[worker-scaler]` changed."""
    keys = {"run": True, "shared-pool-enabled": True, "cluster-id": CLUSTER}
    scaler = {**keys, **{key.replace("_", "-"): value for key, value in changed.items()}}
    return Settings.model_validate({"worker-scaler": scaler, "certs": {"mode": "files"}})


def task(number: int) -> TaskId:
    """Some task."""
    return TaskId(1, 170, number, 0)


def template() -> Object:
    """The StatefulSet that pods of the pool are made after; it has none itself."""
    body = objects.stateful_set(TEMPLATE, namespace=NAMESPACE, replicas=0, claims=("data",))
    container = body["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "A", "value": "b"}]
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return body


class Process:
    """One process of ours that leads, or believes so until it is told otherwise."""

    def __init__(self, basin: "Basin", name: str, rules: Settings) -> None:
        self.name = name
        self.leads = True
        self.killed = False
        self.registry = CollectorRegistry()
        self._tap = Wiretap(basin.cluster, name, basin.journal)
        self.client = Client(self._tap.access(), field_manager="ebbtide-reconciler", user_agent=name)
        program = assemble(
            self.client.permitted(lambda: self.leads),
            rules,
            Surroundings(basin.network.connector, basin.cluster.clock, name, basin.resolve),
            self.registry,
        )
        self.knowledge, self.pool = program.knowledge, program.pool
        self._task = asyncio.ensure_future(self._run(program.beside))

    async def _run(self, beside: Iterable[Any]) -> None:
        async with self.client, running(beside):
            await self.pool.run()

    async def place(self, arrival: Arrival) -> Place:
        return await self.pool.place(arrival)

    def facts(self) -> Pool:
        """The pool as this process sees it."""
        return self.pool.facts()

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def conditions(self) -> set[str]:
        return {condition["reason"] for condition in self.pool.describe()["conditions"]}

    def cut(self) -> None:
        """From now on nothing leaves it, nor arrives."""
        self.killed = True
        self._tap.cut()

    async def kill(self) -> None:
        """`kill -9`."""
        self.cut()
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await self._tap.close()


class Basin:
    """What there is."""

    def __init__(self, cluster: Cluster, rules: Settings) -> None:
        self.cluster = cluster
        self.storage = cluster.storage
        self.settings = rules
        self.journal = Journal(cluster)
        self.network = Network()
        self.workers: dict[str, Worker] = {}
        self.processes: list[Process] = []
        self.names_known = True
        self.asked_names: list[str] = []
        self._homes: dict[str, tuple[str, str]] = {}
        cluster.create(objects.namespace(NAMESPACE), objects.namespace("ebbtide-system"), template())

    # --- processes ---------------------------------------------------------------------------------------------

    def start(self, name: str = "one", rules: Settings | None = None) -> Process:
        process = Process(self, name, rules or self.settings)
        self.processes.append(process)
        return process

    @property
    def process(self) -> Process:
        """The last one that was started."""
        return self.processes[-1]

    async def close(self) -> None:
        for process in self.processes:
            if not process.killed:
                await process.kill()
        for worker in self.workers.values():
            await worker.close()

    async def resolve(self, host: str) -> None:
        """What the cluster's DNS says."""
        self.asked_names.append(host)
        if not self.names_known:
            raise OSError("Name or service not known")

    # --- tasks -------------------------------------------------------------------------------------------------

    async def place(self, number: int, size: int = MB) -> Place:
        """A client that comes once. Raises PlacementError."""
        return await self.process.place(Arrival(task(number), CLUSTER, size))

    async def insist(self, number: int, size: int = MB) -> Place:
        """A client that comes again every three seconds until it gets a place."""
        while True:
            try:
                return await self.place(number, size)
            except PlacementError:
                await asyncio.sleep(3)

    async def begin(self, *numbers: int, size: int = MB) -> list[str]:
        """Tasks that get a place and begin there; their pods, in order."""
        places = await asyncio.gather(*(self.insist(number, size) for number in numbers))
        for number, place in zip(numbers, places, strict=True):
            self.workers[pod_of(place)].begin(str(task(number)))
        return [pod_of(place) for place in places]

    def worker_of(self, number: int) -> Worker | None:
        """The worker that lists the task."""
        return next((worker for worker in self.workers.values() if task(number) in worker.tasks), None)

    def finish(self, *numbers: int, listed: bool = False) -> None:
        """Tasks end; they are collected at once unless they stay `listed`."""
        for number in numbers:
            worker = self.worker_of(number)
            assert worker is not None
            worker.finish(str(task(number)))
            if not listed:
                worker.lose(str(task(number)))

    # --- the cluster -------------------------------------------------------------------------------------------

    def node(self, name: str, zone: str = "a") -> None:
        """A node with room for any number of pods."""
        roomy = {"status": {"allocatable": {"cpu": "4000", "memory": "9000Gi", "pods": "1000"}}}
        self.cluster.create(objects.changed(objects.node(name, zone=zone, group="g"), roomy))

    def change(self, kind: Kind, name: str, change: Callable[[Object], Object]) -> None:
        """Somebody else writes an object of the workers' namespace, or a node."""
        self.storage.modify(kind, name, "" if kind is NODES else NAMESPACE, change, _SOMEBODY)

    def patch(self, kind: Kind, name: str, patch: Object) -> None:
        self.change(kind, name, lambda body: objects.changed(body, patch))

    def status(self, pod: str, patch: Object) -> None:
        """The kubelet writes a pod's status."""
        self.storage.modify(PODS, pod, NAMESPACE, lambda body: objects.changed(body, {"status": patch}), _KUBELET)

    def delete(self, kind: Kind, name: str) -> None:
        self.storage.delete(kind, name, "" if kind is NODES else NAMESPACE, Deletion(grace_seconds=0))

    def squat(self, *names: str) -> None:
        """Pods of the pool cannot be made: somebody else's have their names."""
        for name in names:
            self.delete(PODS, name)
            self.cluster.create(objects.pod(name, namespace=NAMESPACE))

    def slowly(self, seconds: float) -> None:
        """From now on pods take so long to start."""
        words = {"annotations": {"sim.ebbtide/starting": str(seconds)}}
        self.patch(STATEFUL_SETS, TEMPLATE, {"spec": {"template": {"metadata": words}}})

    def found(self, kind: Kind, name: str) -> Object | None:
        stored = self.storage.peek(kind, name, NAMESPACE)
        return None if stored is None else stored.body

    def pods(self) -> dict[str, Object]:
        return {p.name: p.body for p in self.storage.scan(PODS, NAMESPACE) if p.name.startswith(POOL)}

    def claims(self) -> list[str]:
        return sorted(claim.name for claim in self.storage.scan(PERSISTENT_VOLUME_CLAIMS, NAMESPACE))

    @property
    def replicas(self) -> int:
        """What the set asks for, 0 without one."""
        found = self.found(STATEFUL_SETS, POOL)
        return 0 if found is None else int(found["spec"]["replicas"])

    def loads(self) -> list[int]:
        """Running tasks of each pod, by ordinal, as the process knows them."""
        return [pod.running for pod in self.process.facts().pods]

    def promises(self) -> dict[str, int]:
        """Task → ordinal, as stored."""
        found = self.found(CONFIG_MAPS, ledger.name_of(POOL))
        data = {} if found is None else found.get("data") or {}
        numbers = {key: lines for key, lines in data.items() if key.isdigit()}
        return {orjson.loads(line)[0]: int(key) for key, lines in numbers.items() for line in lines.splitlines()}

    def busy(self) -> set[str]:
        label = vocabulary.BUSY_LABEL
        return {name for name, pod in self.pods().items() if (pod["metadata"].get("labels") or {}).get(label) == "true"}

    def writes(self, what: str = "", method: str = "*") -> list[Request]:
        """Requests of all processes so far that write such a thing: a word of its path."""
        return [
            request for request in self.journal.deeds if f"/{what}" in request.path and method in ("*", request.method)
        ]

    # --- time --------------------------------------------------------------------------------------------------

    @property
    def time(self) -> float:
        return self.cluster.clock.monotonic()

    async def until(self, holds: Callable[[], object], within: float = 60.0) -> float:
        """Waits; the seconds it took. Raises TimeoutError."""
        return await until(holds, within, picture=self.picture)

    def picture(self) -> str:
        facts = self.process.facts()
        pods = ", ".join(f"{p.ordinal}:{p.state} {p.running}+{p.reserved} idle {p.idle}" for p in facts.pods)
        return f"replicas {self.replicas}, {len(facts.waiting)} wait, [{pods}], {self.process.pool.discovered}"

    async def keep_workers(self) -> None:
        """A worker answers at the address of every pod that runs; one that is gone does not any more."""
        while True:
            for name, pod in self.pods().items():
                address = (pod.get("status") or {}).get("podIP")
                home = (pod["metadata"]["uid"], address or "")
                if address and self._homes.get(name) != home:
                    self._homes[name] = home
                    worker = self.workers[name] = Worker(collects=False)
                    self.network.listen(address, PORT, worker.accept)
            await asyncio.sleep(0.05)


def pod_of(place: Place) -> str:
    """The name of the pod in a place's address."""
    return place.address.removeprefix("http://").partition(".")[0]


Story = Callable[[Basin], Coroutine[Any, Any, None]]


@asynccontextmanager
async def populated(rules: Settings, *, nodes: int = 3, seed: int = 0) -> AsyncIterator[Basin]:
    """A basin with everybody in it, and so many nodes."""
    async with Cluster(seed=seed) as cluster:
        basin = Basin(cluster, rules)
        for number in range(nodes):
            basin.node(f"n{number}")
        storage = cluster.storage
        actors = (Kubelet(storage, TIMINGS), Workloads(storage), Scheduler(storage, Random(seed)), Binder(storage))
        parts = [Beside(type(actor).__name__, actor.run) for actor in actors]
        try:
            async with running((*parts, Beside("workers", basin.keep_workers))):
                yield basin
        finally:
            await basin.close()


def in_basin(nodes: int = 3, **changed: Any) -> Callable[[Story], Callable[[], None]]:
    """Plays a test; keys of `[worker-scaler]` can be changed."""

    def decorate(story: Story) -> Callable[[], None]:
        async def play() -> None:
            async with populated(settings(**changed), nodes=nodes) as basin:
                await story(basin)

        @wraps(story)
        def test() -> None:
            simulate(play())

        del test.__wrapped__  # pytest would take the basin for a fixture
        return test

    return decorate
