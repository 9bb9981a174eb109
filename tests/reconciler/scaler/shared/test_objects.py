"""The pool's objects: as they are made, kept, changed and made anew; pods and claims that only a deletion can help."""

import asyncio

import pytest

from ebbtide import vocabulary
from ebbtide.config.scaler import PoolSpec
from ebbtide.sim import objects
from ebbtide.sim.kinds import NODES, PERSISTENT_VOLUME_CLAIMS, SERVICES, STATEFUL_SETS
from ebbtide.sim.stored import Object
from reconciler.scaler.shared.spec import disk_of, size_of
from tests.reconciler.scaler.shared.basin import (
    NAMESPACE,
    POOL,
    TEMPLATE,
    Basin,
    in_basin,
    pod_of,
    settings,
    task,
)


def test_ws_78_the_pod_is_as_it_is_set() -> None:
    size = size_of(PoolSpec.model_validate({"request-memory": 8}))
    assert size.resources() == {
        "requests": {"cpu": "4", "memory": "8Gi"},
        "limits": {"cpu": "4", "memory": "15Gi"},
    }
    assert (size.workers, size.storage_gb, disk_of(size)) == (1, 64, 64 << 30)


@pytest.mark.parametrize("value", ["fast", ""])
def test_ws_78_a_node_selector_needs_no_node_group(value: str) -> None:
    size = size_of(PoolSpec.model_validate({"node-selector-key": "disk", "node-selector-value": value}))
    assert (size.selector, size.node_group) == (("disk", value), "")


def the_set(basin: Basin) -> Object:
    found = basin.found(STATEFUL_SETS, POOL)
    assert found is not None
    return found


@in_basin()
async def test_ws_79_the_objects_are_as_they_have_to_be(basin: Basin) -> None:
    basin.start()
    await basin.insist(1)
    spec = the_set(basin)["spec"]
    assert spec["podManagementPolicy"] == "Parallel"
    assert spec["updateStrategy"] == {"type": "OnDelete"}
    assert spec["persistentVolumeClaimRetentionPolicy"]["whenScaled"] == "Delete"
    assert spec["serviceName"] == POOL
    assert the_set(basin)["metadata"]["labels"][vocabulary.POOL_LABEL] == "shared"
    metadata, pod = spec["template"]["metadata"], spec["template"]["spec"]
    assert metadata["annotations"][vocabulary.SAFE_TO_EVICT_ANNOTATION] == "false"
    assert metadata["labels"][vocabulary.POOL_LABEL] == "shared"
    env = {each["name"]: each["value"] for each in pod["containers"][0]["env"]}
    assert env == {"A": "b", vocabulary.WORKER_ENV: "true", vocabulary.WORKER_NUM_ENV: "1"}
    sizes = {c["metadata"]["name"]: c["spec"]["resources"]["requests"]["storage"] for c in spec["volumeClaimTemplates"]}
    assert sizes == {"data": "10Gi", "worker0": "64Gi"}
    service = basin.found(SERVICES, POOL)
    assert service is not None
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True


@in_basin()
async def test_ws_79_what_is_deleted_by_hand_is_made_again(basin: Basin) -> None:
    basin.start()
    await basin.begin(1)
    basin.delete(SERVICES, POOL)
    await basin.until(lambda: basin.found(SERVICES, POOL) is not None, within=15)
    basin.delete(STATEFUL_SETS, POOL)
    await basin.until(lambda: basin.replicas == 1, within=30)
    await basin.until(lambda: basin.loads() == [0], within=120)
    place = basin.process.pool.find(task(1))
    assert place is not None
    assert pod_of(place) == f"{POOL}-0"


@in_basin(shared_idle_pod_expire_sec=60)
async def test_ws_79_at_zero_the_objects_stay(basin: Basin) -> None:
    """The very same, for a pool that comes back."""
    basin.start()
    await basin.begin(1)
    before = uids_of_the_pool(basin)
    assert None not in before
    await basin.until(lambda: basin.loads() == [1])
    basin.finish(1)
    await basin.until(lambda: basin.replicas == 0 and not basin.pods(), within=700)
    await asyncio.sleep(3600)
    assert uids_of_the_pool(basin) == before


def uids_of_the_pool(basin: Basin) -> list[str | None]:
    """UIDs of its set and its Service, None for one that is not there."""
    found = [basin.found(resource, POOL) for resource in (STATEFUL_SETS, SERVICES)]
    return [None if each is None else each["metadata"]["uid"] for each in found]


@in_basin()
async def test_ws_80_new_cores_are_for_new_pods(basin: Basin) -> None:
    first = basin.start()
    await basin.begin(1)
    uid = basin.pods()[f"{POOL}-0"]["metadata"]["uid"]
    await first.kill()
    basin.start("two", settings(shared_sts_config={"request-cpu": 2, "limit-cpu": 3}))
    await basin.until(lambda: cores(the_set(basin)["spec"]["template"]) == ("2", "3"))
    await basin.begin(*range(2, 30))
    assert basin.pods()[f"{POOL}-0"]["metadata"]["uid"] == uid
    assert cores(basin.pods()[f"{POOL}-0"]) == ("4", "4")
    assert cores(basin.pods()[f"{POOL}-1"]) == ("2", "3")


def cores(pod: Object) -> tuple[str, str]:
    resources = pod["spec"]["containers"][0]["resources"]
    return resources["requests"]["cpu"], resources["limits"]["cpu"]


@in_basin()
async def test_ws_80_another_volume_size_waits_until_the_pool_is_empty(basin: Basin) -> None:
    first = basin.start()
    await basin.begin(1)
    await first.kill()
    process = basin.start("two", settings(shared_sts_config={"storage-size-gb": 100}))
    await basin.until(lambda: "ClaimSizePending" in process.conditions())
    uid = the_set(basin)["metadata"]["uid"]
    await asyncio.sleep(60)
    assert the_set(basin)["metadata"]["uid"] == uid
    basin.finish(1)
    await basin.until(lambda: basin.found(STATEFUL_SETS, POOL) is None, within=700)
    await basin.begin(2)
    claim = basin.found(PERSISTENT_VOLUME_CLAIMS, f"worker0-{POOL}-0")
    assert claim is not None
    assert claim["spec"]["resources"]["requests"]["storage"] == "100Gi"
    assert "ClaimSizePending" not in process.conditions()
    assert basin.promises() == {str(task(2)): 0}


@in_basin()
async def test_ws_17_pods_are_made_after_the_template_as_it_is_now(basin: Basin) -> None:
    basin.start()
    await basin.begin(*range(16))
    basin.change(STATEFUL_SETS, TEMPLATE, lambda body: with_image(body, "new"))
    await basin.until(lambda: image(the_set(basin)["spec"]["template"]) == "new", within=15)
    await basin.begin(16)
    await basin.until(lambda: f"{POOL}-1" in basin.pods())
    assert (image(basin.pods()[f"{POOL}-0"]), image(basin.pods()[f"{POOL}-1"])) == ("registry.example/app:1.0", "new")


@in_basin()
async def test_ws_82_pods_that_never_ran_come_back_with_the_corrected_template(basin: Basin) -> None:
    basin.start("growing", settings(shared_min_replicas=1))
    await basin.begin(1)
    await basin.process.kill()
    basin.slowly(1e9)
    basin.start("more", settings(shared_min_replicas=3))
    await basin.until(lambda: len(basin.pods()) == 3)
    await asyncio.sleep(60)
    uids = {name: pod["metadata"]["uid"] for name, pod in basin.pods().items()}
    basin.slowly(2)
    await basin.until(lambda: len(basin.process.facts().usable) == 3)
    after = {name: pod["metadata"]["uid"] for name, pod in basin.pods().items()}
    assert after[f"{POOL}-0"] == uids[f"{POOL}-0"]
    assert after[f"{POOL}-1"] != uids[f"{POOL}-1"]
    assert len(basin.writes("pods/", "DELETE")) == 2


def image(pod: Object) -> str:
    return str(pod["spec"]["containers"][0]["image"])


def with_image(body: Object, name: str) -> Object:
    body["spec"]["template"]["spec"]["containers"][0]["image"] = name
    return body


# --- zones ----------------------------------------------------------------------------------------------------------


def block(basin: Basin, *nodes: str) -> None:
    taint = objects.taint(vocabulary.PREVENT_TAINT_KEY, "1767225600")
    for name in nodes:
        basin.change(NODES, name, lambda body: objects.changed(body, {"spec": {"taints": [taint]}}))


@in_basin(nodes=1)
async def test_ws_59_a_pool_whose_pods_are_in_a_blocked_zone_grows_elsewhere(basin: Basin) -> None:
    basin.start()
    await basin.begin(1, 2, 3)
    basin.node("b1", zone="b")
    block(basin, "n0")
    await asyncio.sleep(1)
    assert pod_of(await basin.place(4)) == f"{POOL}-1"
    assert basin.replicas == 2
    claims = basin.claims()
    await asyncio.sleep(60)
    assert basin.claims() == claims
    assert "ZonalVolumeBlocked" in basin.process.conditions()


@in_basin(nodes=1, shared_min_replicas=2)
async def test_ws_60_an_idle_pod_whose_volume_is_in_a_blocked_zone_comes_back_elsewhere(basin: Basin) -> None:
    process = basin.start()
    await basin.until(lambda: len(process.facts().usable) == 2)
    await basin.begin(1)
    uids = {name: pod["metadata"]["uid"] for name, pod in basin.pods().items()}
    basin.node("b1", zone="b")
    block(basin, "n0")
    await basin.until(lambda: [pod.ordinal for pod in process.facts().usable] == [1], within=120)
    assert basin.pods()[f"{POOL}-0"]["metadata"]["uid"] == uids[f"{POOL}-0"]
    assert basin.pods()[f"{POOL}-1"]["spec"]["nodeName"] == "b1"
    assert "ZonalVolumeBlocked" in process.conditions()


@in_basin()
async def test_ws_58_no_work_for_a_pod_on_a_cordoned_node(basin: Basin) -> None:
    process = basin.start("one", settings(shared_min_replicas=2))
    await basin.until(lambda: len(process.facts().usable) == 2)
    home = basin.pods()[f"{POOL}-0"]["spec"]["nodeName"]
    other = basin.pods()[f"{POOL}-1"]["spec"]["nodeName"]
    assert home != other
    basin.patch(NODES, home, {"spec": {"unschedulable": True}})
    await asyncio.sleep(1)
    assert set(await basin.begin(1, 2)) == {f"{POOL}-1"}


# --- claims ---------------------------------------------------------------------------------------------------------


@in_basin()
async def test_ws_62_a_pod_without_its_claim_is_made_anew_once(basin: Basin) -> None:
    process = basin.start("one", settings(shared_min_replicas=1))
    await basin.until(lambda: len(process.facts().usable) == 1)
    for name in ("n0", "n1", "n2"):
        basin.patch(NODES, name, {"spec": {"unschedulable": True}})
    await process.kill()
    process = basin.start("two", settings(shared_min_replicas=2))
    await basin.until(lambda: f"{POOL}-1" in basin.pods())
    for claim in [name for name in basin.claims() if name.endswith("-1")]:
        basin.patch(PERSISTENT_VOLUME_CLAIMS, claim, {"metadata": {"finalizers": None}})
        basin.delete(PERSISTENT_VOLUME_CLAIMS, claim)
    for name in ("n0", "n1", "n2"):
        basin.patch(NODES, name, {"spec": {"unschedulable": None}})
    await basin.until(lambda: len(process.facts().usable) == 2, within=120)
    assert len(basin.writes("pods/", "DELETE")) <= 1


@in_basin()
async def test_ws_63_claims_that_the_server_leaves_are_collected(basin: Basin) -> None:
    """A server that does not know the retention policy drops it from what is created."""
    process = basin.start("one", settings(shared_min_replicas=1))
    await basin.until(lambda: len(process.facts().usable) == 1)
    basin.change(STATEFUL_SETS, POOL, without_retention)
    left = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": NAMESPACE, "labels": {vocabulary.POOL_LABEL: "shared"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    for name in (f"worker0-{POOL}-4", f"data-{POOL}-4", "something-else"):
        basin.cluster.create(objects.changed(left, {"metadata": {"name": name}}))
    await asyncio.sleep(30)
    assert f"worker0-{POOL}-4" in basin.claims()
    await basin.until(lambda: f"worker0-{POOL}-4" not in basin.claims(), within=120)
    await asyncio.sleep(120)
    assert basin.claims() == [f"data-{POOL}-0", "something-else", f"worker0-{POOL}-0"]


def without_retention(body: Object) -> Object:
    body["spec"]["persistentVolumeClaimRetentionPolicy"] = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    return body
