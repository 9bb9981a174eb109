"""The budget over busy workers."""

import asyncio
from typing import Any, Final

import pytest

from ebbtide import vocabulary
from ebbtide.kube.errors import BudgetRefused
from ebbtide.sim import objects
from ebbtide.sim.kinds import POD_DISRUPTION_BUDGETS, PODS
from ebbtide.sim.storage import Write
from reconciler.engine.beside import running
from reconciler.scaler.budget import LOOK_EVERY, NAME, Budget
from tests.reconciler.scaler.room import NAMESPACE, Room, in_room

BUSY: Final = {vocabulary.BUSY_LABEL: "true"}


def spec(room: Room) -> dict[str, Any] | None:
    found = room.cluster.storage.peek(POD_DISRUPTION_BUDGETS, NAME, NAMESPACE)
    return None if found is None else dict(found.body["spec"])


@in_room()
async def test_ws_76_a_busy_worker_is_not_evicted_by_anybody(room: Room) -> None:
    """An idle one is."""
    async with running((Budget(room.client, NAMESPACE, dry_run=False),)):
        await room.until(lambda: spec(room))
        for name, labels in {"busy": BUSY, "idle": {}}.items():
            room.cluster.create(objects.pod(name, namespace=NAMESPACE, node="n", labels=labels))
        await asyncio.sleep(1.0)
        uid = {pod.name: pod.uid for pod in room.cluster.storage.scan(PODS)}
        with pytest.raises(BudgetRefused):
            await room.client.evict("busy", namespace=NAMESPACE, uid=uid["busy"])
        await room.client.evict("idle", namespace=NAMESPACE, uid=uid["idle"])


@in_room()
async def test_it_is_put_right_and_otherwise_left_alone(room: Room) -> None:
    """Somebody deletes it, somebody edits it; a quiet look writes nothing."""
    async with running((Budget(room.client, NAMESPACE, dry_run=False),)):
        await room.until(lambda: spec(room))
        before = room.cluster.storage.find(POD_DISRUPTION_BUDGETS, NAME, NAMESPACE)
        writes = room.client.sent.copy()
        await asyncio.sleep(3 * LOOK_EVERY)
        assert room.cluster.storage.find(POD_DISRUPTION_BUDGETS, NAME, NAMESPACE) is before
        assert {verb.verb for verb in room.client.sent - writes} == {"get"}
        edited = {"spec": {"maxUnavailable": 3}}
        room.cluster.storage.modify(
            POD_DISRUPTION_BUDGETS, NAME, NAMESPACE, lambda body: objects.changed(body, edited), Write("somebody")
        )
        right = {"maxUnavailable": 0, "selector": {"matchLabels": BUSY}}
        await room.until(lambda: spec(room) == right, within=LOOK_EVERY + 1)
        room.cluster.storage.delete(POD_DISRUPTION_BUDGETS, NAME, NAMESPACE)
        await room.until(lambda: spec(room), within=LOOK_EVERY + 1)


@in_room()
async def test_a_dry_run_only_looks(room: Room) -> None:
    """Nothing is written."""
    async with running((Budget(room.client, NAMESPACE, dry_run=True),)):
        await asyncio.sleep(2 * LOOK_EVERY)
        assert spec(room) is None
