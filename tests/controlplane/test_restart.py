"""`kill -9` and take-over on a real control plane: whatever is half done is finished, nothing is done twice."""

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from ebbtide import vocabulary
from ebbtide.kube.resources import LEASES, NODES
from tests.controlplane.expectations import (
    accepted,
    all_in_zone,
    all_prevented,
    evictions,
    node_writes,
    prevented,
    stand_on,
)
from tests.controlplane.program import LEASE, configuration, kill_leader, probe, process, scrape
from tests.controlplane.proxy import FaultProxy, Hold, LoseAnswer, Seen
from tests.controlplane.world import World, wait_until

pytestmark = pytest.mark.controlplane

# Seconds after which a pod is asked for again whose eviction got no answer.
FIRST_PAUSE = 1.0
# What the reconciler writes while it blocks a zone of three and moves five pods: which request is under way when it is
# killed, and whether the server has done what it asked.
MOMENTS = {
    "before the first taint is stored": ("PATCH", "^/api/v1/nodes/", 0, "before"),
    "after the first taint is stored": ("PATCH", "^/api/v1/nodes/", 0, "after"),
    "with one taint of three missing": ("PATCH", "^/api/v1/nodes/", 2, "before"),
    "with every taint stored, the last unconfirmed": ("PATCH", "^/api/v1/nodes/", 2, "after"),
    "before the first eviction": ("POST", "/eviction", 0, "before"),
    "after an eviction that was accepted": ("POST", "/eviction", 1, "after"),
}


@pytest.mark.parametrize("moment", MOMENTS)
async def test_killed_at_any_moment_the_next_process_ends_the_same(
    moment: str, tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    """The zone ends fully tainted and every pod moves; no UID is accepted twice and the signal's clock stays."""
    zone_a = await cluster.add_nodes("a", 3)
    zone_b = await cluster.add_nodes("b", 2)
    await stand_on(cluster, zone_a[0], zone_a[1:] + zone_b)
    await cluster.signal(zone_a[0])
    await cluster.signal(zone_a[1])
    text = configuration(cluster)
    method, path, skip, when = MOMENTS[moment]
    never = asyncio.Event()
    hold = Hold(before=never) if when == "before" else Hold(after=never)
    rule = proxy.inject(hold, method=method, path=path, skip=skip)

    async with process(tmp_path / "first", cluster, proxy, text) as first:

        async def reached() -> bool:
            assert first.process.returncode is None, "\n".join(first.log)
            return any(when == "before" or seen.status is not None for seen in proxy.matching(method, path)[skip:])

        await wait_until(reached, f"the reconciler is at the moment {moment!r}")
        await kill_leader(first, cluster)
    proxy.withdraw(rule)
    clocks = {node: await first_seen(cluster, node) for node in zone_a}

    async with process(tmp_path / "second", cluster, proxy, text):
        await all_prevented(cluster, zone_a)
        await all_in_zone(cluster, "tikv", 3, "b")
        await all_in_zone(cluster, "tidb", 2, "b")
        for node, clock in clocks.items():
            if clock is not None:
                assert await first_seen(cluster, node) == clock
    assert await prevented(cluster, zone_b) == []
    assert not [uid for uid, times in accepted(proxy).items() if times > 1]


async def test_a_lost_answer_does_not_evict_twice(tmp_path: Path, cluster: World, proxy: FaultProxy) -> None:
    """The server has accepted, the connection breaks: the pod is seen to be going, and not asked again at once."""
    zone_a = await cluster.add_nodes("a", 2)
    zone_b = await cluster.add_nodes("b", 2)
    await stand_on(cluster, zone_a[0], zone_a[1:] + zone_b)
    await cluster.signal(zone_a[0], value="1700000000")
    proxy.inject(LoseAnswer(), method="POST", path="/eviction", times=2)
    async with process(tmp_path / "first", cluster, proxy, configuration(cluster)):
        await all_in_zone(cluster, "tikv", 3, "b")
        await all_in_zone(cluster, "tidb", 2, "b")
    asked: dict[bytes, list[Seen]] = {}
    for seen in evictions(proxy):
        asked.setdefault(seen.body, []).append(seen)
    assert len(asked) == 5
    # Later the watch has told that it is going, unless the machine is too busy for that.
    repeated = [after.time - before.ended for each in asked.values() for before, after in pairwise(each)]
    assert [pause for pause in repeated if pause < FIRST_PAUSE] == []


async def test_of_two_reconcilers_one_acts_and_the_other_takes_over(
    tmp_path: Path, cluster: World, proxy: FaultProxy, second_proxy: FaultProxy
) -> None:
    """Only the leader writes; when it is killed the other one finishes without repeating a write."""
    zone_a = await cluster.add_nodes("a", 3)
    await cluster.add_nodes("b", 1)
    text = configuration(cluster)
    async with (
        process(tmp_path / "one", cluster, proxy, text) as one,
        process(tmp_path / "two", cluster, second_proxy, text) as two,
    ):
        urls = [await one.serving(), await two.serving()]

        async def one_leads() -> list[int]:
            leaders = [i for i, url in enumerate(urls) if (await scrape(url)).value("ebbtide_leader") == 1]
            return leaders if len(leaders) == 1 else []

        (leader,) = await wait_until(one_leads, "exactly one leads")
        proxies, processes = [proxy, second_proxy], [one, two]
        for url in urls:
            assert (await probe(url, "/healthz"))[0] == 200
        await cluster.signal(zone_a[0], value="1700000000")
        await all_prevented(cluster, zone_a)
        assert node_writes(proxies[1 - leader]) == []

        # Nobody takes its lease away: the other one waits until it has run out.
        processes[leader].kill()
        await cluster.signal(zone_a[1])
        late = await cluster.add_nodes("a", 1)
        await all_prevented(cluster, [*zone_a, *late])
        writes = [seen for seen in node_writes(proxies[1 - leader]) if b"/spec/taints" in seen.body]
        written = [seen for seen in writes if seen.status == 200]
        assert [seen.path.split("?")[0].rsplit("/", 1)[1] for seen in written] == late


async def test_sigterm_hands_the_lease_over_and_exits_0(tmp_path: Path, cluster: World, proxy: FaultProxy) -> None:
    """An orderly stop releases the lease, so that the next leader need not wait for it to run out."""
    await cluster.add_nodes("a", 1)
    async with process(tmp_path / "one", cluster, proxy, configuration(cluster)) as running:
        url = await running.serving()

        async def leads() -> bool:
            return (await scrape(url)).value("ebbtide_leader") == 1

        await wait_until(leads, "it leads")
        assert await running.terminate() == 0
    lease = await cluster.client.get(LEASES, LEASE, namespace=cluster.namespace)
    assert lease["spec"].get("holderIdentity", "") == ""


async def first_seen(cluster: World, node: str) -> str | None:
    metadata = (await cluster.client.get(NODES, node))["metadata"]
    found: str | None = metadata.get("annotations", {}).get(vocabulary.FIRST_SEEN_ANNOTATION)
    return found
