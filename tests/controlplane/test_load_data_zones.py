"""Load-data workers, the webhook and a blocked zone together: where new workers stand, and who may be evicted."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ebbtide import vocabulary
from ebbtide.kube.errors import BudgetRefused
from ebbtide.kube.resources import PODS
from tests.controlplane.expectations import all_prevented
from tests.controlplane.load_data import Site, site
from tests.controlplane.program import scrape
from tests.controlplane.proxy import FaultProxy
from tests.controlplane.webhook import Running, registered, webhook
from tests.controlplane.world import World, is_ready
from tests.doubles.worker import Worker

pytestmark = pytest.mark.controlplane

LARGE = 3 << 30
# A signal of that age alone blocks its zone.
OLD = "1700000000"


@pytest.fixture
async def workers(cluster: World, proxy: FaultProxy) -> AsyncIterator[Site]:
    async with site(cluster, proxy) as made:
        yield made


async def test_new_workers_avoid_a_blocked_zone_and_nobody_takes_a_busy_one_away(tmp_path: Path, workers: Site) -> None:
    """Two workers stand in a zone when it is blocked: they finish there, and all others start elsewhere."""
    cluster = workers.cluster
    [in_a] = await cluster.add_nodes("a", 1)
    # One task a pod; pods that are idle stay for as long as this takes.
    text = workers.text(shared_scale_up_tasks_per_pod=1, shared_max_tasks_per_pod=1, shared_idle_pod_expire_sec=600)
    async with (
        webhook(cluster, tmp_path) as running,
        registered(cluster, running),
        workers.scaling(tmp_path, text) as url,
    ):
        await workers.client("1-170-1-0", 1).init()
        await workers.client("1-170-2-0", LARGE).init()
        old = await pod_of(workers, "1-170-1-0"), await pod_of(workers, "1-170-2-0")
        await cluster.add_nodes("b", 1)
        await cluster.signal(in_a, value=OLD)
        await all_prevented(cluster, [in_a])
        await told(cluster, running)

        await workers.client("1-170-3-0", 1).init()
        await workers.client("1-170-4-0", LARGE).init()
        shared, own = await pod_of(workers, "1-170-3-0"), await pod_of(workers, "1-170-4-0")
        assert {await stands(workers, pod) for pod in (shared, own)} == {("b", "a", cluster.group)}
        assert {workers.disks.zone(claim) for claim in claims(shared) + claims(own)} == {"b"}
        assert (pool(shared), pool(own)) == (vocabulary.POOL_SHARED, vocabulary.POOL_DEDICATED)
        for pod in (*old, shared, own):
            with pytest.raises(BudgetRefused):
                await evict(workers, pod)

        async def asked_in_vain() -> bool:
            refused = (await scrape(url)).value("noderebalance_evictions_total", node_zone="a", result="budget")
            return (refused or 0) >= len(old)

        await cluster.wait_until(asked_in_vain, "the busy workers in the blocked zone are asked for")
        assert [(await pod_named(workers, name(pod)))["metadata"]["uid"] for pod in old] == [uid(pod) for pod in old]

        end(workers, "1-170-1-0")
        replaced = await replacement(workers, old[0])
        assert await stands(workers, replaced) == ("b", "a", cluster.group)
        assert {workers.disks.zone(claim) for claim in claims(replaced)} == {"b"}
        await evict(workers, replaced)
        assert uid(await replacement(workers, replaced)) != uid(replaced)
    assert workers.refused() == []


async def told(cluster: World, running: Running) -> None:
    """The webhook knows of the block."""

    async def so() -> bool:
        return (await scrape(running.health)).value("webhook_blocked_zones", node_group=cluster.group) == 1

    await cluster.wait_until(so, "the webhook keeps pods out of zone a")


async def pod_named(workers: Site, name: str) -> dict[str, Any]:
    return await workers.cluster.client.get(PODS, name, namespace=workers.cluster.namespace)


async def pod_of(workers: Site, task: str) -> dict[str, Any]:
    """The pod whose worker has the task."""
    [found] = [name for name, worker in workers.crew.workers.items() if task in map(str, worker.tasks)]
    return await pod_named(workers, found)


async def replacement(workers: Site, pod: dict[str, Any]) -> dict[str, Any]:
    """The next pod of that name, once it is Ready."""

    async def there() -> dict[str, Any] | None:
        listed, _ = await workers.cluster.client.list_all(PODS, namespace=workers.cluster.namespace)
        return next(
            (each for each in listed if name(each) == name(pod) and uid(each) != uid(pod) and is_ready(each)), None
        )

    found = await workers.cluster.wait_until(there, f"{name(pod)} is made anew")
    assert found is not None
    return found


async def stands(workers: Site, pod: dict[str, Any]) -> tuple[str, str, str]:
    """Its zone, the zones that the webhook keeps it out of, and the node group that it is pinned to."""
    metadata = pod["metadata"]
    avoided = metadata["annotations"][vocabulary.BLOCKED_ZONES_ANNOTATION]
    return await workers.cluster.zone_of(pod), avoided, metadata["labels"][vocabulary.NODE_GROUP_PIN_LABEL]


async def evict(workers: Site, pod: dict[str, Any]) -> None:
    await workers.cluster.client.evict(name(pod), namespace=workers.cluster.namespace, uid=uid(pod))


def end(workers: Site, task: str) -> None:
    worker: Worker = next(each for each in workers.crew.workers.values() if task in map(str, each.tasks))
    worker.finish(task)
    worker.lose(task)


def claims(pod: dict[str, Any]) -> list[str]:
    sources = (volume.get("persistentVolumeClaim") for volume in pod["spec"]["volumes"])
    return [source["claimName"] for source in sources if source]


def pool(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"][vocabulary.POOL_LABEL])


def name(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["name"])


def uid(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["uid"])
