"""Imports on a real control plane: every task comes to its end, wherever it runs and whatever happens to the scaler."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from ebbtide import vocabulary
from ebbtide.kube.resources import PDBS, PERSISTENT_VOLUME_CLAIMS, SERVICES, STATEFUL_SETS, Resource
from reconciler.scaler.dedicated.names import set_name
from reconciler.scaler.task import TaskId
from tests.controlplane.load_data import POOL, Site, site
from tests.controlplane.program import scrape
from tests.controlplane.proxy import FaultProxy
from tests.controlplane.world import PATIENCE, World
from tests.doubles.client import Client, ImportFailedError

T = TypeVar("T")

pytestmark = pytest.mark.controlplane

MIB, GIB = 1 << 20, 1 << 30
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", namespaced=True)
# The most data of a task on the pool here: below it there is a size for the smallest worker of a task's own.
SMALL = 512 * MIB


@pytest.fixture
async def workers(cluster: World, proxy: FaultProxy) -> AsyncIterator[Site]:
    async with site(cluster, proxy) as made:
        yield made


# --- an import -----------------------------------------------------------------------------------------------------


class Worker(NamedTuple):
    """What a worker of a task's own is to be like: cores and GiB (request, limit), volumes, GiB of each."""

    cpu: tuple[str, str]
    memory: tuple[str, str]
    volumes: int
    storage: int
    group: str = ""


_ONE = Worker(("1", "1"), ("4Gi", "4Gi"), 1, 20)
# Bytes → worker: on both sides of each boundary.
DEDICATED = {
    SMALL + 1: _ONE,
    GIB - 1: _ONE,
    GIB: Worker(("2", "2"), ("8Gi", "8Gi"), 1, 20),
    7 * GIB: Worker(("2", "2"), ("8Gi", "8Gi"), 1, 21),
    10 * GIB - 1: Worker(("2", "2"), ("8Gi", "8Gi"), 1, 27),
    10 * GIB: Worker(("3500m", "3500m"), ("14Gi", "14Gi"), 1, 30),
    50 * GIB - 1: Worker(("3500m", "3500m"), ("14Gi", "14Gi"), 1, 147),
    50 * GIB: Worker(("7", "7"), ("28Gi", "28Gi"), 1, 150),
    100 * GIB - 1: Worker(("7", "7"), ("28Gi", "28Gi"), 1, 297),
    100 * GIB: Worker(("14", "14"), ("56Gi", "56Gi"), 4, 75),
    500 * GIB - 1: Worker(("14", "14"), ("56Gi", "56Gi"), 4, 375),
    500 * GIB: Worker(("25", "48"), ("100Gi", "192Gi"), 16, 94, "dedicated"),
    1024 * GIB: Worker(("25", "48"), ("100Gi", "192Gi"), 16, 192, "dedicated"),
}
SHARED = (0, 1, MIB, 64 * MIB, SMALL - 1, SMALL)
TOO_LARGE = 1024 * GIB + 1
IMPORT = "1-1701753296955293956"


async def test_an_import_of_twenty_tables_runs_to_its_end_and_leaves_nothing(tmp_path: Path, workers: Site) -> None:
    """Sizes around every boundary get the workers of the tables; all clients are restarted in the middle of it."""
    await workers.cluster.add_nodes("a", 2)
    await workers.cluster.add_nodes("a", 1, group="dedicated")
    text = workers.text(spawn_data_size=SMALL, worker_max_cores=64)
    async with workers.scaling(tmp_path, text) as url:
        large = [workers.client(f"{IMPORT}-{n}-0", size) for n, size in enumerate(DEDICATED)]
        small = [workers.client(f"{IMPORT}-{n}--1", size) for n, size in enumerate(SHARED)]
        with pytest.raises(ImportFailedError, match=f"data size {TOO_LARGE} exceeds max data size {1024 * GIB}"):
            await workers.client(f"{IMPORT}-99-0", TOO_LARGE).init()
        await together(Client.init, large + small)
        await made_as_designed(workers, large)
        await pool_is_as_designed(workers)

        await together(halfway, large + small)
        await together(Client.restart, large + small)
        assert all(client.seen[-1].text == "task exists" for client in large + small)
        ends = await together(lambda client: client.load([b"more"]), large + small)
        assert all(end["finished"] for end in ends)
        await workers.nothing_left()
        await no_trace(workers, url)
    assert workers.refused() == []


async def together(do: Callable[[Client], Awaitable[T]], clients: Iterable[Client]) -> list[T]:
    return await asyncio.wait_for(asyncio.gather(*map(do, clients)), PATIENCE)


async def halfway(client: Client) -> None:
    await client.write(1, 1, b"rows")
    await client.flush(1)


async def made_as_designed(workers: Site, clients: Iterable[Client]) -> None:
    """Sets, Services and claims of the tasks are those of the tables, and nobody else's."""
    sets, services, claims = [await workers.named(kind) for kind in (STATEFUL_SETS, SERVICES, PERSISTENT_VOLUME_CLAIMS)]
    for client in clients:
        name, wanted = set_name("load-data-worker", TaskId.parse(client.task)), DEDICATED[client.size]
        made, service = sets.pop(name), services.pop(name)
        assert annotations(made) == (client.task, str(client.size), "7")
        assert made["spec"]["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Delete", "whenScaled": "Delete"}
        assert (made["spec"]["replicas"], made["spec"]["updateStrategy"]) == (1, {"type": "OnDelete"})
        assert (made["spec"]["serviceName"], service["spec"]["clusterIP"]) == (name, "None")
        pod_is_as_designed(made["spec"]["template"], wanted, f"/data/{client.task}", workers.cluster.group)
        own = {claim: claims.pop(claim) for claim in [*claims] if claim.endswith(f"-{name}-0")}
        sizes = {f"worker{number}-{name}-0": f"{wanted.storage}Gi" for number in range(wanted.volumes)}
        assert {claim: storage(raw) for claim, raw in own.items()} == {f"data-{name}-0": "1Gi", **sizes}
        assert {owner for raw in (service, *own.values()) for owner in owners(raw)} == {made["metadata"]["uid"]}
    assert ({*sets}, {*services}) == ({POOL}, {POOL})
    assert all(f"-{POOL}-" in claim for claim in claims)


def pod_is_as_designed(template: dict[str, Any], wanted: Worker, directory: str, group: str) -> None:
    [container] = template["spec"]["containers"]
    for which, cpu, memory in zip(("requests", "limits"), wanted.cpu, wanted.memory, strict=True):
        assert container["resources"][which] == {"cpu": cpu, "memory": memory}
    environ = {each["name"]: each["value"] for each in container["env"]}
    ours = {vocabulary.WORKER_ENV: "true", vocabulary.WORKER_NUM_ENV: str(wanted.volumes)}
    assert environ == {"A": "b", **ours}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    below = {f"worker{number}": f"{directory}/worker-{number}" for number in range(wanted.volumes)}
    assert mounts == {"data": "/data", **below}
    assert "livenessProbe" not in container
    group = wanted.group or group
    assert template["spec"]["nodeSelector"] == {vocabulary.NODE_GROUP_LABEL: group}
    labels = template["metadata"]["labels"]
    assert labels[vocabulary.POOL_LABEL] == vocabulary.POOL_DEDICATED
    assert labels[vocabulary.NODE_GROUP_PIN_LABEL] == group
    assert [each["value"] for each in template["spec"]["tolerations"]] == [group]


async def pool_is_as_designed(workers: Site) -> None:
    """One pod takes all of its tasks, in the built-in size; the set keeps no volume of an ordinal that has gone."""
    made, service = (await workers.named(STATEFUL_SETS))[POOL], (await workers.named(SERVICES))[POOL]
    spec, pod = made["spec"], made["spec"]["template"]
    assert spec["replicas"] == 1
    assert (spec["podManagementPolicy"], spec["updateStrategy"]) == ("Parallel", {"type": "OnDelete"})
    assert spec["persistentVolumeClaimRetentionPolicy"]["whenScaled"] == "Delete"
    assert service["spec"]["clusterIP"] == "None"
    assert pod["metadata"]["annotations"][vocabulary.SAFE_TO_EVICT_ANNOTATION] == "false"
    assert pod["metadata"]["labels"][vocabulary.POOL_LABEL] == vocabulary.POOL_SHARED
    four = {"cpu": "4", "memory": "15Gi"}
    assert pod["spec"]["containers"][0]["resources"] == {"requests": four, "limits": four}
    assert {claim["metadata"]["name"]: storage(claim) for claim in spec["volumeClaimTemplates"]} == {
        "data": "1Gi",
        "worker0": "64Gi",
    }
    budget = await workers.cluster.client.get(PDBS, vocabulary.BUSY_BUDGET, namespace=workers.cluster.namespace)
    assert budget["spec"] == {"maxUnavailable": 0, "selector": {"matchLabels": {vocabulary.BUSY_LABEL: "true"}}}


async def no_trace(workers: Site, url: str) -> None:
    """No metric tells of a task, or of a worker that is no more."""

    async def so() -> bool:
        samples = (await scrape(url)).samples
        assert not [series for series in samples if IMPORT in series or POOL in series]
        return not any(
            value
            for series, value in samples.items()
            if series.startswith(("worker_scaler_tasks{", "worker_scaler_workers{"))
        )

    await workers.cluster.wait_until(so, "all tasks and workers are forgotten")


def annotations(made: dict[str, Any]) -> tuple[str, ...]:
    words = (vocabulary.TASK_ID_ANNOTATION, vocabulary.DATA_SIZE_ANNOTATION, vocabulary.CLUSTER_ID_ANNOTATION)
    return tuple(made["metadata"]["annotations"][word] for word in words)


def storage(claim: dict[str, Any]) -> str:
    return str(claim["spec"]["resources"]["requests"]["storage"])


def owners(raw: dict[str, Any]) -> list[str]:
    return [owner["uid"] for owner in raw["metadata"].get("ownerReferences") or ()]


# --- limits --------------------------------------------------------------------------------------------------------

LIMIT = 5
LARGE = 3 * GIB


async def test_exactly_the_limit_is_admitted_and_what_a_quota_refuses_takes_no_place(
    tmp_path: Path, workers: Site
) -> None:
    """Ten times the limit at once; before that one task gets no set, and the worker of another no Service at first."""
    await workers.cluster.add_nodes("a", 1)
    text = workers.text(worker_count_limit=LIMIT, expire_seconds=600, reservation_seconds=600)
    quota = Quota(workers.cluster)
    for refused in ("statefulsets", "services"):
        workers.proxy.expect_forbidden("POST", f"/{refused}")
    async with workers.scaling(tmp_path, text) as url:
        first = workers.client("1-170-100-0", LARGE)
        await quota.allow(sets=1, services=0)
        small = workers.client("1-170-98-0", 1)
        waiting = asyncio.ensure_future(small.init())
        await refused_by_quota(workers, small)
        status, words, headers = await until_known(workers, "1-170-99-0")
        assert (status, "exceeded quota" in words, int(headers["Retry-After"]) > 0) == (503, True, True)
        assert await dedicated(url) == 0
        await quota.allow(sets=100, services=0)
        beginning = asyncio.ensure_future(first.init())
        await refused_by_quota(workers, first)
        await quota.allow(sets=100, services=100)
        await asyncio.wait_for(asyncio.gather(beginning, waiting), PATIENCE)

        answers = await asyncio.gather(*(init(workers, f"1-170-{number}-0") for number in range(10 * LIMIT)))
        places = {task: headers["Location"] for task, status, headers in answers if status == 302}
        turned_away = [int(headers["Retry-After"]) for _, status, headers in answers if status == 503]
        assert (len(places), len(turned_away), min(turned_away) > 0) == (LIMIT - 1, 9 * LIMIT + 1, True)
        made = await workers.named(STATEFUL_SETS)
        pool = made.pop(POOL)
        assert pool["spec"]["replicas"] == 1
        assert {annotations(raw)[0] for raw in made.values()} == {first.task, *places}
        assert {*await workers.named(SERVICES)} == {POOL, *made}
        again = await asyncio.gather(*(init(workers, task) for task in places))
        assert {task: headers["Location"] for task, _, headers in again} == places

        assert (await workers.ask("DELETE", task_id_prefix="1-170"))[0] == 200
        await workers.nothing_left()


async def test_a_pod_that_a_quota_refuses_to_its_controller_is_told_early(tmp_path: Path, workers: Site) -> None:
    """From the events of the real controller; once the quota is raised the client gets that very worker."""
    await workers.cluster.add_nodes("a", 1)
    quota = Quota(workers.cluster)
    await quota.allow(sets=100, services=100, pods=0)
    async with workers.scaling(tmp_path, workers.text()):
        client = workers.client("1-170-139-0", LARGE)
        importing = asyncio.create_task(client.init())
        await refused_by_quota(workers, client)
        [name] = {*await workers.named(STATEFUL_SETS)} - {POOL}
        told = [heard.text for heard in client.seen if "exceeded quota" in heard.text]
        assert all("its worker's pod cannot be made: pods " in text for text in told)
        assert f"{name}-0" in told[0]
        await quota.allow(sets=100, services=100, pods=100)
        words = {"metadata": {"annotations": {"example.com/try": "now"}}}
        await workers.cluster.client.patch_merge(STATEFUL_SETS, name, words, namespace=workers.cluster.namespace)
        await asyncio.wait_for(importing, 60)
        assert {*await workers.named(STATEFUL_SETS)} - {POOL} == {name}
    assert workers.refused() == []


class Quota:
    """How many objects there may be in the world's namespace."""

    def __init__(self, cluster: World) -> None:
        self._cluster = cluster

    async def allow(self, *, sets: int, services: int, pods: int = 100) -> None:
        """From when this returns; `sets` with the template."""
        hard = {"count/statefulsets.apps": str(sets), "count/services": str(services), "pods": str(pods)}
        body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "workers"}, "spec": {"hard": hard}}
        namespace = self._cluster.namespace
        await self._cluster.client.apply(QUOTAS, "workers", body, namespace=namespace, force=True)

        async def in_force() -> bool:
            found = await self._cluster.client.get(QUOTAS, "workers", namespace=namespace)
            return bool(found.get("status", {}).get("hard") == hard and found["status"].get("used"))

        await self._cluster.wait_until(in_force, f"the quota is {hard}")


async def refused_by_quota(workers: Site, client: Client) -> None:
    async def so() -> bool:
        return any(heard.status == 503 and "exceeded quota" in heard.text for heard in client.seen)

    await workers.cluster.wait_until(so, f"task {client.task} is told of the quota")


async def init(workers: Site, task: str) -> tuple[str, int, Mapping[str, str]]:
    status, _, headers = await workers.ask("POST", task_id=task, start_ts=1, commit_ts=2, data_size=LARGE)
    return task, status, headers


async def until_known(workers: Site, task: str) -> tuple[int, str, Mapping[str, str]]:
    """The first answer to its init by a scaler that knows what there is."""

    async def answered() -> tuple[int, str, Mapping[str, str]] | None:
        answer = await workers.ask("POST", task_id=task, start_ts=1, commit_ts=2, data_size=LARGE)
        return answer if "quota" in answer[1] or answer[0] != 503 else None

    found = await workers.cluster.wait_until(answered, "the init is decided")
    assert found is not None
    return found


async def dedicated(url: str) -> float:
    """How many workers of tasks' own are counted."""
    samples = (await scrape(url)).samples
    return sum(
        value for series, value in samples.items() if series.startswith('worker_scaler_workers{pool="dedicated"')
    )
