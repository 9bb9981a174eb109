"""Zone rebalance on a real control plane: the promises of the product, seen from outside."""

import asyncio
from pathlib import Path

import pytest

from ebbtide import vocabulary
from ebbtide.kube.resources import EVENTS, NODES
from tests.controlplane.expectations import (
    all_in_zone,
    all_prevented,
    evictions,
    in_state,
    node_writes,
    none_prevented,
    prevented,
    stand_on,
)
from tests.controlplane.program import running, scrape
from tests.controlplane.proxy import FaultProxy
from tests.controlplane.world import FOREIGN_TAINT, World

pytestmark = pytest.mark.controlplane

SECOND_FOREIGN_TAINT = {"key": "example.com/second", "effect": "NoSchedule"}


@pytest.fixture
async def zones(cluster: World) -> tuple[list[str], list[str]]:
    """Three nodes in each of the zones a and b, each with two taints of other people."""
    taints = [FOREIGN_TAINT, SECOND_FOREIGN_TAINT]
    return await cluster.add_nodes("a", 3, taints=taints), await cluster.add_nodes("b", 3, taints=taints)


async def test_an_old_signal_on_a_cordoned_node_moves_the_workload_to_the_other_zone(
    tmp_path: Path, cluster: World, proxy: FaultProxy, zones: tuple[list[str], list[str]]
) -> None:
    """The cell is tainted with nothing else touched, the node's pods come up in the other zone, and it opens again."""
    zone_a, zone_b = zones
    await stand_on(cluster, zone_a[0], [*zone_a[1:], *zone_b])
    await cluster.signal(zone_a[0], value="1700000000")
    await cluster.cordon(zone_a[0])
    foreign = {node: await cluster.taints(node) for node in zone_a}

    async with running(tmp_path, cluster, proxy) as url:
        await all_prevented(cluster, zone_a)
        for node in zone_a:
            assert (await cluster.taints(node))[: len(foreign[node])] == foreign[node]
        await all_in_zone(cluster, "tikv", 3, "b")
        await all_in_zone(cluster, "tidb", 2, "b")
        await in_state(cluster, url, "a", "blocked")
        metrics = await scrape(url)
        cell = {"node_group": cluster.group, "node_zone": "a"}
        assert metrics.value("noderebalance_prevent_ca_scale_up", **cell) == 1
        assert metrics.value("noderebalance_evict_node_total", node=zone_a[0], **cell) == 1
        assert await prevented(cluster, zone_b) == []

        await cluster.clear_signal(zone_a[0])
        await none_prevented(cluster, zone_a)
        for node in zone_a[1:]:
            assert await cluster.taints(node) == foreign[node]
    assert len(evictions(proxy)) == 5


async def test_two_recent_signals_block_at_once(
    tmp_path: Path, cluster: World, proxy: FaultProxy, zones: tuple[list[str], list[str]]
) -> None:
    """Two nodes of a zone with fresh signals: the zone is blocked and both are emptied, without waiting for an age."""
    zone_a, zone_b = zones
    await stand_on(cluster, zone_a[0], [*zone_a[1:], *zone_b])
    async with running(tmp_path, cluster, proxy):
        await cluster.signal(zone_a[0])
        await cluster.signal(zone_a[1])
        await all_prevented(cluster, zone_a)
        await all_in_zone(cluster, "tikv", 3, "b")
        await all_in_zone(cluster, "tidb", 2, "b")
        await cluster.clear_signal(zone_a[0])
        await cluster.clear_signal(zone_a[1])
        await none_prevented(cluster, zone_a)
        for node in zone_a:
            annotations = (await cluster.client.get(NODES, node))["metadata"].get("annotations", {})
            assert vocabulary.FIRST_SEEN_ANNOTATION not in annotations


async def test_one_recent_signal_waits_for_the_limit_and_not_for_a_resync(
    tmp_path: Path, cluster: World, proxy: FaultProxy, zones: tuple[list[str], list[str]]
) -> None:
    """Nothing but the clock's annotation is written before the limit; then the zone closes by the timer alone."""
    zone_a, zone_b = zones
    await stand_on(cluster, zone_a[0], [*zone_a[1:], *zone_b])
    loop = asyncio.get_running_loop()
    async with running(tmp_path, cluster, proxy, **{"max-rebalance-signal-time": "3s", "resync-period": "1h"}):
        before = loop.time()
        await cluster.signal(zone_a[0])
        await all_prevented(cluster, zone_a)
        await all_in_zone(cluster, "tikv", 3, "b")
    taint_writes = [seen for seen in node_writes(proxy) if b"/spec/taints" in seen.body]
    clock_writes = [seen for seen in node_writes(proxy) if b"/spec/taints" not in seen.body]
    assert [seen.status for seen in clock_writes].count(200) == 1
    assert clock_writes[0].time < taint_writes[0].time
    # The signal is no older than this test thinks, so writes before three seconds have passed are too early. Its note
    # on the node may come any time after it was seen: the seeing itself counts.
    assert taint_writes[0].time - before >= 3.0


async def test_a_signal_that_goes_in_time_changes_nothing(
    tmp_path: Path, cluster: World, proxy: FaultProxy, zones: tuple[list[str], list[str]]
) -> None:
    """A false alarm costs one annotation, which goes with it: no taint, no eviction."""
    zone_a, _ = zones
    async with running(tmp_path, cluster, proxy):
        await cluster.signal(zone_a[0])

        async def annotated() -> bool:
            metadata = (await cluster.client.get(NODES, zone_a[0]))["metadata"]
            return vocabulary.FIRST_SEEN_ANNOTATION in metadata.get("annotations", {})

        await cluster.wait_until(annotated, "the signal's time is on the node")
        await cluster.clear_signal(zone_a[0])

        async def clean() -> bool:
            return not await annotated()

        await cluster.wait_until(clean, "the signal's time is gone again")
    assert not [seen for seen in node_writes(proxy) if b"/spec/taints" in seen.body]
    assert not evictions(proxy)


async def test_a_node_that_joins_a_blocked_zone_is_tainted_before_it_is_ready(
    tmp_path: Path, cluster: World, proxy: FaultProxy, zones: tuple[list[str], list[str]]
) -> None:
    """The taint follows the node's ADDED event, not its readiness, nor a signal, nor a resync."""
    zone_a, _ = zones
    for node in zone_a[:2]:
        await cluster.signal(node)
    async with running(tmp_path, cluster, proxy):
        await all_prevented(cluster, zone_a)
        late = await cluster.add_nodes("a", 1)
        await all_prevented(cluster, late)


async def test_a_node_counts_when_its_zone_label_arrives(
    tmp_path: Path, cluster: World, proxy: FaultProxy, zones: tuple[list[str], list[str]]
) -> None:
    """Without its zone a signalled node is nobody's; with the label it is the second signal that closes the zone."""
    zone_a, _ = zones
    (stray,) = await cluster.add_nodes("nowhere", 1)
    await cluster.client.patch_merge(NODES, stray, {"metadata": {"labels": {vocabulary.ZONE_LABEL: None}}})
    await cluster.signal(stray)
    await cluster.signal(zone_a[0])
    async with running(tmp_path, cluster, proxy) as url:
        await in_state(cluster, url, "a", "waiting")
        assert not [seen for seen in node_writes(proxy) if stray in seen.path]
        await cluster.client.patch_merge(NODES, stray, {"metadata": {"labels": {vocabulary.ZONE_LABEL: "a"}}})
        await all_prevented(cluster, [*zone_a, stray])


async def test_nonsense_on_one_node_stops_nobody(
    tmp_path: Path, cluster: World, proxy: FaultProxy, zones: tuple[list[str], list[str]]
) -> None:
    """Unreadable annotations, times in the future and strange values leave the other zones' decisions alone."""
    zone_a, zone_b = zones
    (odd,) = await cluster.add_nodes("c", 1)
    await cluster.client.patch_merge(
        NODES, odd, {"metadata": {"annotations": {vocabulary.FIRST_SEEN_ANNOTATION: "the day before yesterday"}}}
    )
    await cluster.signal(odd, value="true")
    await cluster.signal(zone_b[0], value="9999999999")
    await cluster.signal(zone_a[0], value="1700000000")
    async with running(tmp_path, cluster, proxy) as url:
        await all_prevented(cluster, zone_a)
        for zone in ("b", "c"):
            await in_state(cluster, url, zone, "waiting")
            assert ((await scrape(url)).value("noderebalance_signal_age_seconds", node_zone=zone) or 0) >= 0
        assert await prevented(cluster, [*zone_b, odd]) == []


async def test_a_removed_taint_is_put_back_and_counted(
    tmp_path: Path, cluster: World, proxy: FaultProxy, zones: tuple[list[str], list[str]]
) -> None:
    """Another program's removal is undone at once and shows in the metric."""
    zone_a, _ = zones
    for node in zone_a[:2]:
        await cluster.signal(node)
    async with running(tmp_path, cluster, proxy) as url:
        await all_prevented(cluster, zone_a)
        await cluster.drop_taint(zone_a[2], vocabulary.PREVENT_TAINT_KEY)
        await all_prevented(cluster, zone_a)

        async def counted() -> bool:
            return (await scrape(url)).value("noderebalance_taint_restored_total") == 1

        await cluster.wait_until(counted, "the removal is counted")


async def test_a_fight_over_the_taint_is_told_once_and_the_taint_comes_back(
    tmp_path: Path, cluster: World, proxy: FaultProxy, zones: tuple[list[str], list[str]]
) -> None:
    """NR-25: one Warning event on the node. How slowly the taint comes back is proved in simulated time."""
    zone_a, _ = zones
    contested = zone_a[2]
    for node in zone_a[:2]:
        await cluster.signal(node)
    async with running(tmp_path, cluster, proxy):
        await all_prevented(cluster, zone_a)

        async def told() -> list[str]:
            """Removes the taint whenever it is there, until somebody complains."""
            if vocabulary.PREVENT_TAINT_KEY in await cluster.taint_keys(contested):
                await cluster.drop_taint(contested, vocabulary.PREVENT_TAINT_KEY)
            listed = [event async for event in cluster.client.list(EVENTS, namespace="default")]
            about = [event for event in listed if event["regarding"].get("name") == contested]
            return [event["reason"] for event in about if event["reason"] == "PreventTaintContested"]

        reasons = await cluster.wait_until(told, "the fight is told")
        await all_prevented(cluster, zone_a)
    assert reasons == ["PreventTaintContested"]


async def test_a_node_name_used_again_is_another_node(
    tmp_path: Path, cluster: World, proxy: FaultProxy, zones: tuple[list[str], list[str]]
) -> None:
    """Deleting the only signalled node opens the zone; its successor inherits no signal, no age and no eviction."""
    zone_a, _ = zones
    await cluster.signal(zone_a[0], value="1700000000")
    async with running(tmp_path, cluster, proxy) as url:
        await all_prevented(cluster, zone_a)
        await cluster.client.delete(NODES, zone_a[0])
        await none_prevented(cluster, zone_a[1:])
        await cluster.renew_node(zone_a[0], "a")
        await cluster.signal(zone_a[0])
        await in_state(cluster, url, "a", "waiting")
        assert await prevented(cluster, zone_a) == []
