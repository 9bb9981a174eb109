"""Load-data workers with the permissions of the chart: made, used, marked, and taken away again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ebbtide import vocabulary
from ebbtide.kube.resources import PERSISTENT_VOLUMES, PODS, STATEFUL_SETS
from tests.controlplane.expectations import all_in_zone
from tests.controlplane.installation import HOST, Release
from tests.controlplane.processes import free_port
from tests.controlplane.test_chart import FIRST_LISTS, refused, used
from tests.controlplane.world import POLL_INTERVAL, World
from tests.doubles.client import Client
from tests.doubles.worker import CLUSTER, Worker

pytestmark = pytest.mark.controlplane

PORT = 19500
# Enough volumes for the workers of this test, each large enough for any of them.
VOLUMES = 4
LARGE = 3 << 30
SCALER: dict[str, Any] = {
    "run": True,
    "shared-pool-enabled": True,
    "cluster-id": CLUSTER,
    "worker-address": "pod-ip",
    "worker-port": PORT,
    "refresh-interval": "1s",
    "expire-seconds": 2,
    "shared-idle-pod-expire-sec": 2,
    "shared-ended-task-grace-sec": 1,
    "shared-sts-config": {"storage-size-gb": 1, "request-memory": 1, "limit-memory": 1},
}


# What is granted and was not needed here, and when it is.
UNUSED = {
    ("create", "poddisruptionbudgets"): "asked for by the server beside patch, for an apply that creates",
    ("delete", "persistentvolumeclaims"): "volumes of a worker whose set is gone, after some minutes",
    ("delete", "pods"): "waiting pods that are to be admitted again; idle workers whose volumes lie in a blocked zone",
    ("get", "nodes"): "a node that somebody else has written meanwhile",
    ("get", "pods"): "a worker that is looked at once more before it is taken away",
    ("get", "services"): "a Service of that name that is there already",
    ("update", "secrets"): "the certificate is renewed, or its CA replaced",
    ("update", "leases"): "a Lease that has just been made",
}


@pytest.fixture
async def release(cluster: World, tmp_path: Path) -> AsyncIterator[Release]:
    made = Release(cluster, tmp_path)
    async with made.home():
        yield made


@pytest.fixture
async def volumes(cluster: World) -> AsyncIterator[None]:
    """What claims of the workers are bound to; nobody makes volumes here."""
    names = [f"{cluster.name}-{number}" for number in range(VOLUMES)]
    for name in names:
        spec = {
            "capacity": {"storage": "1Ti"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": f"/{name}"},
            "persistentVolumeReclaimPolicy": "Retain",
        }
        await cluster.client.create(PERSISTENT_VOLUMES, {"metadata": {"name": name}, "spec": spec})
    yield
    for name in names:
        await cluster.client.delete(PERSISTENT_VOLUMES, name)


async def template(cluster: World) -> None:
    """The StatefulSet that workers are made after, without a pod of its own."""
    pod = cluster.template("tikv-api")
    mounted = {"env": [{"name": "A", "value": "b"}], "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    pod["spec"]["containers"][0] |= mounted
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {
        "replicas": 0,
        "serviceName": "tikv-api",
        "selector": {"matchLabels": {"app": "tikv-api"}},
        "template": pod,
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }
    body = {"metadata": {"name": "tikv-api"}, "spec": spec}
    await cluster.client.create(STATEFUL_SETS, body, namespace=cluster.namespace)


@asynccontextmanager
async def workers(cluster: World) -> AsyncIterator[None]:
    """In every pod of a pool that runs there is a worker."""
    async with AsyncExitStack() as stack:
        task = asyncio.ensure_future(_man(cluster, stack))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _man(cluster: World, stack: AsyncExitStack) -> None:
    manned = set[str]()
    while True:
        listed, _ = await cluster.client.list_all(
            PODS, namespace=cluster.namespace, label_selector=vocabulary.POOL_LABEL
        )
        for address in {pod["status"].get("podIP", "") for pod in listed} - manned - {""}:
            await stack.enter_async_context(Worker().listening(address, PORT))
            manned.add(address)
        await asyncio.sleep(POLL_INTERVAL)


async def test_workers_come_and_go_and_nothing_is_forbidden(release: Release, cluster: World, volumes: None) -> None:
    """A small task goes to the shared pool, a large one to a worker of its own; both end, and so do the workers."""
    await cluster.add_nodes("a", 2)
    await template(cluster)
    await release.install(config={"worker-scaler": SCALER})
    port = free_port()
    environ = {"EBBTIDE__WORKER_SCALER__LISTEN": f"{HOST}:{port}"}
    async with workers(cluster), release.running("reconciler", 0, **environ) as reconciler:
        await release.ready(reconciler)
        async with aiohttp.ClientSession() as session:
            for number, size in enumerate((1, LARGE), start=1):
                client = Client(session, f"http://{HOST}:{port}", f"1-170-{number}-0", CLUSTER, size, pause=0.5)
                await client.run()

        async def only_the_template() -> bool:
            listed, _ = await cluster.client.list_all(STATEFUL_SETS, namespace=cluster.namespace)
            return {each["metadata"]["name"]: each["spec"]["replicas"] for each in listed} == {
                "tikv-api": 0,
                "ldw-shared": 0,
            }

        await cluster.wait_until(only_the_template, "the workers are gone", seconds=60)
        await _leave_a_zone(cluster)
        assert await refused(reconciler) == set()
        unused = await release.granted("reconciler") - await used(reconciler)
        assert {each for each in unused if each[0] != "list"} <= UNUSED.keys(), FIRST_LISTS
    await release.uninstall()


async def _leave_a_zone(cluster: World) -> None:
    """What is there for everybody else: a zone is blocked, and the pod on its signalled node goes elsewhere."""
    await cluster.deployment("other", 1)
    (pod,) = await cluster.ready_pods("other", 1)
    await cluster.add_nodes("b", 1)
    await cluster.signal(pod["spec"]["nodeName"], value="1700000000")
    await all_in_zone(cluster, "other", 1, "b")
