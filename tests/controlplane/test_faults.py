"""Zone rebalance on a real control plane behind a server that fails: the end is always the same."""

import asyncio
from pathlib import Path

import pytest

from ebbtide import vocabulary
from tests.controlplane.expectations import (
    accepted,
    all_in_zone,
    all_prevented,
    evictions,
    in_state,
    node_writes,
    none_prevented,
    prevented,
    stand_on,
)
from tests.controlplane.program import configuration, in_this_process, probe, running, scrape
from tests.controlplane.proxy import CutStream, Drop, Fault, FaultProxy, FreezeStream, Hold, LoseAnswer, Refuse
from tests.controlplane.world import FOREIGN_TAINT, World, wait_until

pytestmark = pytest.mark.controlplane

NODE = "^/api/v1/nodes/"

# What goes wrong: method, path, how often, and how.
FAULTS: dict[str, tuple[str, str, int, Fault]] = {
    "conflict on every first write": ("PATCH", NODE, 3, Refuse(409)),
    "validation refused once": ("PATCH", NODE, 1, Refuse(422)),
    "throttled without Retry-After": ("PATCH", NODE, 2, Refuse(429)),
    "throttled with Retry-After": ("PATCH", NODE, 2, Refuse(429, retry_after=1)),
    "server error on writes": ("PATCH", NODE, 4, Refuse(500)),
    "overloaded on writes": ("PATCH", NODE, 4, Refuse(503, retry_after=1)),
    "connection lost before the write": ("PATCH", NODE, 2, Drop()),
    "answer to the write lost": ("PATCH", NODE, 2, LoseAnswer()),
    "list refused": ("GET", "^/api/v1/nodes", 2, Refuse(500)),
    "first list too old": ("GET", "^/api/v1/nodes", 1, Refuse(410)),
    "watch cut after the first event": ("GET", "^/api/v1/nodes.*watch", 3, CutStream(after_lines=7)),
    "eviction answered by a gateway": ("POST", "/eviction", 2, Refuse(504)),
    "eviction dropped": ("POST", "/eviction", 2, Drop()),
    "lease refused": ("PUT", "/leases/", 2, Refuse(500)),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_that_passes_changes_nothing_about_the_end(
    fault: str, tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    """The zone is fully tainted, foreign taints stand in order, the pods have moved, and it opens again."""
    zone_a = await cluster.add_nodes("a", 3, taints=[FOREIGN_TAINT])
    zone_b = await cluster.add_nodes("b", 1)
    await stand_on(cluster, zone_a[0], zone_a[1:] + zone_b)
    method, path, times, how = FAULTS[fault]
    rule = proxy.inject(how, method=method, path=path, times=times)
    async with running(tmp_path, cluster, proxy):
        await cluster.signal(zone_a[0])
        await cluster.signal(zone_a[1])
        await all_prevented(cluster, zone_a)
        await all_in_zone(cluster, "tikv", 3, "b")
        await all_in_zone(cluster, "tidb", 2, "b")

        async def acted() -> bool:
            return rule.acted >= 1

        await cluster.wait_until(acted, "the fault has happened")
        await cluster.clear_signal(zone_a[0])
        await cluster.clear_signal(zone_a[1])
        await none_prevented(cluster, zone_a)
    for node in zone_a:
        assert await cluster.taints(node) == [FOREIGN_TAINT]
    assert max(accepted(proxy).values()) == 1


async def test_one_node_that_cannot_be_written_is_the_only_one_missing(
    tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    """The others are written at once, the zone is `partial` and nothing is evicted, until that node gives way."""
    zone_a = await cluster.add_nodes("a", 4)
    await cluster.pod("bare", nodeSelector={"kubernetes.io/hostname": zone_a[0]})
    await cluster.ready_pods("bare", 1)
    rule = proxy.inject(Refuse(500), method="PATCH", path=f"{NODE}{zone_a[3]}")
    async with running(tmp_path, cluster, proxy) as url:
        await cluster.signal(zone_a[0])
        await cluster.signal(zone_a[1])
        await all_prevented(cluster, zone_a[:3])
        await in_state(cluster, url, "a", "partial")
        assert (await scrape(url)).value("noderebalance_prevent_ca_scale_up", node_zone="a") == 0
        assert not evictions(proxy)
        proxy.withdraw(rule)
        await in_state(cluster, url, "a", "blocked")
        assert (await scrape(url)).value("noderebalance_prevent_ca_scale_up", node_zone="a") == 1

        async def gone() -> bool:
            return not await cluster.pods("bare")

        await wait_until(gone, "the pod is evicted")


async def test_another_writer_between_read_and_write_loses_nothing(
    tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    """A taint that is appended while our write is under way stays, in front of ours."""
    zone_a = await cluster.add_nodes("a", 2, taints=[FOREIGN_TAINT])
    late = {"key": "example.com/late", "effect": "NoSchedule"}
    go_on = asyncio.Event()
    rule = proxy.inject(Hold(before=go_on), method="PATCH", path=f"{NODE}{zone_a[1]}", times=1)
    async with running(tmp_path, cluster, proxy):
        await cluster.signal(zone_a[0], value="1700000000")

        async def under_way() -> bool:
            return rule.acted == 1

        await wait_until(under_way, "the write is under way")
        await cluster.add_taint(zone_a[1], late)
        go_on.set()
        await all_prevented(cluster, zone_a)
    keys = await cluster.taint_keys(zone_a[1])
    assert keys == [FOREIGN_TAINT["key"], late["key"], vocabulary.PREVENT_TAINT_KEY]


async def test_a_silent_watch_is_noticed_by_what_it_misses(tmp_path: Path, cluster: World, proxy: FaultProxy) -> None:
    """A connection that breaks after it has gone silent is opened anew, and the signal of meanwhile is seen."""
    zone_a = await cluster.add_nodes("a", 2)
    proxy.inject(FreezeStream(after_lines=3), method="GET", path="^/api/v1/nodes.*watch", times=1)
    async with running(tmp_path, cluster, proxy):

        async def watching() -> bool:
            return bool(proxy.matching("GET", "^/api/v1/nodes.*watch"))

        await wait_until(watching, "the nodes are watched")
        await cluster.signal(zone_a[0], value="1700000000")
        proxy.cut_streams()
        await all_prevented(cluster, zone_a)


async def test_a_quiet_cluster_costs_watches_and_the_lease_only(
    tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    """Over many renewals of the lease nothing else is asked for, although nodes report their status all the time."""
    zone_a = await cluster.add_nodes("a", 3)
    async with running(tmp_path, cluster, proxy) as url:

        async def settled() -> bool:
            """It leads, and the certificates of a first start are made and told."""
            told = len(proxy.matching("POST", "/events"))
            return (await probe(url, "/readyz"))[0] == 200 and told >= 1

        async def quiet(count: int) -> bool:
            """Whether nothing else was asked for in so many renewals."""
            before = len(proxy.requests)
            await renewals(cluster, proxy, zone_a[0], count)
            passed = proxy.requests[before:]
            return not [seen for seen in passed if "/leases/" not in seen.path and "watch" not in seen.path]

        await wait_until(settled, "it is ready and has made certificates")
        await wait_until(lambda: quiet(2), "its start is over")
        assert await quiet(12)
        looks = (await scrape(url)).value("noderebalance_reconcile_duration_seconds_count")
    assert looks is not None
    assert looks <= 3


async def renewals(cluster: World, proxy: FaultProxy, node: str, count: int) -> None:
    """So many more renewals of the lease, with heartbeats of the node meanwhile."""
    seen = len(proxy.matching("PUT", "/leases/"))

    async def renewed() -> bool:
        await cluster.heartbeat(node)
        return len(proxy.matching("PUT", "/leases/")) >= seen + count

    await wait_until(renewed, f"the lease is renewed {count} times more")


async def test_a_dry_run_tells_and_writes_nothing(tmp_path: Path, cluster: World, proxy: FaultProxy) -> None:
    """State and reason are reported; no taint, annotation, eviction, event or lease reaches the server."""
    zone_a = await cluster.add_nodes("a", 2)
    await cluster.signal(zone_a[0], value="1700000000")
    async with in_this_process(tmp_path, cluster, configuration(cluster), proxy=proxy, dry_run=True) as url:
        await in_state(cluster, url, "a", "partial")
        assert (await scrape(url)).value("noderebalance_signal_nodes", node_zone="a") == 1
    assert await prevented(cluster, zone_a) == []
    written = [seen for seen in proxy.requests if seen.method != "GET" and "selfsubjectaccessreviews" not in seen.path]
    assert written == []
    assert node_writes(proxy) == []
