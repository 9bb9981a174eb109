"""Volumes whose worker is no more, and nothing else, are collected."""

import asyncio
from typing import Any

from ebbtide.sim.faults import Answer, LoseEvents, When
from ebbtide.sim.kinds import PERSISTENT_VOLUME_CLAIMS
from ebbtide.sim.stored import Object
from tests.reconciler.scaler.dedicated.stage import NAME1, SETS, Stage, story
from tests.reconciler.scaler.templates import NAMESPACE

CLAIMS = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"


def claim(name: str, worker: str, **labels: Any) -> Object:
    ours = {"ebbtide/pool": "dedicated", "ebbtide/worker": worker} if worker else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {**ours, **labels}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }


def aged(stage: Stage, seconds: float, *bodies: Object) -> None:
    """Objects that were made so long ago."""
    stage.clock.jump(-seconds)
    stage.cluster.create(*bodies)
    stage.clock.jump(seconds)


@story()
async def test_ws_34_only_an_old_claim_of_ours_without_a_set_goes(stage: Stage) -> None:
    first = stage.start()
    await first.place()
    first.kill()
    stage.faults.inject(LoseEvents(count=None), When(method="WATCH", path=SETS))
    aged(
        stage,
        3600.0,
        claim("old", "gone"),
        claim("template-data", ""),
        claim("pools", "", **{"ebbtide/pool": "shared"}),
    )
    aged(stage, 10.0, claim("young", "gone"))
    second = stage.start("two")
    await second.ready()
    await stage.until(lambda: "old" not in stage.names(PERSISTENT_VOLUME_CLAIMS), within=60.0)
    assert stage.names(PERSISTENT_VOLUME_CLAIMS) == [
        f"data-{NAME1}-0",
        "pools",
        "template-data",
        f"worker0-{NAME1}-0",
        "young",
    ]
    assert second.metric("worker_scaler_cleanup_total", reason="orphaned-claim") == 1
    await stage.until(lambda: "young" not in stage.names(PERSISTENT_VOLUME_CLAIMS), within=320.0)


@story()
async def test_ws_34_not_at_the_first_look(stage: Stage) -> None:
    process = stage.start()
    await process.ready()
    aged(stage, 3600.0, claim("old", "gone"))
    await asyncio.sleep(9.0)
    assert "old" in stage.names(PERSISTENT_VOLUME_CLAIMS)
    assert await stage.until(lambda: "old" not in stage.names(PERSISTENT_VOLUME_CLAIMS)) <= 3.0


@story()
async def test_ws_34_a_claim_whose_set_is_in_the_api_and_not_in_our_copy_stays(stage: Stage) -> None:
    stage.faults.inject(LoseEvents(count=None), When(method="WATCH", path=SETS))
    process = stage.start(start_timeout=20)
    await process.ready()
    await process.ask()
    for name in stage.names(PERSISTENT_VOLUME_CLAIMS):
        stage.patch(PERSISTENT_VOLUME_CLAIMS, name, {"metadata": {"creationTimestamp": "2025-01-01T00:00:00Z"}})
    await asyncio.sleep(120.0)
    assert stage.names(PERSISTENT_VOLUME_CLAIMS) == [f"data-{NAME1}-0", f"worker0-{NAME1}-0"]


@story()
async def test_ws_34_where_the_api_cannot_be_asked_nothing_goes(stage: Stage) -> None:
    process = stage.start()
    await process.ready()
    broken = stage.faults.inject(Answer(500), When(method="GET", path=f"{SETS}/gone"))
    aged(stage, 3600.0, claim("old", "gone"))
    await asyncio.sleep(120.0)
    assert broken.hits
    assert "old" in stage.names(PERSISTENT_VOLUME_CLAIMS)


@story()
async def test_claims_that_the_server_does_not_delete_are_collected(stage: Stage) -> None:
    """Servers before 1.27 drop the retention policy: the claims then belong to nobody."""
    process = stage.start()
    await process.place()
    for name in stage.names(PERSISTENT_VOLUME_CLAIMS):
        stage.patch(PERSISTENT_VOLUME_CLAIMS, name, {"metadata": {"ownerReferences": None}})
    await stage.until(lambda: not stage.sets(), within=700.0)
    assert stage.left()
    await stage.until(lambda: not stage.left(), within=60.0)
