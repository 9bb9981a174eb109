"""What goes with its owner or its namespace."""

import asyncio

from ebbtide.sim import objects
from ebbtide.sim.kinds import CONFIG_MAPS, NAMESPACES, PODS, REPLICA_SETS
from tests.ebbtide.sim.talk import Object, Talk, embedded, simulated

PATH = "/apis/apps/v1/namespaces/default/replicasets/web"


def owned(talk: Talk) -> Object:
    """A ReplicaSet with two pods."""
    (owner,) = talk.cluster.create(objects.replica_set("web", replicas=2))
    talk.cluster.create(*(objects.pod(name, owner=owner) for name in ("a", "b")))
    return owner


def pods(talk: Talk) -> list[str]:
    return [pod.name for pod in talk.cluster.storage.scan(PODS)]


@simulated
async def test_dependents_follow_their_owner() -> None:
    """In the background, a moment later."""
    async with embedded() as talk:
        owned(talk)
        await talk.delete(PATH)
        await asyncio.sleep(1)
        assert pods(talk) == []


@simulated
async def test_one_living_owner_is_enough() -> None:
    """An object with two owners stays, and forgets the one that has gone."""
    async with embedded() as talk:
        owner = owned(talk)
        (other,) = talk.cluster.create({**objects.namespace("x"), "kind": "ConfigMap", "metadata": {"name": "x"}})
        references = [objects.owner_reference(owner), objects.owner_reference(other, controller=False)]
        await talk.merge("/api/v1/namespaces/default/pods/a", {"metadata": {"ownerReferences": references}})
        await talk.delete(PATH)
        await asyncio.sleep(1)
        assert pods(talk) == ["a"]
        left = talk.cluster.storage.get(PODS, "a", "default")["metadata"]["ownerReferences"]
        assert [reference["kind"] for reference in left] == ["ConfigMap"]


@simulated
async def test_orphans_stay() -> None:
    """Deleted with `Orphan`, an owner leaves its dependents behind, without a reference."""
    async with embedded() as talk:
        owned(talk)
        await talk.delete(f"{PATH}?propagationPolicy=Orphan")
        await asyncio.sleep(1)
        assert talk.cluster.storage.peek(REPLICA_SETS, "web", "default") is None
        assert pods(talk) == ["a", "b"]
        assert "ownerReferences" not in talk.cluster.storage.get(PODS, "a", "default")["metadata"]


@simulated
async def test_a_foreground_deletion_waits_for_the_dependents() -> None:
    """The owner stays, marked, until the last of them has gone."""
    async with embedded() as talk:
        owned(talk)
        hold = {"metadata": {"finalizers": ["example.com/hold"]}}
        await talk.merge("/api/v1/namespaces/default/pods/a", hold)
        await talk.delete(f"{PATH}?propagationPolicy=Foreground")
        await asyncio.sleep(1)
        assert pods(talk) == ["a"]
        assert talk.cluster.storage.find(REPLICA_SETS, "web", "default").deleting
        await talk.merge("/api/v1/namespaces/default/pods/a", {"metadata": {"finalizers": None}})
        await asyncio.sleep(1)
        assert pods(talk) == []
        assert talk.cluster.storage.peek(REPLICA_SETS, "web", "default") is None


@simulated
async def test_an_object_whose_owner_never_was_goes() -> None:
    """A reference to a UID that nothing has is a reference to something that has gone."""
    async with embedded() as talk:
        owner = objects.changed(owned(talk), {"metadata": {"uid": "never"}})
        talk.cluster.create(objects.pod("stray", owner=owner))
        await asyncio.sleep(1)
        assert pods(talk) == ["a", "b"]


@simulated
async def test_a_namespace_goes_when_it_is_empty() -> None:
    """Its content is deleted first; what is held holds the namespace."""
    async with embedded() as talk:
        talk.cluster.create(objects.namespace("going"))
        held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
        await talk.post("/api/v1/namespaces/going/configmaps", held)
        await talk.post("/api/v1/namespaces/going/configmaps", {"metadata": {"name": "free"}})
        answer = await talk.delete("/api/v1/namespaces/going")
        assert answer.body["status"]["phase"] == "Terminating"
        await asyncio.sleep(1)
        assert [stored.name for stored in talk.cluster.storage.scan(CONFIG_MAPS, "going")] == ["held"]
        await talk.merge("/api/v1/namespaces/going/configmaps/held", {"metadata": {"finalizers": None}})
        await asyncio.sleep(1)
        assert talk.cluster.storage.peek(NAMESPACES, "going") is None
