"""Workers come and go with the containers of pods, and are reached at the pods' addresses and names."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest

from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.deletion import Deletion
from ebbtide.sim.kinds import NODES, PODS
from ebbtide.sim.loaders.floor import PORT, Floor
from ebbtide.sim.loaders.worker import LoadWorker
from ebbtide.sim.storage import STATUS
from ebbtide.sim.stored import Object

NAMESPACE = "loads"
TASK = "1-26-6-0"


class Hall:
    """A cluster, its floor, and a way to ask."""

    def __init__(self, cluster: Cluster, floor: Floor[LoadWorker], session: aiohttp.ClientSession) -> None:
        self.cluster = cluster
        self.floor = floor
        self._session = session
        self.gone: list[tuple[str, int]] = []
        floor.on_gone = lambda pod, worker: self.gone.append((pod, worker.running))

    async def until(self, holds: Callable[[], object]) -> None:
        """Changes reach those who follow the pods a turn of the loop later."""
        for _ in range(100):
            if holds():
                return
            await asyncio.sleep(0)
        raise TimeoutError("not so after a hundred turns")

    async def runs(self, name: str, address: str, began: str = "2026-01-01T00:00:00Z", **spec: str) -> None:
        """A pod whose container runs."""
        body = objects.changed(objects.pod(name, namespace=NAMESPACE, node="n"), {"spec": spec})
        self.cluster.create(body)
        self.status(name, address, began)
        await self.until(lambda: name in self.floor.workers)

    def status(self, name: str, address: str, began: str) -> None:
        running = {"name": "main", "state": {"running": {"startedAt": began}}}
        status = {"phase": "Running", "podIP": address, "containerStatuses": [running]}

        def changed(body: Object) -> Object:
            return {**body, "status": {**body["status"], **status}}

        self.cluster.storage.modify(PODS, name, NAMESPACE, changed, STATUS)

    async def listed(self, host: str) -> list[str]:
        """The ids of the tasks that a worker lists."""
        async with self._session.get(f"http://{host}:{PORT}/load_data?cluster_id=7") as answer:
            return [entry["task-id"] for entry in await answer.json()]


@pytest.fixture
async def hall() -> AsyncIterator[Hall]:
    async with Cluster() as cluster:
        cluster.create(objects.namespace(NAMESPACE), objects.node("n"))
        floor = Floor(cluster.storage, NAMESPACE, lambda _pod: LoadWorker())
        async with aiohttp.ClientSession(connector=floor.network.connector()) as session:
            yield Hall(cluster, floor, session)
        await floor.close()


async def test_a_worker_answers_at_its_pods_address_and_names(hall: Hall) -> None:
    await hall.runs("w-0", "10.0.0.1", hostname="w-0", subdomain="w")
    hall.floor.workers["w-0"].begin(TASK)
    for host in ("10.0.0.1", f"w.{NAMESPACE}.svc.cluster.local", f"w-0.w.{NAMESPACE}.svc.cluster.local"):
        assert await hall.listed(host) == [TASK]
    assert hall.floor.pod_at("10.0.0.1") == "w-0"
    assert hall.floor.pod_at("10.0.0.2") == ""


async def test_a_name_of_no_pod_leads_nowhere(hall: Hall) -> None:
    with pytest.raises(aiohttp.ClientConnectorError) as refused:
        await hall.listed(f"w.{NAMESPACE}.svc.cluster.local")
    assert isinstance(refused.value.os_error, socket.gaierror)


async def test_a_container_that_begins_anew_is_another_worker(hall: Hall) -> None:
    """It knows nothing of what the one before ran, and that one is told of with its tasks."""
    await hall.runs("w-0", "10.0.0.1")
    hall.floor.workers["w-0"].begin(TASK)
    hall.status("w-0", "10.0.0.1", "2026-01-01T00:00:09Z")
    await hall.until(lambda: hall.gone)
    assert await hall.listed("10.0.0.1") == []
    assert hall.gone == [("w-0", 1)]


async def test_a_pod_that_is_gone_refuses_connections(hall: Hall) -> None:
    await hall.runs("w-0", "10.0.0.1")
    hall.cluster.storage.delete(PODS, "w-0", NAMESPACE, Deletion(grace_seconds=0))
    await hall.until(lambda: hall.gone)
    with pytest.raises(aiohttp.ClientConnectorError):
        await hall.listed("10.0.0.1")
    assert hall.gone == [("w-0", 0)]


async def test_a_worker_goes_with_its_machine(hall: Hall) -> None:
    """Although its pod still says that it runs."""
    await hall.runs("w-0", "10.0.0.1")
    hall.floor.workers["w-0"].begin(TASK)
    hall.cluster.storage.delete(NODES, "n")
    await hall.until(lambda: hall.gone)
    assert hall.gone == [("w-0", 1)]
    assert hall.cluster.storage.peek(PODS, "w-0", NAMESPACE) is not None
