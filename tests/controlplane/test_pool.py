"""The shared pool on a real control plane, with worker doubles at the addresses of its pods."""

import asyncio
from collections import Counter
from random import Random
from urllib.parse import urlsplit

import pytest

from ebbtide.kube.errors import NotFound
from ebbtide.kube.resources import CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, STATEFUL_SETS
from reconciler.scaler.pool import Arrival, PlacementError
from reconciler.scaler.shared.controller import Shared
from reconciler.scaler.shared.ledger import name_of, read
from reconciler.scaler.task import TaskId
from tests.controlplane.pool import POOL, Basis, basis, pool
from tests.controlplane.world import World, wait_until
from tests.doubles.worker import CLUSTER, Worker

pytestmark = pytest.mark.controlplane

TASKS = 300
# 300 tasks at 16 a pod.
PODS = 19


def task(number: int) -> TaskId:
    return TaskId(1, 170, number, 0)


class Import:
    """The clients: each insists until it has a place, and begins its task there."""

    def __init__(self, around: Basis) -> None:
        self.addresses: dict[int, str] = {}
        self._around = around

    async def begin(self, shared: Shared, number: int, after: float) -> None:
        await asyncio.sleep(after)
        self.addresses[number] = await self.insist(shared, number)
        self.worker(number).begin(str(task(number)))

    async def insist(self, shared: Shared, number: int) -> str:
        while True:
            try:
                return (await shared.place(Arrival(task(number), CLUSTER, 1 << 20))).address
            except PlacementError:
                await asyncio.sleep(0.5)

    def worker(self, number: int) -> Worker:
        return self._around.workers[urlsplit(self.addresses[number]).hostname or ""]

    def end(self, number: int) -> None:
        self.worker(number).finish(str(task(number)))
        self.worker(number).lose(str(task(number)))


async def replicas(cluster: World) -> int:
    try:
        found = await cluster.client.get(STATEFUL_SETS, POOL, namespace=cluster.namespace)
    except NotFound:
        return 0
    return int(found["spec"]["replicas"])


async def test_three_hundred_tasks_in_ten_seconds_and_back_to_nothing(cluster: World) -> None:
    """All get a place that they keep under the next leader; as they end the pool goes, and nothing of it is left."""
    random = Random(1)
    async with basis(cluster, PODS + 1) as around:
        rules = around.settings(
            refresh_interval=1, reservation_seconds=20, shared_idle_pod_expire_sec=3, status_timeout=10
        )
        clients = Import(around)
        async with pool(cluster, rules, "one") as (first, _):
            await asyncio.gather(*(clients.begin(first, n, random.uniform(0, 10)) for n in range(TASKS)))
            assert await replicas(cluster) == PODS
            assert max(Counter(clients.addresses.values()).values()) <= 24
        async with pool(cluster, rules, "two") as (second, _):
            again = await asyncio.gather(*(clients.insist(second, n) for n in range(TASKS)))
            assert dict(enumerate(again)) == clients.addresses
            for number in random.sample(range(TASKS), TASKS):
                await asyncio.sleep(0.02)
                clients.end(number)

            async def gone() -> bool:
                claims = cluster.client.list(PERSISTENT_VOLUME_CLAIMS, namespace=cluster.namespace)
                left = [claim async for claim in claims]
                return not (await replicas(cluster) or await cluster.pods(POOL) or left)

            await wait_until(gone, "no pod and no claim is left", seconds=120)
            stored = await cluster.client.get(CONFIG_MAPS, name_of(POOL), namespace=cluster.namespace)
            assert read(stored["data"]).entries == {}
