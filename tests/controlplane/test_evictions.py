"""Evictions on a real control plane: budgets, many pods, slow pods, and every pod that is left alone."""

from functools import partial
from pathlib import Path

import pytest

from ebbtide import vocabulary
from ebbtide.kube.resources import EVENTS, NAMESPACES, PDBS
from tests.controlplane.expectations import accepted, all_in_zone, evictions
from tests.controlplane.program import running, scrape
from tests.controlplane.proxy import Delay, FaultProxy, Refuse
from tests.controlplane.world import World, wait_until

pytestmark = pytest.mark.controlplane

OLD = "1700000000"


async def asked_for(proxy: FaultProxy, pod: str) -> int:
    return len([seen for seen in evictions(proxy) if f"/pods/{pod}/" in seen.path])


async def test_a_budget_holds_back_its_pods_only_until_it_allows_them(
    tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    """Pods without a budget go at once; the refused one is asked for again and goes when the budget lets it."""
    (node,) = await cluster.add_nodes("a", 1)
    await cluster.deployment("free", 4)
    await cluster.deployment("guarded", 1)
    await cluster.ready_pods("free", 4)
    (guarded,) = await cluster.ready_pods("guarded", 1)
    await cluster.budget("guarded", {"app": "guarded"}, maxUnavailable=0)
    await cluster.add_nodes("b", 1)
    await cluster.signal(node, value=OLD)
    name = guarded["metadata"]["name"]
    async with running(tmp_path, cluster, proxy) as url:
        await all_in_zone(cluster, "free", 4, "b")

        async def refused_twice() -> bool:
            return ((await scrape(url)).value("noderebalance_evictions_total", result="budget") or 0) >= 2

        await wait_until(refused_twice, "the guarded pod is asked for again")
        assert await asked_for(proxy, name) >= 2
        await cluster.client.patch_merge(PDBS, "guarded", {"spec": {"maxUnavailable": 1}}, namespace=cluster.namespace)
        await all_in_zone(cluster, "guarded", 1, "b")
    assert max(accepted(proxy).values()) == 1


async def test_thirty_pods_without_a_budget_all_leave(tmp_path: Path, cluster: World, proxy: FaultProxy) -> None:
    """Every pod of a crowded node is asked for exactly once, and never more than eight of a namespace at a time.

    Answers come late, after the watch has told that the pods are terminating: they count until they are there.
    """
    proxy.inject(Delay(after=0.2), method="POST", path="/eviction")
    (node,) = await cluster.add_nodes("a", 1)
    await cluster.deployment("crowd", 30)
    await cluster.ready_pods("crowd", 30)
    await cluster.add_nodes("b", 1)
    await cluster.signal(node, value=OLD)
    async with running(tmp_path, cluster, proxy):
        await all_in_zone(cluster, "crowd", 30, "b")
    assert len(evictions(proxy)) == 30
    assert len(accepted(proxy)) == 30
    assert proxy.most_at_once("POST", "/eviction") <= 8


async def test_a_pod_that_takes_long_to_end_holds_up_nobody(tmp_path: Path, cluster: World, proxy: FaultProxy) -> None:
    """Another node's pods leave while the first node's pod is still terminating."""
    slow_node, other = await cluster.add_nodes("a", 2)
    pin = partial(_on, node=slow_node)
    await cluster.pod("slow", **pin(), lingers=True, terminationGracePeriodSeconds=600)
    await cluster.deployment("quick", 3, **_on(other))
    await cluster.ready_pods("slow", 1)
    await cluster.ready_pods("quick", 3)
    await cluster.signal(slow_node)
    await cluster.signal(other)
    async with running(tmp_path, cluster, proxy):

        async def all_asked() -> bool:
            return len(accepted(proxy)) >= 4

        await wait_until(all_asked, "the slow pod and the three quick ones are evicted")
        (slow,) = await cluster.pods("slow")
        assert "deletionTimestamp" in slow["metadata"]
        assert await asked_for(proxy, "slow") == 1


async def test_pods_that_must_stay_are_never_asked_for(tmp_path: Path, cluster: World, proxy: FaultProxy) -> None:
    """DaemonSet, static, finished and tolerant pods, and those of an ignored namespace, are left alone."""
    (node,) = await cluster.add_nodes("a", 1)
    here = _on(node)
    tolerant = [{"operator": "Exists"}]
    await cluster.pod("tolerant", **here, tolerations=tolerant)
    await cluster.pod("mirror", nodeName=node, annotations={vocabulary.MIRROR_POD_ANNOTATION: "x"})
    await cluster.daemon_set("agent")
    await cluster.pod("bare", **here)
    for app in ("tolerant", "mirror", "agent", "bare"):
        await cluster.ready_pods(app, 1)
    await cluster.signal(node, value=OLD)
    async with running(tmp_path, cluster, proxy):

        async def bare_gone() -> bool:
            return not await cluster.pods("bare")

        await wait_until(bare_gone, "the bare pod is gone")
    assert [seen.path.split("/pods/")[1].split("/")[0] for seen in evictions(proxy)] == ["bare"]


async def test_an_ignored_namespace_keeps_its_pods(tmp_path: Path, cluster: World, proxy: FaultProxy) -> None:
    """The operator's annotation on a namespace holds its pods back; taking it off lets them go at once."""
    (node,) = await cluster.add_nodes("a", 1)
    await cluster.pod("bare", **_on(node))
    await cluster.ready_pods("bare", 1)
    await _annotate_namespace(cluster, vocabulary.BLOCK_IGNORE)
    await cluster.signal(node, value=OLD)
    async with running(tmp_path, cluster, proxy) as url:

        async def blocked() -> bool:
            return (await scrape(url)).value("noderebalance_prevent_ca_scale_up", node_zone="a") == 1

        await wait_until(blocked, "the zone is blocked")
        assert not evictions(proxy)
        await _annotate_namespace(cluster, None)

        async def gone() -> bool:
            return not await cluster.pods("bare")

        await wait_until(gone, "the pod is evicted")


async def test_two_budgets_over_one_pod_are_told_and_stop_nobody(
    tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    """A pod under two budgets gets a Warning event that names it, and the others leave meanwhile."""
    (node,) = await cluster.add_nodes("a", 1)
    await cluster.deployment("free", 2)
    await cluster.deployment("torn", 1)
    await cluster.ready_pods("free", 2)
    (torn,) = await cluster.ready_pods("torn", 1)
    await cluster.budget("one", {"app": "torn"}, maxUnavailable=1)
    await cluster.budget("two", {"app": "torn"}, maxUnavailable=1)
    await cluster.add_nodes("b", 1)
    await cluster.signal(node, value=OLD)
    async with running(tmp_path, cluster, proxy):
        await all_in_zone(cluster, "free", 2, "b")

        async def told() -> bool:
            events = [event async for event in cluster.client.list(EVENTS, namespace=cluster.namespace)]
            return any(
                event["reason"] == "EvictionMisconfigured" and event["regarding"]["name"] == torn["metadata"]["name"]
                for event in events
            )

        await wait_until(told, "an event names the pod")
    assert await asked_for(proxy, torn["metadata"]["name"]) == 1


@pytest.mark.parametrize("retry_after", [None, 1])
async def test_an_overloaded_server_is_given_time_and_the_pods_still_leave(
    retry_after: int | None, tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    """429 without a budget's cause holds back every eviction, not the taints, and ends with all pods moved."""
    (node,) = await cluster.add_nodes("a", 1)
    await cluster.deployment("crowd", 5)
    await cluster.ready_pods("crowd", 5)
    await cluster.add_nodes("b", 1)
    await cluster.signal(node, value=OLD)
    proxy.inject(Refuse(429, retry_after=retry_after), method="POST", path="/eviction", times=3)
    async with running(tmp_path, cluster, proxy) as url:
        await all_in_zone(cluster, "crowd", 5, "b")
        throttled = (await scrape(url)).value("noderebalance_evictions_total", result="throttled")
        assert throttled is not None


def _on(node: str) -> dict[str, object]:
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


async def _annotate_namespace(cluster: World, value: str | None) -> None:
    patch = {"metadata": {"annotations": {vocabulary.BLOCK_ANNOTATION: value}}}
    await cluster.client.patch_merge(NAMESPACES, cluster.namespace, patch)
