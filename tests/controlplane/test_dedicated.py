"""Dedicated workers on a real control plane: what is made, how many, and that nothing of them stays."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ebbtide.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, SERVICES, STATEFUL_SETS, Resource
from tests.controlplane.processes import free_port
from tests.controlplane.program import configuration, process
from tests.controlplane.proxy import FaultProxy
from tests.controlplane.test_chart_workers import template, workers
from tests.controlplane.world import World
from tests.doubles.client import Client
from tests.doubles.worker import CLUSTER

pytestmark = pytest.mark.controlplane

LARGE = 3 << 30
LIMIT = 4
TASK = "1-1701753296955293956-139-0"
NAME = f"load-data-worker-{TASK}"


@pytest.fixture
async def volumes(cluster: World) -> AsyncIterator[None]:
    """What claims are bound to, two for each worker."""
    names = [f"{cluster.name}-{number}" for number in range(2 * LIMIT)]
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


def settings(cluster: World, port: int, **changed: object) -> str:
    keys = {
        "run": True,
        "namespace": cluster.namespace,
        "listen": f"127.0.0.1:{port}",
        "advertise-url": f"http://127.0.0.1:{port}",
        "cluster-id": CLUSTER,
        "worker-address": "pod-ip",
        "refresh-interval": "1s",
        "expire-seconds": 3,
        "reservation-seconds": 3,
        "worker-count-limit": LIMIT,
        **changed,
    }
    return configuration(cluster, worker_scaler=keys, certs={"mode": "files"})


async def named(cluster: World, kind: Resource) -> dict[str, dict[str, Any]]:
    """What there is of a kind beside the template."""
    listed, _ = await cluster.client.list_all(kind, namespace=cluster.namespace)
    return {raw["metadata"]["name"]: raw for raw in listed if raw["metadata"]["name"] != "tikv-api"}


async def nothing_left(cluster: World) -> None:
    async def so() -> bool:
        return not any([await named(cluster, kind) for kind in (STATEFUL_SETS, SERVICES, PERSISTENT_VOLUME_CLAIMS)])

    await cluster.wait_until(so, "no set, Service or claim is left", seconds=90)


def owners(raw: dict[str, Any]) -> list[str]:
    return [owner["uid"] for owner in raw["metadata"].get("ownerReferences") or ()]


async def test_a_worker_is_made_as_designed_and_nothing_of_it_stays_whoever_is_killed(
    tmp_path: Path, cluster: World, proxy: FaultProxy, volumes: None
) -> None:
    """The first process is killed when the set is there, the second one while the task runs; the third one ends it."""
    await cluster.add_nodes("a", 2)
    await template(cluster)
    port = free_port()
    text = settings(cluster, port)
    async with workers(cluster), aiohttp.ClientSession() as session:
        client = Client(session, f"http://127.0.0.1:{port}", TASK, CLUSTER, LARGE, pause=0.3)
        init = asyncio.ensure_future(client.init())
        async with process(tmp_path, cluster, proxy, text) as first:
            await cluster.wait_until(lambda: named(cluster, STATEFUL_SETS), "the set is there", seconds=60)
            first.kill()
        async with process(tmp_path, cluster, proxy, text) as second:
            await asyncio.wait_for(init, 90)
            made = (await named(cluster, STATEFUL_SETS))[NAME]
            claims = await named(cluster, PERSISTENT_VOLUME_CLAIMS)
            services = await named(cluster, SERVICES)
            second.kill()
        assert made["metadata"]["annotations"]["ebbtide/task-id"] == TASK
        assert made["spec"]["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Delete", "whenScaled": "Delete"}
        assert made["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "2", "memory": "8Gi"}
        assert {*claims} == {f"data-{NAME}-0", f"worker0-{NAME}-0"}
        assert all(owners(raw) == [made["metadata"]["uid"]] for raw in (*claims.values(), services[NAME]))
        assert services[NAME]["spec"]["clusterIP"] == "None"
        async with process(tmp_path, cluster, proxy, text):
            await client.restart()
            assert (await client.load([b"rows"]))["finished"]
            await nothing_left(cluster)


async def test_ws_24_exactly_the_limit_is_admitted(
    tmp_path: Path, cluster: World, proxy: FaultProxy, volumes: None
) -> None:
    """Ten times as many clients as workers may be, all at once."""
    await cluster.add_nodes("a", 2)
    await template(cluster)
    port = free_port()
    text = settings(cluster, port, **{"expire-seconds": 600})

    async def ask(session: aiohttp.ClientSession, number: int) -> int:
        query = f"cluster_id={CLUSTER}&task_id=1-170-{number}-0&start_ts=1&commit_ts=2&data_size={LARGE}"
        url = f"http://127.0.0.1:{port}/load_data?{query}"
        async with session.post(url, allow_redirects=False) as answer:
            return answer.status

    async with workers(cluster), process(tmp_path, cluster, proxy, text) as running, aiohttp.ClientSession() as session:
        await running.serving()
        probe = Client(session, f"http://127.0.0.1:{port}", "1-170-0-0", CLUSTER, LARGE, pause=0.3)
        await asyncio.wait_for(probe.init(), 60)
        statuses = await asyncio.gather(*(ask(session, number) for number in range(10 * LIMIT)))
        assert Counter(statuses) == {302: LIMIT, 503: 9 * LIMIT}
        assert len(await named(cluster, STATEFUL_SETS)) == LIMIT
