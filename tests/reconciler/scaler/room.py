"""A room for the scaler's parts: the embedded cluster on simulated time, and worker doubles on a network in memory.

@in_room()
async def test_something(room: Room) -> None:
    worker = room.local(0)
    worker.begin(...)
    await room.until(lambda: room.knowledge.book.last(room.pod("tikv-api-0").uid))
"""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, Final

from prometheus_client import CollectorRegistry

from ebbtide import vocabulary
from ebbtide.config.scaler import WorkerScaler
from ebbtide.kube.client import Client
from ebbtide.service.connection import StoreAges
from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.deletion import Deletion
from ebbtide.sim.kinds import PODS, STATEFUL_SETS
from ebbtide.sim.storage import Write
from ebbtide.sim.stored import Object
from ebbtide.sim.time import simulate
from ebbtide.sim.wire import Network
from reconciler.engine.beside import running
from reconciler.scaler.knowledge import Knowledge
from reconciler.scaler.local.controller import Local
from reconciler.scaler.pods import WorkerPod
from reconciler.scaler.report import StatusReport
from reconciler.scaler.status.rounds import Rounds
from reconciler.scaler.stores import Stores
from reconciler.scaler.task import TaskId
from tests.doubles.worker import Worker
from tests.waiting import until

NAMESPACE: Final = "tidb-serverless"
TEMPLATE: Final = "tikv-api"
PORT: Final = 19500
_KUBELET: Final = Write("kubelet", "status")


def settings(**changed: Any) -> WorkerScaler:
    """The defaults, switched on, with some keys changed."""
    return WorkerScaler.model_validate(
        {"run": True, **{key.replace("_", "-"): value for key, value in changed.items()}}
    )


class Room:
    """What there is. `knowledge` and what stands on it work while the room is `lit`."""

    def __init__(self, cluster: Cluster, client: Client, rules: WorkerScaler) -> None:
        self.cluster = cluster
        self.client = client
        self.settings = rules
        self.network = Network()
        self.workers: dict[str, Worker] = {}
        self.registry = CollectorRegistry()
        cluster.create(objects.namespace(NAMESPACE), objects.stateful_set(TEMPLATE, namespace=NAMESPACE, replicas=0))
        stores = Stores(client, NAMESPACE, StoreAges(self.registry))
        self.knowledge = known = Knowledge.of(rules, stores, self.network.connector, cluster.clock)
        self.rounds = Rounds(rules, stores, known.book, known.clusters, StatusReport(self.registry))
        self.local_tasks = Local(rules, self.knowledge)
        self._addresses = 0

    @asynccontextmanager
    async def lit(self) -> AsyncIterator[None]:
        """One term: stores are filled, workers are asked."""
        async with running((*self.knowledge.stores.watches, self.knowledge.workers, self.rounds)):
            yield

    async def close(self) -> None:
        for worker in self.workers.values():
            await worker.close()

    # --- pods and their workers --------------------------------------------------------------------------------

    def local(self, ordinal: int, *, running: int = 0) -> Worker:
        """A pod of the template with a worker in it that runs so many tasks."""
        worker = self.worker_pod(f"{TEMPLATE}-{ordinal}", TEMPLATE)
        worker.begin(*(f"99-{ordinal}-{number}-0" for number in range(running)))
        return worker

    def worker_pod(self, name: str, owner: str, *, pool: str = "") -> Worker:
        """A pod of that set, Running and Ready, with a worker in it."""
        self._addresses += 1
        address = f"10.1.{self._addresses // 250}.{self._addresses % 250 + 1}"
        stored = self.cluster.storage.find(STATEFUL_SETS, owner, NAMESPACE).body
        labels = {vocabulary.POOL_LABEL: pool} if pool else {}
        body = objects.pod(name, namespace=NAMESPACE, node="n", labels=labels, owner=stored)
        status = {"podIP": address, "containerStatuses": [_container(f"first-{self._addresses}")]}
        self.cluster.create(objects.changed(body, {"status": status}))
        worker = self.workers[name] = Worker()
        self.network.listen(address, PORT, worker.accept)
        return worker

    def dedicated(self, name: str, cluster: int = 7) -> Worker:
        """A dedicated worker's set and pod."""
        body = objects.stateful_set(name, namespace=NAMESPACE, replicas=1)
        words = {
            "labels": {vocabulary.POOL_LABEL: vocabulary.POOL_DEDICATED},
            "annotations": {vocabulary.CLUSTER_ID_ANNOTATION: str(cluster)},
        }
        self.cluster.create(objects.changed(body, {"metadata": words}))
        return self.worker_pod(f"{name}-0", name, pool=vocabulary.POOL_DEDICATED)

    def annotate(self, name: str, annotations: dict[str, str]) -> None:
        """Somebody writes on a set."""
        patch = {"metadata": {"annotations": annotations}}
        self.cluster.storage.modify(
            STATEFUL_SETS, name, NAMESPACE, lambda body: objects.changed(body, patch), Write("somebody")
        )

    def pod(self, name: str) -> WorkerPod:
        """As our copy has it."""
        found = self.knowledge.stores.pod(name)
        assert found is not None, f"pod {name} is not known"
        return found

    def restart(self, name: str) -> None:
        """The container begins anew, at the same address."""
        self._addresses += 1
        self.change(name, {"containerStatuses": [_container(f"again-{self._addresses}")]})

    def unready(self, name: str) -> None:
        self.change(name, {"conditions": [{"type": "Ready", "status": "False"}]})

    def change(self, name: str, status: Object) -> None:
        """The kubelet writes the pod's status: a merge patch."""
        patch = {"status": status}
        self.cluster.storage.modify(PODS, name, NAMESPACE, lambda body: objects.changed(body, patch), _KUBELET)

    def remove(self, name: str) -> None:
        """The pod is gone, without a word before."""
        self.cluster.storage.delete(PODS, name, NAMESPACE, Deletion(grace_seconds=0))

    # --- time --------------------------------------------------------------------------------------------------

    @property
    def time(self) -> float:
        return self.cluster.clock.monotonic()

    async def until(self, holds: Callable[[], object], within: float = 60.0) -> float:
        """Waits; the seconds it took. Raises TimeoutError."""
        return await until(holds, within)


def _container(identity: str) -> Object:
    running = {"running": {"startedAt": objects.LONG_AGO}}
    return {"name": "app", "image": "", "imageID": "", "ready": True, "restartCount": 0, "state": running} | {
        "containerID": f"containerd://{identity}"
    }


def task(number: int, keyspace: int = 1) -> TaskId:
    """Some task."""
    return TaskId(keyspace, 170, number, 0)


Story = Callable[[Room], Coroutine[Any, Any, None]]


def in_room(**changed: Any) -> Callable[[Story], Callable[[], None]]:
    """Plays a test on simulated time; keys of `[worker-scaler]` can be changed."""

    def decorate(story: Story) -> Callable[[], None]:
        async def play() -> None:
            async with Cluster() as cluster:
                client = Client(cluster.access(), field_manager="ebbtide-reconciler", user_agent="room")
                async with client:
                    room = Room(cluster, client, settings(**changed))
                    try:
                        await story(room)
                    finally:
                        await room.close()

        @wraps(story)
        def test() -> None:
            simulate(play())

        del test.__wrapped__  # pytest would take the room for a fixture
        return test

    return decorate
