"""Waiting pods are admitted again on a real control plane, by the webhook as the chart registers it."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import orjson
import pytest

from ebbtide import vocabulary
from tests.controlplane.expectations import all_in_zone, all_prevented, none_prevented
from tests.controlplane.program import configuration, in_this_process, scrape
from tests.controlplane.proxy import FaultProxy, Seen
from tests.controlplane.webhook import registered, selector, webhook
from tests.controlplane.world import World

pytestmark = pytest.mark.controlplane

GUARDED = {vocabulary.GUARD_LABEL: "enabled"}
LONG_AGO = "1700000000"


def running(folder: Path, cluster: World, proxy: FaultProxy) -> AbstractAsyncContextManager[str]:
    """The reconciler, going through the proxy."""
    # The test's webhook has a certificate of its own: nobody else publishes a bundle for it.
    text = configuration(cluster, certs={"mode": "files", "webhook-configuration-selector": selector(cluster)})
    return in_this_process(folder, cluster, text, proxy=proxy)


def deletions(proxy: FaultProxy) -> list[Seen]:
    """Every deletion of a pod that was asked for."""
    return proxy.matching("DELETE", "/pods/")


async def uids(cluster: World, app: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in await cluster.pods(app)}


async def waiting(cluster: World, app: str, count: int, excluded: str) -> None:
    """So many pods of the workload, all without a node, and all kept out of exactly these zones by admission."""

    async def so() -> bool:
        pods = await cluster.pods(app)
        found = [(p["metadata"].get("annotations") or {}).get(vocabulary.BLOCKED_ZONES_ANNOTATION, "") for p in pods]
        bound = [pod for pod in pods if pod["spec"].get("nodeName")]
        return found == [excluded] * count and not bound

    await cluster.wait_until(so, f"{count} pods of {app} wait, kept out of {excluded or 'nowhere'}")


async def closed(cluster: World) -> tuple[list[str], list[str]]:
    """A node in each of two zones, with room for nobody."""
    zone_a, zone_b = await cluster.add_nodes("a", 1), await cluster.add_nodes("b", 1)
    for node in (*zone_a, *zone_b):
        await cluster.cordon(node)
    return zone_a, zone_b


async def test_pods_from_before_a_block_come_back_kept_out_of_the_zone(
    tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    """WH-59, WH-61: each waiting pod once, by UID, when a webhook is there; others not; and then they run elsewhere."""
    zone_a, zone_b = await closed(cluster)
    await cluster.deployment("tidb", 3, labels=GUARDED)
    await cluster.stateful_set("tikv", 2, labels=GUARDED)
    await cluster.deployment("plain", 1)
    await cluster.pod("bare", labels=GUARDED)
    for app, count in (("tidb", 3), ("tikv", 2), ("plain", 1), ("bare", 1)):
        await waiting(cluster, app, count, "")
    before = await uids(cluster, "tidb") | await uids(cluster, "tikv")
    others = await uids(cluster, "plain") | await uids(cluster, "bare")
    await cluster.signal(zone_a[0], value=LONG_AGO)

    async with running(tmp_path, cluster, proxy) as url, webhook(cluster, tmp_path) as admission:
        await all_prevented(cluster, zone_a)

        async def held_back() -> bool:
            return (await scrape(url)).value("readmission_waiting_pods", reason="no-webhook") == 5

        await cluster.wait_until(held_back, "five pods wait for a webhook to be registered")
        assert deletions(proxy) == []
        async with registered(cluster, admission):
            await waiting(cluster, "tidb", 3, "a")
            await waiting(cluster, "tikv", 2, "a")
            for node in (*zone_a, *zone_b):
                await cluster.cordon(node, cordoned=False)
            await all_in_zone(cluster, "tidb", 3, "b")
            await all_in_zone(cluster, "tikv", 2, "b")
    asked = [orjson.loads(seen.body)["preconditions"]["uid"] for seen in deletions(proxy) if seen.status == 200]
    assert sorted(asked) == sorted(before)
    assert others == await uids(cluster, "plain") | await uids(cluster, "bare")


async def test_pods_of_a_block_that_is_over_come_back_free(tmp_path: Path, cluster: World, proxy: FaultProxy) -> None:
    """WH-60: those that still wait; they may use the zone again."""
    zone_a, _ = await closed(cluster)
    await cluster.signal(zone_a[0], value=LONG_AGO)
    async with (
        running(tmp_path, cluster, proxy),
        webhook(cluster, tmp_path) as admission,
        registered(cluster, admission),
    ):
        await all_prevented(cluster, zone_a)
        await cluster.deployment("tidb", 3, labels=GUARDED)
        await waiting(cluster, "tidb", 3, "a")
        await cluster.clear_signal(zone_a[0])
        await none_prevented(cluster, zone_a)
        await waiting(cluster, "tidb", 3, "")
        await cluster.cordon(zone_a[0], cordoned=False)
        await all_in_zone(cluster, "tidb", 3, "a")


async def test_where_admission_does_nothing_one_pod_is_the_price(
    tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    """WH-62: the first that came back as it was makes its owner wait, and the figures say so.

    The webhook is asked, and looks for another taint than the one that is set.
    """
    zone_a, _ = await closed(cluster)
    await cluster.deployment("tidb", 3, labels=GUARDED)
    await waiting(cluster, "tidb", 3, "")
    await cluster.signal(zone_a[0], value=LONG_AGO)
    async with (
        running(tmp_path, cluster, proxy) as url,
        webhook(cluster, tmp_path, prevent_ca_scale_up_taint_key="example.com/another") as admission,
        registered(cluster, admission),
    ):

        async def backs_off() -> bool:
            figures = await scrape(url)
            waits = figures.value("readmission_waiting_pods", reason="back-off") == 3
            return waits and figures.value("readmission_without_effect_total") == 1

        await cluster.wait_until(backs_off, "three pods wait for the end of the pause")
        assert len(deletions(proxy)) == 1
        asked = await scrape(admission.health)
        assert (asked.value("webhook_requests_total", webhook="pod", result="unchanged") or 0) >= 1
