"""What tests stand on: nodes, workloads, evictions and service accounts of a world behave as in a real cluster."""

import pytest

from ebbtide import vocabulary
from ebbtide.kube.client import Client
from ebbtide.kube.errors import Forbidden
from ebbtide.kube.resources import NODES, PODS
from tests.controlplane.world import FOREIGN_TAINT, World

pytestmark = pytest.mark.controlplane


async def test_an_evicted_pod_comes_back_elsewhere(cluster: World) -> None:
    """A pod evicted from a cordoned node is Ready in the other zone: all that zone rebalance needs of a cluster."""
    left = await cluster.add_nodes("a", 1, taints=[FOREIGN_TAINT])
    await cluster.stateful_set("db", 1, labels={"role": "db"})
    (pod,) = await cluster.ready_pods("db", 1)
    assert await cluster.zone_of(pod) == "a"
    await cluster.add_nodes("b", 1)
    await cluster.signal(left[0], time_added="2026-01-01T00:00:00Z")
    await cluster.cordon(left[0])
    assert await cluster.taint_keys(left[0]) == [
        FOREIGN_TAINT["key"],
        vocabulary.SIGNAL_TAINT_KEY,
        "node.kubernetes.io/unschedulable",
    ]

    await cluster.client.evict("db-0", namespace=cluster.namespace, uid=pod["metadata"]["uid"])

    async def moved() -> bool:
        (now,) = await cluster.ready_pods("db", 1)
        return bool(now["metadata"]["uid"] != pod["metadata"]["uid"]) and await cluster.zone_of(now) == "b"

    await cluster.wait_until(moved, "the pod is Ready in zone b")


async def test_a_lingering_pod_takes_its_grace_period(cluster: World) -> None:
    """A pod that lingers is Terminating for its grace period, and then gone."""
    await cluster.add_nodes("a", 1)
    await cluster.pod("slow", lingers=True, terminationGracePeriodSeconds=15)
    (pod,) = await cluster.ready_pods("slow", 1)
    await cluster.client.evict("slow", namespace=cluster.namespace, uid=pod["metadata"]["uid"])
    await cluster.client.patch_merge(
        PODS, "slow", {"metadata": {"labels": {"seen": "terminating"}}}, namespace=cluster.namespace
    )

    async def gone() -> bool:
        return not await cluster.pods()

    await cluster.wait_until(gone, "the pod is gone")


async def test_a_service_account_may_do_what_its_rules_say(cluster: World) -> None:
    """Permissions are real: reading nodes is granted, changing them is refused."""
    (node,) = await cluster.add_nodes("a", 1)
    token = await cluster.account("reader", [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}])
    async with Client(cluster.access(token), field_manager="reader", user_agent="reader") as client:
        assert (await client.get(NODES, node))["metadata"]["name"] == node
        with pytest.raises(Forbidden):
            await client.patch_merge(NODES, node, {"spec": {"unschedulable": True}})
