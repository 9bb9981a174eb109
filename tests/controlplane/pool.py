"""The shared pool on a real control plane: a template, volumes for its claims, a worker double in each of its pods."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from prometheus_client import CollectorRegistry

from ebbtide import vocabulary
from ebbtide.clock import SystemClock
from ebbtide.config import Settings
from ebbtide.kube.client import Client, Object
from ebbtide.kube.reflector import Reflector
from ebbtide.kube.resources import PERSISTENT_VOLUMES, PODS, STATEFUL_SETS
from ebbtide.kube.store import Store
from reconciler.engine.beside import running
from reconciler.engine.context import sockets
from reconciler.scaler.pods import worker_pod
from reconciler.scaler.shared.controller import Shared
from tests.controlplane.processes import free_port
from tests.controlplane.world import World, wait_until
from tests.doubles.worker import CLUSTER, Worker
from tests.reconciler.scaler.shared.program import Beside, Surroundings, assemble

TEMPLATE: Final = "tikv-api"
POOL: Final = "ldw-shared"
_CLAIMS: Final = ("data", "worker0")


class Basis:
    """What pools of a world stand on. `workers` are the doubles by address of their pod."""

    def __init__(self, world: World) -> None:
        self.name = "workers of the pool"
        self.port = free_port()
        self.workers: dict[str, Worker] = {}
        self._world = world

    async def run(self) -> None:
        """Has a worker answer at the address of every pod of the pool, once it has one."""
        pods, changed = Store(worker_pod), asyncio.Event()
        pods.subscribe(lambda _old, _new: changed.set())
        namespace = self._world.namespace
        watch = Reflector(self._world.client, PODS, pods, namespace=namespace, label_selector=f"app={POOL}")
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(running((watch,)))
            while True:
                await changed.wait()
                changed.clear()
                for address in {pod.ip for pod in pods.values()} - {"", *self.workers}:
                    worker = await stack.enter_async_context(Worker().listening(address, self.port))
                    self.workers[address] = worker

    async def set_up(self, pods: int) -> None:
        """Nodes, the template, and volumes for so many pods."""
        await self._world.add_nodes("a", 2)
        await self._world.client.create(STATEFUL_SETS, _template(self._world), namespace=self._world.namespace)
        for pod in range(pods):
            for claim in _CLAIMS:
                await self._world.client.create(PERSISTENT_VOLUMES, _volume(self._world, f"{claim}-{POOL}-{pod}"))

    async def tear_down(self) -> None:
        """Volumes are of the cluster, and would outlive the world."""
        for volume in [v async for v in self._world.client.list(PERSISTENT_VOLUMES)]:
            if volume["metadata"]["name"].startswith(self._world.name):
                await self._world.client.delete(PERSISTENT_VOLUMES, volume["metadata"]["name"])

    def settings(self, **keys: Any) -> Settings:
        """Small pods, and some keys of `[worker-scaler]`."""
        scaler: dict[str, Any] = {
            "run": True,
            "namespace": self._world.namespace,
            "worker-port": self.port,
            "worker-address": "pod-ip",
            "cluster-id": CLUSTER,
            "shared-pool-enabled": True,
            "shared-sts-config": {"request-cpu": 0.1, "limit-cpu": 1, "request-memory": 0.1, "storage-size-gb": 1},
        }
        given = {key.replace("_", "-"): value for key, value in keys.items()}
        return Settings.model_validate({"worker-scaler": {**scaler, **given}, "certs": {"mode": "files"}})


@asynccontextmanager
async def basis(world: World, pods: int) -> AsyncIterator[Basis]:
    """Everything but the pool's own process, for at most so many pods."""
    around = Basis(world)
    await around.set_up(pods)
    try:
        async with running((around,)):
            yield around
    finally:
        await around.tear_down()


@asynccontextmanager
async def pool(world: World, rules: Settings, identity: str) -> AsyncIterator[tuple[Shared, Client]]:
    """One process's pool; its end is sudden."""
    async with Client(world.access(), field_manager=vocabulary.FIELD_MANAGER_RECONCILER, user_agent=identity) as client:
        around = Surroundings(sockets, SystemClock(), identity)
        program = assemble(client, rules, around, CollectorRegistry())
        async with running((*program.beside, Beside("pool", program.pool.run))):
            yield program.pool, client


async def usable(shared: Shared, pods: int) -> None:
    """Waits until that many pods take tasks."""

    async def are() -> bool:
        return not shared.discovered and len(shared.facts().usable) >= pods

    await wait_until(are, f"{pods} pods are usable")


def _template(world: World) -> Object:
    """What the pool's pods are made after."""
    body = world.template(TEMPLATE)
    container = body["spec"]["containers"][0]
    container |= {"env": [{"name": "A", "value": "b"}], "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    amount = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}
    return {
        "metadata": {"name": TEMPLATE},
        "spec": {
            "replicas": 0,
            "serviceName": TEMPLATE,
            "selector": {"matchLabels": {"app": TEMPLATE}},
            "template": body,
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": amount}],
        },
    }


def _volume(world: World, claim: str) -> Object:
    """A volume for that claim of the pool, ready made."""
    return {
        "metadata": {"name": f"{world.name}-{claim}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/nowhere"},
            "claimRef": {"namespace": world.namespace, "name": claim},
        },
    }
