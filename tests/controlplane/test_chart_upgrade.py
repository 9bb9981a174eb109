"""A release that is upgraded and rolled back while pods are created: every replica is another one, nothing is lost."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ebbtide import vocabulary
from tests.controlplane.creations import Creation, Creations
from tests.controlplane.expectations import all_prevented
from tests.controlplane.installation import Release
from tests.controlplane.kubelet import ANNOTATIONS, WEBHOOK, Kubelet
from tests.controlplane.program import scrape
from tests.controlplane.webhook import STRICT
from tests.controlplane.webhook_service import Service
from tests.controlplane.world import World

pytestmark = pytest.mark.controlplane

# A signal of that age alone blocks its zone.
OLD = "1700000000"
OF_A_POOL = {vocabulary.POOL_LABEL: vocabulary.POOL_DEDICATED}
VALUES: Mapping[str, Any] = {
    "webhook": {"podAnnotations": ANNOTATIONS, "pods": STRICT},
    "reconciler": {"podAnnotations": ANNOTATIONS},
}
OTHER_CONFIGURATION: Mapping[str, Any] = {"config": {"node-rebalance": {"hold-down": "1s"}}}


@asynccontextmanager
async def installed(cluster: World, folder: Path) -> AsyncIterator[tuple[Release, Kubelet]]:
    """With two replicas of everything, and zone a of the world's group blocked."""
    zone_a = await cluster.add_nodes("a", 1)
    await cluster.add_nodes("c", 2)
    await cluster.signal(zone_a[0], value=OLD)
    async with Service().serving() as service:
        release = Release(cluster, folder, port=service.port)
        async with release.home(), Kubelet(release, service).working() as kubelet:
            await release.install(**VALUES)
            await all_prevented(cluster, zone_a)
            await _kept_out(kubelet, release, zones=1)
            yield release, kubelet
            # Roles go while programs are still ending.
            with kubelet.way.roles_unknown():
                await release.uninstall()
                await kubelet.settled()


async def test_no_creation_is_lost_while_a_release_is_upgraded_and_rolled_back(
    cluster: World, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Pods of a pool, of which none may be let in unseen, are created all the time while Helm and Deployments replace
    every webhook and every reconciler twice: each is created, and kept out of the zones that are blocked."""
    async with installed(cluster, tmp_path) as (release, kubelet):
        load = Creations(cluster, OF_A_POOL)
        async with load.going_on():
            await load.one_more()
            first = set(kubelet.running)
            await release.upgrade(**VALUES, **OTHER_CONFIGURATION)
            await kubelet.settled()
            await load.one_more()
            second = set(kubelet.running)
            both = await _block_another_zone(cluster, kubelet, release)
            await release.rollback(1)
            await kubelet.settled()
            await load.one_more()
            third = set(kubelet.running)

        record_property("creations", load.reached)
        assert len(load.done) == load.due
        assert [len(each) for each in (first, second, third)] == [4, 4, 4]
        assert first.isdisjoint(second)
        assert second.isdisjoint(third)
        assert kubelet.ended == dict.fromkeys(first | second, 0)
        assert [each for each in load.done if not each.created] == []
        assert [each for each in load.done if not _due(each, both) <= set(each.zones)] == []
        said = await release.test()
        assert said.code == 0, said.err + said.out


async def _block_another_zone(cluster: World, kubelet: Kubelet, release: Release) -> float:
    """By the reconcilers that there are now; the time from which on every webhook knew it."""
    zone_b = await cluster.add_nodes("b", 1)
    await cluster.signal(zone_b[0], value=OLD)
    await all_prevented(cluster, zone_b)
    await _kept_out(kubelet, release, zones=2)
    return asyncio.get_running_loop().time()


def _due(creation: Creation, both: float) -> set[str]:
    return {"a", "b"} if creation.began > both else {"a"}


async def _kept_out(kubelet: Kubelet, release: Release, *, zones: int) -> None:
    """Every webhook keeps new pods of the world's group out of so many zones."""

    async def known() -> bool:
        webhooks = [kubelet.running[pod["metadata"]["name"]] for pod in await release.pods(WEBHOOK)]
        told = [await scrape(await webhook.serving()) for webhook in webhooks]
        group = release.cluster.group
        return {each.value("webhook_blocked_zones", node_group=group) for each in told} == {zones}

    await release.cluster.wait_until(known, f"{zones} zones are blocked for each webhook")
