"""Writes to nodes that change meanwhile, at the wire of the embedded cluster."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from ebbtide.clock import SystemClock
from ebbtide.kube.client import Client
from ebbtide.kube.errors import NotLeading
from ebbtide.kube.resources import NODES
from ebbtide.kube.store import Store
from ebbtide.model import CellLabels, NodeFacts, node_facts
from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.faults import Answer, When
from reconciler.rebalance.act import Act, Outcome
from reconciler.rebalance.plan import Change, NodeWrite, Wish
from tests.reconciler.rebalance.builders import DEFAULTS, PREVENT, plan

FOREIGN = objects.taint("example.com/dedicated", "db")


@dataclass
class Scene:
    """One node with a foreign taint, the store that knows it, and what carries plans out."""

    cluster: Cluster
    client: Client
    store: Store[NodeFacts]
    act: Act

    async def listed(self) -> NodeFacts:
        """The store as it is after the watch has caught up; the node in it."""
        found, version = await self.client.list_all(NODES)
        world = self.store.gather()
        for raw in found:
            world.apply("ADDED", raw)
        self.store.swap(world, version)
        (facts,) = self.store.values()
        return facts

    async def heartbeat(self) -> None:
        ready = objects.ready_condition(ready=True) | {"lastHeartbeatTime": "2026-03-01T12:00:00Z"}
        body = {"status": {"conditions": [ready]}}
        await self.client.patch_merge(NODES, "a1", body, subresource="status")

    async def close(self, decided: NodeFacts) -> Outcome:
        """Carries out what was decided on that value of the node."""
        write = NodeWrite(decided, Change.SET, Change.LEAVE, signalled=True)
        return await self.act.write(replace(plan(Wish.BLOCK), writes=(write,)))

    async def taints(self) -> list[str]:
        raw: dict[str, Any] = await self.client.get(NODES, "a1")
        return [taint["key"] for taint in raw["spec"]["taints"]]


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with Cluster() as cluster:
        cluster.create(objects.node("a1", group="g", zone="a", taints=[FOREIGN]))
        async with Client(cluster.access(), field_manager="test", user_agent="test") as client:
            store = Store(lambda raw: node_facts(raw, CellLabels()))
            yield Scene(cluster, client, store, Act(client, store, DEFAULTS, SystemClock()))


async def test_a_decision_holds_for_every_version_that_says_the_same(scene: Scene) -> None:
    """Nodes send heartbeats all the time: a value from before the last of them is as good as the newest."""
    decided = await scene.listed()
    await scene.heartbeat()
    assert (await scene.listed()).resource_version > decided.resource_version
    outcome = await scene.close(decided)
    assert outcome.complete
    assert await scene.taints() == [FOREIGN["key"], PREVENT]


async def test_a_heartbeat_that_the_watch_has_not_told_yet_holds_up_no_write(scene: Scene) -> None:
    """The server refuses the old version once; the node is read, says the same, and is written."""
    decided = await scene.listed()
    await scene.heartbeat()
    outcome = await scene.close(decided)
    assert outcome.complete
    assert len(outcome.written) == 1
    assert await scene.taints() == [FOREIGN["key"], PREVENT]


@pytest.mark.parametrize("told", [True, False])
async def test_a_node_that_says_something_else_by_now_is_not_written(told: bool, scene: Scene) -> None:
    """Somebody has added a taint: whether the watch has told that or not, there has to be a new decision."""
    decided = await scene.listed()
    taints = [objects.taint("example.com/new"), FOREIGN]
    await scene.client.patch_merge(NODES, "a1", {"spec": {"taints": taints}})
    if told:
        await scene.listed()
    outcome = await scene.close(decided)
    assert outcome.refused == ("a1",)
    assert await scene.taints() == ["example.com/new", FOREIGN["key"]]
    known = scene.store.get("a1")
    assert known is not None
    assert len(known.taints) == 2


async def test_what_the_server_will_not_have_at_all_is_a_failure_with_its_answer(scene: Scene) -> None:
    """A policy that refuses the write is no sign that the node has changed: the others go on, its words are kept."""
    facts = await scene.listed()
    scene.cluster.faults.inject(Answer(422, "Invalid", "denied by policy"), When(method="PATCH", path="*/nodes/a1"))
    outcome = await scene.close(facts)
    assert outcome.refused == ()
    ((name, error),) = outcome.failed
    assert name == "a1"
    assert "denied by policy" in str(error)
    assert PREVENT not in await scene.taints()


async def test_whoever_does_not_lead_any_more_writes_nothing_and_is_told_so(scene: Scene) -> None:
    """By the error itself and not by a group of it: the engine drops the key, the next leader has its own."""
    decided = await scene.listed()
    scene.act = Act(scene.client.permitted(lambda: False), scene.store, DEFAULTS, SystemClock())
    with pytest.raises(NotLeading):
        await scene.close(decided)
    assert await scene.taints() == [FOREIGN["key"]]
