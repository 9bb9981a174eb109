"""Everything together on simulated time: what a cluster does by itself around a blocked zone."""

import asyncio
from dataclasses import replace

from ebbtide.sim.actors.autoscaler import Policy, Removal
from ebbtide.sim.actors.cloud import Delivery
from ebbtide.sim.actors.growth import Expander
from ebbtide.sim.deletion import Deletion
from ebbtide.sim.kinds import (
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    STATEFUL_SETS,
)
from ebbtide.sim.stored import Object
from ebbtide.sim.time import simulate
from ebbtide.vocabulary import SIGNAL_TAINT_KEY
from tests.ebbtide.sim.actors.things import P, deployment, stateful_set, taint
from tests.ebbtide.sim.actors.world import TIMINGS, World, world

BEATING = replace(TIMINGS, beating=10)


def test_a_database_spreads_over_two_zones_and_keeps_its_volumes() -> None:
    """Three members start in order, each with a volume where it runs."""

    async def story() -> None:
        async with world(sizes={"a": 2, "b": 2}) as life:
            life.storage.create(STATEFUL_SETS, stateful_set(3, claims=["data"]))
            await life.settled(3)
            assert set(life.zones()) == {"db-0", "db-1", "db-2"}
            assert set(life.zones().values()) == {"a", "b"}
            claim = life.storage.get(PERSISTENT_VOLUME_CLAIMS, "data-db-0", "default")
            volume = life.storage.get(PERSISTENT_VOLUMES, claim["spec"]["volumeName"])
            terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
            assert terms[0]["matchExpressions"][0]["values"] == [life.zones()["db-0"]]
            await life.until(lambda: life.storage.get(STATEFUL_SETS, "db", "default")["status"]["readyReplicas"] == 3)

    simulate(story())


def test_a_quiet_cluster_writes_nothing() -> None:
    async def story() -> None:
        async with world(sizes={"a": 1, "b": 1}, policy=Policy(removes_nodes=False)) as life:
            life.storage.create(DEPLOYMENTS, deployment(2))
            await life.settled(2)
            await asyncio.sleep(1)
            before = life.storage.version
            await asyncio.sleep(3600)
            assert life.storage.version == before

    simulate(story())


def test_an_evicted_pod_comes_up_in_the_other_zone() -> None:
    async def story() -> None:
        async with world(sizes={"a": 1, "b": 1}) as life:
            life.storage.create(DEPLOYMENTS, deployment(2))
            await life.settled(2)
            assert sorted(life.zones().values()) == ["a", "b"]
            [moved] = [pod for pod, zone in life.zones().items() if zone == "a"]
            life.change(life.nodes("a")[0], P)
            life.evict(moved)
            await life.settled(2)
            assert moved not in life.zones()
            assert set(life.zones().values()) == {"b"}

    simulate(story())


def test_a_pod_with_a_zonal_volume_cannot_follow() -> None:
    async def story() -> None:
        async with world(sizes={"a": 1, "b": 1}) as life:
            life.storage.create(STATEFUL_SETS, stateful_set(1, claims=["data"]))
            await life.settled(1)
            [(member, zone)] = life.zones().items()
            life.change(life.host(member), P)
            life.evict(member)
            await asyncio.sleep(60)
            assert life.zones() == {}
            said = life.storage.get(PODS, member, "default")["status"]["conditions"]
            [refusal] = [each for each in said if each["type"] == "PodScheduled"]
            assert refusal["reason"] == "Unschedulable"
            assert refusal["message"] == (
                "0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, "
                "1 node(s) had untolerated taint(s)."
            )
            assert zone in {"a", "b"}

    simulate(story())


async def _crowded(life: World, within: float = 600) -> None:
    """More pods than the present nodes take."""
    life.storage.create(DEPLOYMENTS, deployment(4, cpu="3"))
    await life.until(lambda: sum(pod.startswith("web") for pod in life.zones()) == 4, within)


def test_the_other_zone_grows_when_one_is_fully_tainted() -> None:
    async def story() -> None:
        async with world(sizes={"a": 2, "b": 1}) as life:
            for node in life.nodes("a"):
                life.change(node, P)
            await _crowded(life)
            assert set(life.growths()) == {"g-b"}
            assert set(life.zones().values()) == {"b"}

    simulate(story())


def test_one_clean_node_leaks_new_nodes_into_the_zone() -> None:
    """Its cordoned neighbour keeps pods out; the clean one is full and still the template."""

    async def story() -> None:
        async with world(sizes={"a": 2}) as life:
            clean, tainted = life.nodes("a")
            life.change(tainted, P)
            life.storage.create(DEPLOYMENTS, deployment(2, cpu="3"))
            await life.until(lambda: bool(life.growths()))
            assert life.growths()[0] == "g-a"
            assert life.host(next(iter(life.zones()))) == clean

    simulate(story())


def test_a_blocked_zone_holds_for_an_hour() -> None:
    async def story() -> None:
        async with world(sizes={"a": 2}) as life:
            for node in life.nodes("a"):
                life.change(node, P)
            life.storage.create(DEPLOYMENTS, deployment(1))
            await asyncio.sleep(3600)
            assert life.growths() == []

    simulate(story())


def test_a_cordoned_zone_grows_in_spite_of_its_taints_after_a_restart() -> None:
    """Without a node to copy and without memory the cloud's own, clean template counts."""

    async def story() -> None:
        async with world(sizes={"a": 2}) as life:
            for node in life.nodes("a"):
                life.change(node, P, cordoned=True)
            life.autoscaler.restart()
            life.storage.create(DEPLOYMENTS, deployment(1))
            await life.until(lambda: life.growths() == ["g-a"])

    simulate(story())


def test_a_cordoned_zone_stays_closed_while_the_autoscaler_remembers_the_taint() -> None:
    async def story() -> None:
        async with world(sizes={"a": 2}) as life:
            for node in life.nodes("a"):
                life.change(node, P)
            await asyncio.sleep(21)
            for node in life.nodes("a"):
                life.change(node, P, cordoned=True)
            life.storage.create(DEPLOYMENTS, deployment(1))
            await asyncio.sleep(600)
            assert life.growths() == []
            assert life.autoscaler.cache["g-a"].node["spec"]["taints"] == [P]
            life.autoscaler.restart()
            await life.until(lambda: life.growths() == ["g-a"])

    simulate(story())


def test_a_group_that_left_while_tainted_never_grows_again() -> None:
    async def story() -> None:
        async with world(sizes={"a": 1}) as life:
            [last] = life.nodes("a")
            life.change(last, P)
            await asyncio.sleep(21)
            life.cloud.terminate(last)
            life.storage.create(DEPLOYMENTS, deployment(1))
            await asyncio.sleep(3600)
            assert life.growths() == []
            [entry] = life.autoscaler.diary
            assert str(entry.decision).endswith(f"(template: cache (node {last}))]")

    simulate(story())


def test_late_labels_leave_a_node_outside_for_a_while() -> None:
    async def story() -> None:
        async with world(sizes={"a": 1}, delivery=Delivery(delay=30, labels_after=20)) as life:
            await _crowded(life)
            assert len(life.nodes("a")) == 4

    simulate(story())


def test_an_interrupted_node_is_gone_after_two_minutes_and_its_pods_come_back() -> None:
    async def story() -> None:
        async with world(sizes={"a": 1, "b": 2}) as life:
            life.storage.create(DEPLOYMENTS, deployment(3))
            await life.settled(3)
            [node] = life.nodes("a")
            life.spot.recommend(node)
            assert life.storage.get(NODES, node)["spec"]["taints"][0]["key"] == SIGNAL_TAINT_KEY
            await life.spot.interrupt(node)
            assert life.nodes("a") == []
            await life.until(lambda: list(life.zones().values()) == ["b", "b", "b"])

    simulate(story())


def test_a_false_alarm_leaves_no_trace() -> None:
    async def story() -> None:
        async with world(sizes={"a": 1}) as life:
            [node] = life.nodes("a")
            before = life.storage.get(NODES, node)["spec"]
            life.spot.recommend(node)
            life.spot.withdraw(node)
            assert life.storage.get(NODES, node)["spec"] == before

    simulate(story())


def test_nodes_that_nobody_needs_are_marked_and_removed_down_to_the_least() -> None:
    async def story() -> None:
        async with world(sizes={"a": 2}, policy=Policy(unneeded_for=120)) as life:
            await life.until(lambda: life.nodes("a") == [], within=1200)
            assert sum(isinstance(entry.decision, Removal) for entry in life.autoscaler.diary) == 2

    simulate(story())


def test_a_node_is_drained_within_the_budget_before_it_is_removed() -> None:
    """Two lightly used nodes become one; a budget without room holds the pods where they are."""

    async def story() -> None:
        async with world(sizes={"a": 2}, policy=Policy(unneeded_for=120)) as life:
            budget = {
                "metadata": {"name": "web", "namespace": "default"},
                "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
            }
            life.storage.create(POD_DISRUPTION_BUDGETS, budget)
            life.storage.create(DEPLOYMENTS, deployment(2))
            await life.settled(2)
            settled = set(life.zones())
            await asyncio.sleep(1800)
            assert set(life.zones()) == settled
            assert len(life.nodes("a")) == 2
            life.storage.delete(POD_DISRUPTION_BUDGETS, "web", "default")
            await life.until(lambda: len(life.nodes("a")) == 1, within=1800)
            await life.settled(2)

    simulate(story())


def test_a_pod_is_driven_out_by_a_taint_that_it_does_not_tolerate() -> None:
    async def story() -> None:
        async with world(sizes={"a": 1, "b": 1}) as life:
            life.storage.create(DEPLOYMENTS, deployment(2))
            await life.settled(2)
            life.change(life.nodes("a")[0], taint("go", effect="NoExecute"))
            await life.until(lambda: list(life.zones().values()) == ["b", "b"])

    simulate(story())


def test_heartbeats_touch_the_nodes_status_only() -> None:
    """Each beat is one write per node, and nobody else reacts to it."""

    async def story() -> None:
        async with world(sizes={"a": 1}, policy=Policy(removes_nodes=False), timings=BEATING) as life:
            [name] = life.nodes("a")
            before, version = life.storage.get(NODES, name), life.storage.version
            await asyncio.sleep(100)
            after = life.storage.get(NODES, name)
            assert life.storage.version - version in {9, 10, 11}
            assert after["spec"] == before["spec"]
            ready = next(each for each in after["status"]["conditions"] if each["type"] == "Ready")
            assert ready["lastTransitionTime"] < ready["lastHeartbeatTime"]

    simulate(story())


def test_without_spot_capacity_the_autoscaler_turns_to_another_group() -> None:
    async def story() -> None:
        async with world(sizes={"a": 1, "b": 1}) as life:
            life.cloud.exhaust("g-a")
            await _crowded(life, within=3600)
            assert "g-b" in life.growths()

    simulate(story())


def test_a_finalizer_outlasts_the_pod_that_it_holds() -> None:
    async def story() -> None:
        async with world(sizes={"a": 1, "b": 1}) as life:
            life.storage.create(DEPLOYMENTS, deployment(1))
            await life.settled(1)
            [name] = life.zones()
            pod = life.storage.get(PODS, name, "default")
            pod["metadata"]["finalizers"] = ["example.com/hold"]
            life.storage.update(PODS, pod)
            life.evict(name)
            await asyncio.sleep(120)
            held = life.storage.get(PODS, name, "default")
            assert held["metadata"]["deletionGracePeriodSeconds"] == 0
            assert len(life.zones()) == 1
            del held["metadata"]["finalizers"]
            life.storage.update(PODS, held)
            assert life.storage.peek(PODS, name, "default") is None

    simulate(story())


def test_what_a_deleted_set_owned_goes_with_it() -> None:
    async def story() -> None:
        async with world(sizes={"a": 2}) as life:
            policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
            body = stateful_set(2, claims=["data"], persistentVolumeClaimRetentionPolicy=policy)
            life.storage.create(STATEFUL_SETS, body)
            await life.settled(2)
            life.storage.delete(STATEFUL_SETS, "db", "default", Deletion(propagation="Foreground"))
            await life.until(lambda: not list(life.storage.scan(PERSISTENT_VOLUMES)))
            assert not list(life.storage.scan(PODS))
            assert not list(life.storage.scan(PERSISTENT_VOLUME_CLAIMS))
            assert life.storage.peek(STATEFUL_SETS, "db", "default") is None

    simulate(story())


def test_a_deleted_namespace_takes_everything_in_it_along() -> None:
    async def story() -> None:
        async with world(sizes={"a": 1}) as life:
            life.storage.create(DEPLOYMENTS, deployment(2))
            await life.settled(2)
            life.storage.delete(NAMESPACES, "default")
            await life.until(lambda: life.storage.peek(NAMESPACES, "default") is None)
            assert not list(life.storage.scan(PODS))

    simulate(story())


def test_the_same_story_gives_the_same_cluster() -> None:
    """Names, places, times and the autoscaler's choices repeat exactly."""

    async def story() -> tuple[list[Object], list[str]]:
        async with world(sizes={"a": 1, "b": 1}, policy=Policy(expander=Expander.RANDOM)) as life:
            life.storage.create(STATEFUL_SETS, stateful_set(3, claims=["data"], cpu="2"))
            await _crowded(life)
            return life.storage.list(PODS), [str(entry) for entry in life.autoscaler.diary]

    assert simulate(story()) == simulate(story())
