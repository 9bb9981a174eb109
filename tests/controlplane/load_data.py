"""A place for load-data workers on a control plane: the template, volumes as clouds make them, a worker in every pod.

The scaler that works here may do what the chart grants to it, and nothing else.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import aiohttp

from ebbtide import vocabulary
from ebbtide.kube.errors import NotFound
from ebbtide.kube.reflector import Reflector
from ebbtide.kube.resources import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from ebbtide.kube.store import Store
from reconciler.scaler.pods import WorkerPod, worker_pod
from tests.controlplane import accounts
from tests.controlplane.processes import free_port
from tests.controlplane.program import Process, configuration, process, settled
from tests.controlplane.proxy import FaultProxy
from tests.controlplane.world import Object, World
from tests.doubles.client import Client
from tests.doubles.worker import CLUSTER, Worker

HOST: Final = "127.0.0.1"
POOL: Final = "ldw-shared"
TEMPLATE: Final = "tikv-api"
STORAGE_CLASSES: Final = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
# Set by the scheduler on the claims of a pod that it has found a node for.
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
# Between two tries of a client; the real one waits for three seconds.
PAUSE: Final = 0.25


class Crew:
    """A worker listens in every pod of a pool and of the template, at the pod's own address, for as long as the pod
    lives.

    `workers` are those of pods that live, by the pod's name. They go on listing tasks that have ended.
    """

    def __init__(self, cluster: World, port: int) -> None:
        self.workers: dict[str, Worker] = {}
        self.pods: Store[WorkerPod] = Store(worker_pod)
        self._reflector = Reflector(cluster.client, PODS, self.pods, namespace=cluster.namespace)
        self._port = port
        self._gone: dict[str, asyncio.Event] = {}
        self._addresses: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self.pods.subscribe(lambda old, new: self._changed(group, old, new))
            group.create_task(self._reflector.run())

    def pod(self, name: str) -> WorkerPod | None:
        return next((pod for pod in self.pods.values() if pod.name == name), None)

    def of(self, pool: str) -> list[WorkerPod]:
        return [pod for pod in self.pods.values() if pod.pool == pool]

    def _changed(self, group: asyncio.TaskGroup, old: WorkerPod | None, new: WorkerPod | None) -> None:
        if old is not None and (new is None or new.uid != old.uid) and (gone := self._gone.pop(old.uid, None)):
            gone.set()
        works = new is not None and (new.pool or new.set_name == TEMPLATE)
        if new is not None and works and new.ip and new.uid not in self._gone:
            self._gone[new.uid] = asyncio.Event()
            group.create_task(self._live(new, self._gone[new.uid]))

    async def _live(self, pod: WorkerPod, gone: asyncio.Event) -> None:
        """Addresses are given out anew: the next worker there waits for the end of this one."""
        async with self._addresses[pod.ip]:
            worker = Worker()
            async with worker.listening(pod.ip, self._port):
                self.workers[pod.name] = worker
                await gone.wait()
            if self.workers.get(pod.name) is worker:
                del self.workers[pod.name]


@dataclass(frozen=True)
class Claim:
    """What is asked for, and the node that it is asked for on."""

    name: str
    uid: str
    resource_version: int = field(compare=False)
    node: str
    volume: str
    amount: str

    @property
    def key(self) -> str:
        return self.name


def _claim(raw: Mapping[str, Any]) -> Claim:
    metadata, spec = raw["metadata"], raw["spec"]
    return Claim(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=int(metadata["resourceVersion"]),
        node=metadata.get("annotations", {}).get(_SELECTED_NODE, ""),
        volume=spec.get("volumeName", ""),
        amount=spec["resources"]["requests"]["storage"],
    )


class Disks:
    """Volumes as a cloud's driver makes them: in the zone of the node that the pod was given, gone with their claim."""

    def __init__(self, cluster: World) -> None:
        self.claims: Store[Claim] = Store(_claim)
        self.made: dict[str, str] = {}
        self._cluster = cluster
        self._reflector = Reflector(cluster.client, PERSISTENT_VOLUME_CLAIMS, self.claims, namespace=cluster.namespace)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self.claims.subscribe(lambda old, new: self._changed(group, old, new))
            group.create_task(self._reflector.run())

    def zone(self, claim: str) -> str:
        """Where the volume of that claim is, "" for none."""
        found = self.claims.get(claim)
        return "" if found is None else self.made.get(found.uid, "")

    async def clear(self) -> None:
        """Takes away what was made."""
        for uid in list(self.made):
            await self._unmake(uid)

    def _changed(self, group: asyncio.TaskGroup, old: Claim | None, new: Claim | None) -> None:
        if old is not None and old.uid in self.made and (new is None or new.uid != old.uid):
            group.create_task(self._unmake(old.uid))
        if new is not None and new.node and not new.volume and new.uid not in self.made:
            self.made[new.uid] = ""
            group.create_task(self._make(new))

    async def _make(self, claim: Claim) -> None:
        node = await self._cluster.client.get(NODES, claim.node)
        zone = self.made[claim.uid] = node["metadata"]["labels"][vocabulary.ZONE_LABEL]
        there = {"key": vocabulary.ZONE_LABEL, "operator": "In", "values": [zone]}
        spec = {
            "capacity": {"storage": claim.amount},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": f"/{claim.uid}"},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": self._cluster.name,
            "claimRef": {"namespace": self._cluster.namespace, "name": claim.name, "uid": claim.uid},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [there]}]}},
        }
        await self._cluster.client.create(PERSISTENT_VOLUMES, {"metadata": {"name": _volume(claim.uid)}, "spec": spec})

    async def _unmake(self, uid: str) -> None:
        del self.made[uid]
        with suppress(NotFound):
            await self._cluster.client.delete(PERSISTENT_VOLUMES, _volume(uid))


def _volume(claim_uid: str) -> str:
    return f"pvc-{claim_uid}"


class Site:
    """One world's namespace with all that. `port` is where the front listens, `worker_port` where workers do."""

    def __init__(self, cluster: World, proxy: FaultProxy, session: aiohttp.ClientSession) -> None:
        self.cluster = cluster
        self.proxy = proxy
        self.session = session
        self.port, self.worker_port = free_port(), free_port()
        self.crew = Crew(cluster, self.worker_port)
        self.disks = Disks(cluster)

    # --- the scaler ----------------------------------------------------------------------------------------------

    def text(self, *, port: int = 0, **changed: object) -> str:
        """The configuration; `changed` are keys of the scaler's section, with underscores."""
        url = f"{HOST}:{port or self.port}"
        keys: dict[str, object] = {
            "run": True,
            "namespace": self.cluster.namespace,
            "listen": url,
            "advertise-url": f"http://{url}",
            "cluster-id": CLUSTER,
            "worker-address": "pod-ip",
            "worker-port": self.worker_port,
            "refresh-interval": "500ms",
            "expire-seconds": 2,
            # A client may be late on a busy machine.
            "reservation-seconds": 10,
            "shared-pool-enabled": True,
            "shared-idle-pod-expire-sec": 2,
            "shared-ended-task-grace-sec": 1,
        }
        keys |= {key.replace("_", "-"): value for key, value in changed.items()}
        return configuration(self.cluster, worker_scaler=keys, certs={"mode": "files"})

    async def token(self, folder: Path, text: str) -> str:
        """Of the reconciler's account in the chart, with that configuration."""
        return await accounts.token(self.cluster, "reconciler", settled(folder, text))

    @asynccontextmanager
    async def scaling(self, folder: Path, text: str) -> AsyncIterator[str]:
        """One reconciler, killed in the end; gives the URL of its metrics."""
        async with self.process(folder, text, await self.token(folder, text)) as running:
            yield await running.serving()

    def process(
        self, folder: Path, text: str, token: str, proxy: FaultProxy | None = None
    ) -> AbstractAsyncContextManager[Process]:
        """A reconciler by way of the proxy."""
        return process(folder, self.cluster, proxy or self.proxy, text, token=token)

    async def work_locally(self, pods: int) -> None:
        """The template's own pods: their workers listen when this returns. They stay for as long as the site."""
        change = {"spec": {"replicas": pods}}
        await self.cluster.client.patch_merge(STATEFUL_SETS, TEMPLATE, change, namespace=self.cluster.namespace)

        async def listening() -> bool:
            return {f"{TEMPLATE}-{number}" for number in range(pods)} <= self.crew.workers.keys()

        await self.cluster.wait_until(listening, f"{pods} local workers listen")

    # --- clients -------------------------------------------------------------------------------------------------

    def client(self, task: str, size: int, port: int = 0) -> Client:
        front = f"http://{HOST}:{port or self.port}"
        return Client(self.session, front, task, CLUSTER, size, pause=PAUSE)

    async def ask(self, method: str, port: int = 0, **query: object) -> tuple[int, str, Mapping[str, str]]:
        """One request to the front, not followed: status, text and headers."""
        url = f"http://{HOST}:{port or self.port}/load_data"
        params = {"cluster_id": str(CLUSTER)} | {key: str(value) for key, value in query.items()}
        async with self.session.request(method, url, params=params, allow_redirects=False) as answer:
            return answer.status, await answer.text(), answer.headers.copy()

    # --- what there is -------------------------------------------------------------------------------------------

    async def named(self, kind: Resource) -> dict[str, Object]:
        """The workers' objects of a kind, by name."""
        listed, _ = await self.cluster.client.list_all(kind, namespace=self.cluster.namespace)
        return {raw["metadata"]["name"]: raw for raw in listed if raw["metadata"]["name"] != TEMPLATE}

    async def left(self) -> dict[str, object]:
        """What there is beside an empty pool and the template: its set and Service stay for the next task."""
        sets, services = await self.named(STATEFUL_SETS), await self.named(SERVICES)
        replicas = sets.pop(POOL)["spec"]["replicas"] if POOL in sets else 0
        services.pop(POOL, None)
        local = {claim for pod in self.crew.pods.values() if pod.set_name == TEMPLATE for claim in pod.claims}
        claims = [claim.name for claim in self.disks.claims.values() if claim.name not in local]
        pods = [pod.name for pod in self.crew.pods.values() if pod.pool]
        found = {"replicas": replicas, "sets": [*sets], "services": [*services], "claims": claims, "pods": pods}
        return {what: which for what, which in found.items() if which}

    async def nothing_left(self) -> None:
        async def so() -> bool:
            return not await self.left()

        try:
            await self.cluster.wait_until(so, "nothing is left")
        except AssertionError as error:
            raise AssertionError(f"{error}: {await self.left()}") from None

    def refused(self) -> list[str]:
        """Requests of the scaler that the server has forbidden."""
        return [f"{seen.method} {seen.path}" for seen in self.proxy.requests if seen.status == HTTPStatus.FORBIDDEN]


@asynccontextmanager
async def site(cluster: World, proxy: FaultProxy) -> AsyncIterator[Site]:
    """A site, with its template, without nodes."""
    connector = aiohttp.TCPConnector(limit=0)
    storage = {"provisioner": "tests.ebbtide/disks", "volumeBindingMode": "WaitForFirstConsumer"}
    await cluster.client.create(STORAGE_CLASSES, {"metadata": {"name": cluster.name}, **storage})
    async with aiohttp.ClientSession(connector=connector) as session:
        made = Site(cluster, proxy, session)
        await cluster.client.create(STATEFUL_SETS, _template(cluster), namespace=cluster.namespace)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each.run()) for each in (made.crew, made.disks)]
            try:
                yield made
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                await made.disks.clear()
                await cluster.client.delete(STORAGE_CLASSES, cluster.name)


def _template(cluster: World) -> Object:
    """The StatefulSet that workers are made after, without a pod of its own."""
    pod = cluster.template(TEMPLATE)
    mounted = {"env": [{"name": "A", "value": "b"}], "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    probe = {"livenessProbe": {"tcpSocket": {"port": 1}}}
    pod["spec"]["containers"][0] |= mounted | probe
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": cluster.name,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    spec = {
        "replicas": 0,
        "serviceName": TEMPLATE,
        "selector": {"matchLabels": {"app": TEMPLATE}},
        "template": pod,
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }
    return {"metadata": {"name": TEMPLATE}, "spec": spec}
