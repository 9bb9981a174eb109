"""Why a task is where it is: from the leader where there is one, else from what is on the cluster."""

from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest
from aiohttp import web

from ebbtide import vocabulary
from ebbtide.config import Settings
from ebbtide.kube.client import Client
from ebbtide.sim import objects
from ebbtide.sim.faults import Answer, When
from ebbtide.sim.wire import Wire
from reconciler.explain.explanation import Explanation
from reconciler.explain.tasks import TaskExplainer
from reconciler.inquiry import Inquiry
from reconciler.scaler.contract import Phase, Target, TaskRecord
from reconciler.scaler.describe import WorkersNow
from reconciler.scaler.shared import ledger
from reconciler.scaler.task import TaskId
from tests.reconciler.scaler.refused import QUOTA, tell
from tests.reconciler.scaler.room import NAMESPACE, Room, in_room
from tests.reconciler.scaler.workers_now import GIB, WORKERS, task

HOME: Final = "ebbtide-system"
LEASE: Final = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "ebbtide-reconciler", "namespace": HOME},
    "spec": {"holderIdentity": "ebbtide-0", "leaseDurationSeconds": 15},
}


async def explain(
    room: Room, of: TaskId, size: int | None = None, *, leader: WorkersNow | None = None, **scaler: Any
) -> Explanation:
    """What is explained where somebody leads who says this of workers; by default nobody does."""
    settings = Settings(worker_scaler=room.settings.model_copy(update=scaler))
    server = web.Server(partial(_answered, room, leader), access_log=None)
    access = replace(room.cluster.access(), connector=Wire(server).connector)
    async with Client(access, field_manager="test", user_agent="explain") as client:
        explainer = TaskExplainer(Inquiry(client, settings, HOME), settings, room.cluster.clock)
        found = await explainer.explain(of, size)
    await server.shutdown(0.1)
    return found


async def _answered(room: Room, leader: WorkersNow | None, request: web.BaseRequest) -> web.StreamResponse:
    """The API server, which passes on what is meant for the leader."""
    if leader is not None and request.path.endswith("/proxy/api/v1/state"):
        return web.json_response({"cells": [], "workers": leader.document()})
    if leader is not None and request.path.endswith("/leases/ebbtide-reconciler"):
        return web.json_response(LEASE)
    return await room.cluster.api.handle(request)


def dedicated(room: Room, of: TaskId, *, seen: bool = False) -> None:
    """The task's worker, as its set says."""
    room.dedicated(f"load-data-worker-{of}")
    annotations = {vocabulary.TASK_ID_ANNOTATION: str(of), vocabulary.DATA_SIZE_ANNOTATION: str(3 * GIB)}
    if seen:
        annotations[vocabulary.TASK_SEEN_ANNOTATION] = "2026-01-01T00:00:00Z"
    room.annotate(f"load-data-worker-{of}", annotations)


def promised(room: Room, of: TaskId) -> None:
    """What the pool has stored."""
    data = {"2": ledger.write([ledger.Entry(of, 7, GIB, 1_767_225_600)])}
    metadata = {"name": "ldw-shared-ledger", "namespace": NAMESPACE}
    room.cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


@in_room()
async def test_the_leader_knows_it(room: Room) -> None:
    """Its place, and what is decided about its worker."""
    found = await explain(room, task(-1), leader=WORKERS)
    assert found.state == "waiting"
    assert found.reason == "it is placed dedicated, on no pod yet: its pod is not ready yet"
    assert found.facts["worker"]["trouble"] == "NoCapacity"
    assert found.facts["unknown"] == []
    ended = await explain(room, task(1), leader=WORKERS)
    assert (ended.state, ended.facts["place"]) == ("ended", {"pool": "shared", "worker": "ldw-shared-1"})
    assert ended.facts["reported"]["finished"] is True


@in_room()
async def test_without_a_leader_a_worker_is_found_on_the_cluster(room: Room) -> None:
    """By its annotation, and judged as a new leader would; what is not known is said."""
    dedicated(room, task(0))
    dedicated(room, task(1), seen=True)
    found = await explain(room, task(0))
    assert (found.state, found.facts["task"]) == ("waiting", {"id": str(task(0)), "cluster": 7, "dataSize": 3 * GIB})
    assert found.facts["worker"]["state"] == "starting"
    assert "no reconciler leads (a dry run takes no lease)" in found.facts["unknown"][0]
    assert (await explain(room, task(1))).state == "running"


@in_room()
async def test_without_a_leader_it_is_told_why_the_pod_of_a_worker_is_not_made(room: Room) -> None:
    """Only of one that has none."""
    dedicated(room, task(0))
    name = f"load-data-worker-{task(0)}"
    tell(room.cluster, name, QUOTA)
    assert (await explain(room, task(0))).facts["worker"]["trouble"] is None
    room.remove(f"{name}-0")
    found = await explain(room, task(0))
    assert found.facts["worker"]["trouble"] == "QuotaExceeded"
    assert found.reason == f"it has a worker of its own, {name}: its pod cannot be made: {QUOTA}"
    room.cluster.faults.inject(Answer(403, "Forbidden", "events is forbidden"), When(path="*/events"))
    found = await explain(room, task(0))
    assert found.facts["worker"]["trouble"] is None
    assert "why its pod is not made: " in found.facts["unknown"][-1]


@in_room()
async def test_without_a_leader_a_promise_of_the_pool_is_found(room: Room) -> None:
    """In what it has stored."""
    promised(room, task(0))
    found = await explain(room, task(0))
    assert found.reason == "it was promised a place on ldw-shared-2 at 2026-01-01T00:00:00Z"
    assert found.facts["place"] == {"pool": "shared", "worker": "ldw-shared-2"}


LOCAL: Final = WorkersNow(
    run=True,
    known=True,
    tasks=tuple(TaskRecord(task(100 + n), 7, Target.LOCAL, "tikv-api-0", Phase.RUNNING, GIB) for n in range(9)),
)

WOULD: Final = {
    "small": (1 << 20, {}, "local"),
    "small, the pool is on": (1 << 20, {"shared_pool_enabled": True}, "shared"),
    "large": (3 * GIB, {}, "dedicated"),
    "no size": (0, {}, "local"),
    "too large": ((1 << 40) + 1, {}, None),
}


@pytest.mark.parametrize(("size", "scaler", "pool"), WOULD.values(), ids=WOULD)
def test_where_an_unknown_task_would_go(size: int, scaler: dict[str, Any], pool: str | None) -> None:
    """From its size and the settings."""

    @in_room()
    async def story(room: Room) -> None:
        found = await explain(room, task(0), size, **scaler)
        assert found.state == "unknown"
        assert found.facts["would"]["pool"] == pool
        assert ("refused" in found.reason) == (pool is None)
        assert ("size" in found.facts["would"]) == (pool == "dedicated")
        # Without a leader; where it makes no difference nothing is said of it.
        matters = size == 1 << 20 and not scaler
        assert ("how many tasks the least busy local pod runs" in found.facts["unknown"]) == matters

    story()


@in_room()
async def test_what_the_leader_says_of_local_pods_decides_too(room: Room) -> None:
    """Nine run on the only one."""
    room.local(0)
    found = await explain(room, task(0), 1 << 20, leader=LOCAL)
    assert found.facts["would"]["pool"] == "dedicated"
    assert found.reason.startswith("nobody knows it; it would be placed dedicated: the least busy local pod runs 9")
    room.local(1)
    assert (await explain(room, task(0), 1 << 20, leader=LOCAL)).facts["would"]["pool"] == "local"


@in_room()
async def test_a_task_that_nobody_knows(room: Room) -> None:
    """Without a size nothing is guessed; where the scaler is off, that is said."""
    found = await explain(room, task(0), run=False)
    assert (found.state, found.reason) == ("unknown", "it has no worker of its own and no promise")
    assert "would" not in found.facts
    assert found.document()["heldBack"][0]["reason"].startswith("the worker scaler is switched off")


@in_room()
async def test_a_leader_that_cannot_be_asked(room: Room) -> None:
    """The cluster answers as far as it can, and why not further is said."""
    room.cluster.create(objects.namespace(HOME), LEASE)
    dedicated(room, task(0))
    found = await explain(room, task(0))
    assert found.facts["place"]["pool"] == "dedicated"
    assert "the leader cannot be asked" in found.facts["unknown"][0]
