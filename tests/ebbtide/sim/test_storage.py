"""The storage, as actors use it: versions, preconditions, deletion, history."""

import asyncio

import pytest

from ebbtide.sim import objects
from ebbtide.sim.deletion import Deletion
from ebbtide.sim.history import Compacted
from ebbtide.sim.kinds import CONFIG_MAPS, NAMESPACES, NODES, PODS, STATEFUL_SETS
from ebbtide.sim.refusals import AlreadyExists, Conflict, Forbidden, Invalid, NotFound, PreconditionFailed
from ebbtide.sim.storage import Storage, Write
from ebbtide.sim.stored import Event, Object
from ebbtide.sim.time import DEFAULT_EPOCH, SimulatedClock
from tests.ebbtide.sim.talk import simulated


def storage() -> Storage:
    """An empty cluster with namespace `default`; needs a running loop."""
    made = Storage(SimulatedClock(asyncio.get_running_loop()), seed=1)
    made.create(NAMESPACES, objects.namespace("default"))
    return made


def config_map(name: str, **metadata: object) -> Object:
    return {"metadata": {"name": name, **metadata}, "data": {"key": "value"}}


@simulated
async def test_identity_is_given_by_the_server() -> None:
    """UID, creation time, version and namespace come from the server, whatever the client says."""
    made = storage().create(CONFIG_MAPS, config_map("a", uid="mine", creationTimestamp="2000-01-01T00:00:00Z"))
    metadata = made["metadata"]
    assert metadata["namespace"] == "default"
    assert metadata["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert metadata["uid"] != "mine"
    assert int(metadata["resourceVersion"]) > 1
    assert (made["apiVersion"], made["kind"]) == ("v1", "ConfigMap")


@simulated
async def test_versions_rise_over_all_kinds() -> None:
    """Every write of any object gets the next version."""
    store = storage()
    first = store.create(CONFIG_MAPS, config_map("a"))
    second = store.create(NODES, objects.node("n"))
    assert int(second["metadata"]["resourceVersion"]) == int(first["metadata"]["resourceVersion"]) + 1 == store.version


@simulated
async def test_what_is_handed_out_is_a_copy() -> None:
    """Nobody changes the cluster by changing what it gave them, or what they gave it."""
    store = storage()
    given = config_map("a")
    taken = store.create(CONFIG_MAPS, given)
    given["data"]["key"] = "changed"
    taken["data"]["key"] = "changed"
    store.get(CONFIG_MAPS, "a", "default")["data"]["key"] = "changed"
    assert store.get(CONFIG_MAPS, "a", "default")["data"] == {"key": "value"}


@simulated
async def test_a_name_is_taken_once() -> None:
    """A second object of a name is AlreadyExists; without a name and generateName it is Invalid."""
    store = storage()
    store.create(CONFIG_MAPS, config_map("a"))
    with pytest.raises(AlreadyExists):
        store.create(CONFIG_MAPS, config_map("a"))
    with pytest.raises(Invalid, match="name or generateName is required"):
        store.create(CONFIG_MAPS, {"metadata": {}})


@simulated
async def test_an_update_of_an_old_version_is_a_conflict() -> None:
    """Who has not seen the latest version may not replace it; who does not name one replaces whatever is there."""
    store = storage()
    old = store.create(CONFIG_MAPS, config_map("a"))
    store.update(CONFIG_MAPS, {**old, "data": {"key": "new"}})
    with pytest.raises(Conflict, match="the object has been modified"):
        store.update(CONFIG_MAPS, {**old, "data": {"key": "newer"}})
    store.update(CONFIG_MAPS, config_map("a") | {"metadata": {"name": "a", "namespace": "default"}})
    assert store.get(CONFIG_MAPS, "a", "default")["data"] == {"key": "value"}


@simulated
async def test_an_update_without_change_is_no_new_version() -> None:
    """Writing what is there already changes nothing, for nobody."""
    store = storage()
    made = store.create(NODES, objects.node("n"))
    version = store.version
    store.update(NODES, made)
    store.update_status(NODES, made)
    assert store.version == version


@simulated
async def test_status_and_specification_are_written_apart() -> None:
    """An update leaves the status alone, an update of the status leaves the rest alone."""
    store = storage()
    store.create(NODES, objects.node("n"))
    node = store.get(NODES, "n")
    node["spec"]["unschedulable"] = True
    node["status"]["conditions"] = []
    updated = store.update(NODES, node)
    assert updated["spec"]["unschedulable"] is True
    assert updated["status"]["conditions"]
    updated["spec"].pop("unschedulable")
    updated["status"]["conditions"] = []
    updated = store.update_status(NODES, updated)
    assert updated["spec"]["unschedulable"] is True
    assert "conditions" not in updated["status"]


@simulated
async def test_the_generation_follows_the_specification() -> None:
    """A StatefulSet's generation grows with its specification only."""
    store = storage()
    made = store.create(STATEFUL_SETS, objects.stateful_set("db"))
    assert made["metadata"]["generation"] == 1
    made["metadata"]["labels"] = {"x": "y"}
    made = store.update(STATEFUL_SETS, made)
    made["status"] = {"replicas": 3}
    made = store.update_status(STATEFUL_SETS, made)
    assert made["metadata"]["generation"] == 1
    made["spec"]["replicas"] = 5
    assert store.update(STATEFUL_SETS, made)["metadata"]["generation"] == 2


@simulated
async def test_a_pod_on_a_node_goes_gracefully() -> None:
    """It gets a deletion time and stays until its kubelet deletes it for good; nothing changes that time any more."""
    store = storage()
    store.create(PODS, objects.pod("a", node="n"), Write(keep_status=True))
    store.delete(PODS, "a", "default")
    metadata = store.get(PODS, "a", "default")["metadata"]
    assert metadata["deletionTimestamp"] == "2026-01-01T00:00:30Z"
    assert metadata["deletionGracePeriodSeconds"] == 30
    version = store.version
    store.delete(PODS, "a", "default")
    store.delete(PODS, "a", "default", Deletion(grace_seconds=100))
    assert store.version == version
    store.delete(PODS, "a", "default", Deletion(grace_seconds=0))
    assert store.peek(PODS, "a", "default") is None


@simulated
async def test_a_grace_period_can_only_be_shortened() -> None:
    """A later deletion with less patience moves the end forward."""
    store = storage()
    store.create(PODS, objects.pod("a", node="n"), Write(keep_status=True))
    store.delete(PODS, "a", "default")
    store.delete(PODS, "a", "default", Deletion(grace_seconds=5))
    metadata = store.get(PODS, "a", "default")["metadata"]
    assert metadata["deletionTimestamp"] == "2026-01-01T00:00:05Z"
    assert metadata["deletionGracePeriodSeconds"] == 5


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
@simulated
async def test_a_pod_that_runs_nowhere_goes_at_once(phase: str) -> None:
    """Without a node, or finished, there is nothing to wait for."""
    store = storage()
    pod = objects.pod("a", node="" if phase == "Pending" else "n")
    pod["status"]["phase"] = phase
    store.create(PODS, pod, Write(keep_status=True))
    store.delete(PODS, "a", "default")
    assert store.peek(PODS, "a", "default") is None


@simulated
async def test_finalizers_hold_an_object() -> None:
    """It is marked, and goes when the last finalizer does."""
    store = storage()
    store.create(CONFIG_MAPS, config_map("a", finalizers=["example.com/hold"]))
    store.delete(CONFIG_MAPS, "a", "default")
    held = store.get(CONFIG_MAPS, "a", "default")
    assert held["metadata"]["deletionTimestamp"]
    held["metadata"]["finalizers"] = []
    store.update(CONFIG_MAPS, held)
    assert store.peek(CONFIG_MAPS, "a", "default") is None


@simulated
async def test_a_deletion_meant_for_another_object_is_refused() -> None:
    """UID and version preconditions must be those of the live object."""
    store = storage()
    made = store.create(CONFIG_MAPS, config_map("a"))
    with pytest.raises(PreconditionFailed, match="UID in the precondition"):
        store.delete(CONFIG_MAPS, "a", "default", Deletion(uid="other"))
    with pytest.raises(PreconditionFailed, match="ResourceVersion in the precondition"):
        store.delete(CONFIG_MAPS, "a", "default", Deletion(resource_version="1"))
    store.delete(CONFIG_MAPS, "a", "default", Deletion(uid=made["metadata"]["uid"]))
    with pytest.raises(NotFound):
        store.delete(CONFIG_MAPS, "a", "default")


@simulated
async def test_nothing_is_made_in_a_namespace_that_is_going_or_missing() -> None:
    """The refusals name the cause that clients look for."""
    store = storage()
    store.delete(NAMESPACES, "default")
    with pytest.raises(Forbidden, match="because it is being terminated") as caught:
        store.create(CONFIG_MAPS, config_map("a"))
    assert caught.value.status()["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
        store.create(CONFIG_MAPS, config_map("a", namespace="nowhere"))


@simulated
async def test_a_pod_is_bound_once() -> None:
    """Binding sets the node and says so in the conditions; a second binding is a conflict."""
    store = storage()
    store.create(PODS, objects.pod("a"))
    bound = store.bind("default", "a", "n").copy()
    assert bound["spec"]["nodeName"] == "n"
    assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
    with pytest.raises(Conflict, match="already assigned"):
        store.bind("default", "a", "m")


@simulated
async def test_subscribers_hear_everything_in_order_and_may_write() -> None:
    """First what is there, then every change, never inside of the write."""
    store = storage()
    store.create(CONFIG_MAPS, config_map("there"))
    heard: list[tuple[str, str]] = []

    def handle(event: Event) -> None:
        heard.append((event.type, event.stored.name))
        if event.stored.name == "b" and event.type == "ADDED":
            store.delete(CONFIG_MAPS, "b", "default")

    subscription = store.subscribe(handle, CONFIG_MAPS)
    store.create(CONFIG_MAPS, config_map("a"))
    store.create(CONFIG_MAPS, config_map("b"))
    store.create(NODES, objects.node("n"))
    assert heard == []
    await asyncio.sleep(0.1)
    assert heard == [("ADDED", "there"), ("ADDED", "a"), ("ADDED", "b"), ("DELETED", "b")]
    subscription.close()
    store.create(CONFIG_MAPS, config_map("c"))
    await asyncio.sleep(0.1)
    assert len(heard) == 4


@simulated
async def test_old_versions_can_be_read_until_they_are_forgotten() -> None:
    """A snapshot is what was there then; after compaction there is only now."""
    store = storage()
    store.create(CONFIG_MAPS, config_map("a"))
    store.create(CONFIG_MAPS, config_map("b"))
    version = store.version
    store.delete(CONFIG_MAPS, "a", "default")
    store.create(CONFIG_MAPS, config_map("c"))
    assert [stored.name for stored in store.scan_at(CONFIG_MAPS, version)] == ["a", "b"]
    store.compact()
    with pytest.raises(Compacted):
        store.scan_at(CONFIG_MAPS, version)


@simulated
async def test_the_window_forgets_the_oldest() -> None:
    """A cluster that runs for long keeps at least the window of each kind, and not everything."""
    store = Storage(SimulatedClock(asyncio.get_running_loop()), window=5)
    store.create(NAMESPACES, objects.namespace("default"))
    for number in range(30):
        store.create(CONFIG_MAPS, config_map(f"m{number}"))
    assert len(store.history.since(CONFIG_MAPS, store.version - 5)) == 5
    with pytest.raises(Compacted):
        store.history.since(CONFIG_MAPS, store.version - 15)


@simulated
async def test_the_same_seed_gives_the_same_identities() -> None:
    """Histories can be repeated to the last UID and generated name."""

    def names() -> list[tuple[str, str]]:
        store = storage()
        made = [store.create(CONFIG_MAPS, {"metadata": {"generateName": "x-"}})["metadata"] for _ in range(3)]
        return [(metadata["name"], metadata["uid"]) for metadata in made]

    assert names() == names()


@simulated
async def test_objects_are_dated_by_the_clusters_clock() -> None:
    """Creation times follow simulated time."""
    store = storage()
    await asyncio.sleep(3600)
    made = store.create(CONFIG_MAPS, config_map("a"))
    assert made["metadata"]["creationTimestamp"] == "2026-01-01T01:00:00Z"
    assert store.clock.now() == DEFAULT_EPOCH + 3600
