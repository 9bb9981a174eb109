"""Tasks on pods of the template itself, beside all others: they keep their places, and `ebbtide explain` knows why."""

import asyncio
from collections.abc import AsyncIterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Final

import pytest

from reconciler.sources import from_reconciler
from tests.controlplane.command import ebbtide
from tests.controlplane.load_data import POOL, TEMPLATE, Site, site
from tests.controlplane.program import kill_leader
from tests.controlplane.proxy import FaultProxy
from tests.controlplane.world import PATIENCE, World
from tests.doubles.client import Client

pytestmark = pytest.mark.controlplane

MIB: Final = 1 << 20
# Of a size whose workers stand on nodes of their own, which there are none of.
HUGE: Final = 500 << 30
OWN_NODES: Final = "dedicated"
LOCAL: Final = f"{TEMPLATE}-0"
# What the page says an explanation needs: in the namespace of the workers, and in the reconciler's.
READS: Final = [
    {"apiGroups": [group], "resources": resources, "verbs": [verb]}
    for group, resources, verb in (
        ("", ["pods", "configmaps"], "list"),
        ("apps", ["statefulsets"], "list"),
        ("events.k8s.io", ["events"], "list"),
        ("coordination.k8s.io", ["leases"], "get"),
    )
]


@pytest.fixture
async def workers(cluster: World, proxy: FaultProxy) -> AsyncIterator[Site]:
    async with site(cluster, proxy) as made:
        yield made


class Asking:
    """`ebbtide explain task`, as somebody who may read what it needs and nothing else."""

    def __init__(self, folder: Path, workers: Site, token: str) -> None:
        self._folder, self._workers, self._token = folder, workers, token

    async def explained(self, *clients: Client, url: str = "") -> list[dict[str, Any]]:
        """About the task of each. `url` is where the leader is: it is no pod, so that the API server knows no way to
        it."""
        return await asyncio.gather(*(self._explained(client, url) for client in clients))

    async def _explained(self, client: Client, url: str) -> dict[str, Any]:
        words = ("explain", "task", client.task, "--output", "json", *(("--url", url) if url else ()))
        where = (self._folder / client.task, self._workers.cluster, self._workers.proxy)
        said = await ebbtide(*where, *words, text=self._workers.text(), token=self._token)
        assert said.code == 0, said.err
        document: dict[str, Any] = said.document
        return document


async def test_local_tasks_stay_when_the_pool_is_switched_on_and_every_task_is_explained(
    tmp_path: Path, workers: Site
) -> None:
    """Small tasks are placed locally until that pod is busy; a leader that has a pool learns of them from it. One is
    asked about that is local, one on the pool, one with a worker of its own, one that waits for its worker's node."""
    cluster = workers.cluster
    await cluster.add_nodes("a", 2)
    await workers.work_locally(1)
    text = workers.text(worker_max_cores=64)
    token = await workers.token(tmp_path, text)
    asking = Asking(tmp_path, workers, await cluster.account("reader", [], inside=READS))
    unsized, small, crowded = (workers.client(f"1-170-{n}-0", size) for n, size in enumerate((0, MIB, MIB)))
    alone = workers.text(worker_max_cores=64, shared_pool_enabled=False, spawn_running_tasks=1)
    async with workers.process(tmp_path / "alone", alone, token) as running:
        for client in (unsized, small, crowded):
            await asyncio.wait_for(client.init(), PATIENCE)
        await kill_leader(running, cluster)
    pod = workers.crew.pod(LOCAL)
    assert pod is not None
    assert {client.base for client in (unsized, small)} == {f"http://{pod.ip}:{workers.worker_port}"}
    assert [str(task) for task in workers.crew.workers[LOCAL].tasks] == [unsized.task, small.task]
    await without_a_leader(asking, small)

    async with workers.process(tmp_path / "pool", text, token) as running:
        url = await running.serving()
        places = {client.task: client.base for client in (unsized, small, crowded)}
        for client in (unsized, small, crowded):
            await asyncio.wait_for(client.restart(), PATIENCE)
        assert {client.task: client.base for client in (unsized, small, crowded)} == places
        pooled, huge = workers.client("1-170-10-0", MIB), workers.client("1-170-11-0", HUGE)
        waiting = asyncio.create_task(huge.init())
        await asyncio.wait_for(pooled.init(), PATIENCE)

        await told(workers, url, running={small.task, pooled.task, crowded.task}, waits=huge)
        of_local, of_pool, of_own, of_waiting = await asking.explained(small, pooled, crowded, huge, url=url)
        assert placed(of_local) == ("running", "local", LOCAL)
        assert placed(of_pool) == ("running", "shared", f"{POOL}-0")
        assert placed(of_own) == ("running", "dedicated", f"load-data-worker-{crowded.task}-0")
        assert of_own["reason"] == f"it is placed dedicated, on load-data-worker-{crowded.task}-0: it runs a task"
        assert placed(of_waiting)[:2] == ("waiting", "dedicated")
        assert "node affinity/selector" in of_waiting["reason"]
        assert [each["facts"]["unknown"] for each in (of_local, of_pool, of_own, of_waiting)] == [[]] * 4

        await cluster.add_nodes("a", 1, group=OWN_NODES)
        await asyncio.wait_for(waiting, PATIENCE)
        clients = (unsized, small, crowded, pooled, huge)
        await asyncio.wait_for(asyncio.gather(*(client.load([b"rows"]) for client in clients)), PATIENCE)
        await workers.nothing_left()
    assert {*workers.crew.workers} == {LOCAL}
    assert workers.refused() == []


async def without_a_leader(asking: Asking, local: Client) -> None:
    """Only its pod and a leader know it, and that is said."""
    [found] = await asking.explained(local)
    assert (found["state"], found["facts"]["place"]) == ("unknown", None)
    [unknown] = found["facts"]["unknown"]
    assert unknown.startswith("which tasks the local pods have, and what workers say of theirs: no reconciler leads")


async def told(workers: Site, url: str, *, running: AbstractSet[str], waits: Client) -> None:
    """The leader has heard of these tasks from their workers, and from the scheduler of the one that waits."""

    async def so() -> bool:
        found = (await from_reconciler(url)).document["workers"]
        states = {each["task"]: each["state"] for each in found["tasks"]}
        troubles = {each["task"]: each["trouble"] for each in found["dedicated"]}
        return troubles.get(waits.task) == "NoCapacity" and all(states.get(each) == "running" for each in running)

    await workers.cluster.wait_until(so, f"{running} run, and {waits.task} waits for a node")


def placed(found: dict[str, Any]) -> tuple[str, str, str]:
    """State, pool and worker."""
    place = found["facts"]["place"]
    return found["state"], place["pool"], place["worker"]
