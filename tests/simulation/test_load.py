"""Many nodes and pods at once, and the numbers that are counted meanwhile."""

import asyncio

import pytest

from ebbtide.kube.client import Client
from ebbtide.sim.actors.kubelet import Timings
from ebbtide.sim.faults import Answer, When
from ebbtide.sim.kinds import PODS
from reconciler.explain.nodes import Explainer
from reconciler.inquiry import Inquiry
from tests.simulation import volumes
from tests.simulation.stage import NAMESPACE, Stage, play
from tests.simulation.test_evictions import A1, EVICTED, SLOW
from tests.simulation.wiretap import EVICTION_PATH, LEASE_PATH


def test_nr_35_heartbeats_cost_nothing() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes(*(f"a{number}" for number in range(200)))
        one = stage.start()
        await stage.until(lambda: one.leads)
        await asyncio.sleep(5)
        looks = one.metric("noderebalance_reconcile_duration_seconds_count")
        before = len(stage.journal.requests)
        await asyncio.sleep(60)
        assert one.metric("noderebalance_reconcile_duration_seconds_count") == looks
        assert {r.path.rsplit("/", 1)[-1] for r in stage.journal.requests[before:]} == {"ebbtide-reconciler"}
        assert all(r.matches("PUT", LEASE_PATH) for r in stage.journal.requests[before:])

    play(story, timings=Timings(beating=10.0), resync_period=86400.0)


def test_nr_51_slow_pods_hold_up_nobody() -> None:
    async def story(stage: Stage) -> None:
        names = [f"a{number}" for number in range(20)]
        stage.nodes(*names)
        for number, name in enumerate(names):
            stage.pods(name, *(f"{name}-{pod}" for pod in range(5)), metadata=SLOW if number < 5 else {})
        one = stage.start()
        await stage.until(lambda: one.leads)
        stage.signal(*names)
        await stage.until(lambda: len(stage.evicted()) == 100, within=30)

    play(story)


def test_nr_52_a_node_that_another_program_drains_is_not_counted() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(30s) C", "a2 S(10s)")
        stage.pods("a1", "p1", "p2", metadata=SLOW)
        for pod in ("p1", "p2"):
            stage.storage.delete(PODS, pod, "default")
        one = stage.start()
        await stage.settle(quiet=60)
        assert not stage.journal.evictions
        assert one.metric(EVICTED, **A1) is None

    play(story)


def test_nr_53_no_more_pods_are_under_way_than_the_operator_allows_and_no_place_stays_free() -> None:
    async def story(stage: Stage) -> None:
        names = [f"a{number}" for number in range(60)]
        stage.nodes(*names)
        for name in names[:30]:
            stage.pods(name, f"{name}-0", f"{name}-1")
        one = stage.start()
        await stage.until(lambda: one.leads)

        async def storm() -> None:
            for name in names[:30]:
                stage.signal(name)
                await asyncio.sleep(2)

        storming = asyncio.ensure_future(storm())
        most = 0
        while not storming.done() or any(stage.on_node(name) for name in names[:30]):
            going = sum(pod.deleting for pod in stage.storage.scan(PODS))
            assert going <= 5
            most = max(most, going)
            assert stage.time < 600
            await asyncio.sleep(0.1)
        assert most == 5
        assert stage.prevented(*names)
        # 60 pods of 10 s each through 5 places are at least 120 s; with a second between them at most 132 s.
        assert stage.time < 120 + 60 + 12

    play(story, timings=Timings(stopping=10.0), max_evictions_in_flight=5)


@pytest.mark.parametrize("how", ["its signal vanishes", "it is deleted", "it is signalled again"])
def test_nr_53_pods_count_until_they_have_gone_even_if_their_node_is_emptied_no_longer(how: str) -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(30s)", "a2 S(20s)", "a3 S(10s)")
        stage.pods("a1", "slow-1", "slow-2", "slow-3", metadata={"annotations": {"sim.ebbtide/stopping": "25"}})
        stage.pods("a2", "p1", "p2")
        stage.start()
        await stage.until(lambda: len(stage.evicted()) == 2)
        begun = stage.time
        if how == "it is deleted":
            # The pods of a node that has gone are there for another 40 s.
            stage.delete("a1")
        else:
            stage.calm("a1")
        if how == "it is signalled again":
            await asyncio.sleep(1)
            stage.signal("a1")
        going = set(stage.evicted())
        await stage.until(lambda: len(stage.evicted()) > 2)
        assert not going & {pod.name for pod in stage.storage.scan(PODS)}
        assert stage.time - begun > 20
        await stage.settle()
        assert {"p1", "p2"} < set(stage.evicted())
        assert ("slow-3" in stage.evicted()) is (how == "it is signalled again")

    play(story, max_evictions_in_flight=2)


def test_nr_54_a_pod_whose_volume_cannot_follow_is_held_where_the_operator_wants_it() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(30s)", "a2 S(10s)", "a3 S(10s) unready")
        for node, claim in (("a1", "disk"), ("a3", "disk"), ("a1", "unbound")):
            stage.pods(node, f"{claim}-on-{node}", **volumes.using(claim))
        stage.pods("a1", "free")
        stage.cluster.create(volumes.claim("disk", "pv-1"), volumes.claim("unbound"), volumes.disk("pv-1", "a"))
        stage.start()
        await stage.settle(quiet=60)

    async def held(stage: Stage) -> None:
        await story(stage)
        assert sorted(stage.evicted()) == ["disk-on-a3", "free", "unbound-on-a1"]
        (event,) = stage.journal.events("EvictionHeld")
        assert event.document["regarding"]["name"] == "disk-on-a1"
        assert "its volume pv-1 exists only in zone a" in event.document["note"]
        await said(stage)
        await asyncio.sleep(1300)
        assert len(stage.journal.events("EvictionHeld")) == 1
        assert "disk-on-a1" not in stage.evicted()

    async def said(stage: Stage) -> None:
        """As explanations of the running cluster say it, of the node and of the pod."""
        async with Client(stage.cluster.access(), field_manager="test", user_agent="test") as client:
            explainer = Explainer(Inquiry(client, stage.settings, NAMESPACE), stage.settings, stage.cluster.clock)
            for found in (await explainer.node("a1"), await explainer.pod("default", "disk-on-a1")):
                held = {each.what: each.reason for each in found.held_back}
                assert held["evict pod default/disk-on-a1"] == "its volume pv-1 exists only in zone a"

    async def evicted(stage: Stage) -> None:
        await story(stage)
        assert len(stage.evicted()) == 4
        assert not stage.journal.events("EvictionHeld")

    play(held, zonal_volume_policy="hold")
    play(evicted)


def test_nr_55_a_node_is_counted_once_for_each_signal() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(30s)", "a2 S(10s)")
        stage.pods("a1", *(f"p{number}" for number in range(30)))
        stage.faults.inject(Answer(503, "ServiceUnavailable"), When("POST", EVICTION_PATH))
        one = stage.start()
        await stage.until(lambda: len(stage.journal.evictions) >= 40)
        assert not one.metric(EVICTED, **A1)
        stage.faults.clear()
        await stage.settle(quiet=60)
        assert one.metric(EVICTED, **A1) == 1
        stage.calm("a1")
        await asyncio.sleep(5)
        stage.pods("a1", "again")
        stage.signal("a1")
        await stage.settle()
        assert one.metric(EVICTED, **A1) == 2
        stage.delete("a1")
        await asyncio.sleep(1)
        assert one.metric(EVICTED, **A1) is None

    play(story)


def test_nr_56_metrics_know_living_nodes_only() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(10s)", "b1")
        one = stage.start()
        await stage.until(lambda: one.leads)
        for number in range(2, 60):
            stage.join(f"a{number}")
            stage.pods(f"a{number}", f"p{number}")
            stage.signal(f"a{number}")
            await asyncio.sleep(5)
            stage.delete(f"a{number}")
        await asyncio.sleep(5)
        nodes = [s.labels["node"] for m in one.program.registry.collect() for s in m.samples if "node" in s.labels]
        assert set(nodes) <= {"a1"}
        stage.delete("b1")
        await asyncio.sleep(1)
        assert one.state("b") == ""

    play(story)
