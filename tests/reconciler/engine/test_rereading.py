"""A node is read after a refused write, and only if that can bring news."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from ebbtide.kube.client import Client
from ebbtide.kube.resources import NODES
from ebbtide.kube.store import Store
from ebbtide.model import CellLabels, NodeFacts, node_facts
from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.faults import Answer, When
from reconciler.engine.rereading import read_again


@dataclass
class Scene:
    """A node that has changed since the store was told of it."""

    cluster: Cluster
    client: Client
    nodes: Store[NodeFacts]
    refused: NodeFacts

    @property
    def known(self) -> NodeFacts:
        (facts,) = self.nodes.values()
        return facts

    def reads(self) -> int:
        return sum(count for call, count in self.client.sent.items() if call.verb == "get")


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with Cluster() as cluster:
        cluster.create(objects.node("a1", group="g", zone="a"))
        async with Client(cluster.access(), field_manager="test", user_agent="test") as client:
            nodes = Store(lambda raw: node_facts(raw, CellLabels()))
            world = nodes.gather()
            found, version = await client.list_all(NODES)
            for raw in found:
                world.apply("ADDED", raw)
            nodes.swap(world, version)
            (refused,) = nodes.values()
            await client.patch_merge(NODES, "a1", {"metadata": {"labels": {"changed": "yes"}}})
            yield Scene(cluster, client, nodes, refused)


async def test_what_the_watch_has_not_told_yet_is_read(scene: Scene) -> None:
    await read_again(scene.client, scene.nodes, scene.refused)
    assert scene.known.resource_version > scene.refused.resource_version
    assert scene.reads() == 1


async def test_what_the_watch_has_told_is_not_read_again(scene: Scene) -> None:
    await read_again(scene.client, scene.nodes, scene.refused)
    await read_again(scene.client, scene.nodes, scene.refused)
    assert scene.reads() == 1


async def test_a_read_that_fails_leaves_everything_as_it_was(scene: Scene) -> None:
    """The caller goes on with the refusal."""
    scene.cluster.faults.inject(Answer(403, "Forbidden", "no"), When(method="GET", path="*/nodes/a1"))
    await read_again(scene.client, scene.nodes, scene.refused)
    assert scene.known == scene.refused
