"""The chart on a real API server: what it installs works with the permissions that it grants, and goes again."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from ebbtide import vocabulary
from ebbtide.kube.resources import LEASES, SECRETS
from tests.chart.helm import CHART
from tests.chart.metrics import asked_of_prometheus
from tests.controlplane.command import ebbtide
from tests.controlplane.everything import everything
from tests.controlplane.expectations import all_in_zone, all_prevented, none_prevented
from tests.controlplane.installation import NO_STREAMED_LISTS, Release
from tests.controlplane.program import Process
from tests.controlplane.proxy import FaultProxy
from tests.controlplane.test_webhook import excluded
from tests.controlplane.world import World

pytestmark = pytest.mark.controlplane

# What the webhook is granted and did not need here, and when it does.
UNUSED = {
    "list mutatingwebhookconfigurations.admissionregistration.k8s.io": NO_STREAMED_LISTS,
    "list namespaces": NO_STREAMED_LISTS,
    "list nodes": NO_STREAMED_LISTS,
    "list persistentvolumeclaims": NO_STREAMED_LISTS,
    "list persistentvolumes": NO_STREAMED_LISTS,
    "list secrets of the release": NO_STREAMED_LISTS,
}
GUARD = {vocabulary.GUARD_LABEL: vocabulary.GUARD_ENABLED}


@pytest.fixture(params=["helm4", "helm3"])
async def release(request: pytest.FixtureRequest, cluster: World, tmp_path: Path) -> AsyncIterator[Release]:
    """One that can be installed."""
    made = Release(cluster, tmp_path, request.param)
    async with made.home():
        yield made


async def test_what_is_installed_works_with_its_own_permissions_and_goes_without_a_trace(
    release: Release, cluster: World, proxy: FaultProxy, tmp_path: Path
) -> None:
    """Installed and tested by Helm; a zone is blocked, emptied and kept free; nothing is forbidden, nothing is left."""
    zone_a = await cluster.add_nodes("a", 1)
    await cluster.deployment("tikv", 2, labels=GUARD)
    await cluster.ready_pods("tikv", 2)
    before = await everything(cluster.plane)
    assert (await release.helm.run("lint", str(CHART), "--strict", values=release.values())).code == 0
    await release.install(config={"worker-scaler": {"run": True, "shared-pool-enabled": True}})
    async with release.running("reconciler") as reconciler, release.running("webhook") as webhook:
        await release.ready(reconciler)
        await release.ready(webhook)
        await _passes(release)
        await _block(cluster, zone_a)
        assert excluded(await cluster.pod("guarded", labels=GUARD)) == [["a"]]
        await _passes(release)
        assert await release.unused("webhook") == UNUSED.keys()
        assert await release.unused("test") == set()
        assert asked_of_prometheus() <= await _told(reconciler) | await _told(webhook)
    await _owned_by_the_deployment(release)
    await _remove(release, zone_a, proxy, tmp_path)
    await _nothing_more_than(before, cluster)


async def _told(process: Process) -> set[str]:
    """The metrics that a program tells, with values or without."""
    async with aiohttp.ClientSession() as session, session.get(f"{await process.serving()}/metrics") as answer:
        lines = (await answer.text()).splitlines()
    return {line.split()[2] for line in lines if line.startswith("# TYPE ")}


async def _passes(release: Release) -> None:
    said = await release.test()
    assert said.code == 0, said.err + said.out


async def _block(cluster: World, zone: list[str]) -> None:
    """Zone a has to be left; what stood there goes to b."""
    await cluster.add_nodes("b", 1)
    for node in zone:
        await cluster.signal(node, value="1700000000")
    await all_prevented(cluster, zone)
    await all_in_zone(cluster, "tikv", 2, "b")


async def _owned_by_the_deployment(release: Release) -> None:
    for resource, name in ((LEASES, f"{release.fullname}-reconciler"), (SECRETS, f"{release.fullname}-webhook-tls")):
        found = await release.cluster.client.get(resource, name, namespace=release.namespace)
        owners = [(owner["kind"], owner["name"]) for owner in found["metadata"]["ownerReferences"]]
        assert owners == [("Deployment", f"{release.fullname}-reconciler")]


async def _remove(release: Release, tainted: list[str], proxy: FaultProxy, folder: Path) -> None:
    """As the notes of the chart say it."""
    text = await release.configuration()
    said = await ebbtide(folder / "cleanup", release.cluster, proxy, "cleanup", text=text)
    assert said.code == 0, said.err
    await none_prevented(release.cluster, tainted)
    await release.uninstall()


async def _nothing_more_than(before: set[tuple[str, str, str]], cluster: World) -> None:
    """Of every kind; the workload of the test has other pods than at first, and one node more."""
    own = ("pods", "nodes", "leases.coordination.k8s.io", "csinodes.storage.k8s.io")

    async def left() -> set[tuple[str, str, str]]:
        found = await everything(cluster.plane) - before
        return {
            name for name in found if not (name[0] in own and name[1] in (cluster.namespace, "", "kube-node-lease"))
        }

    async def gone() -> bool:
        return not await left()

    await cluster.wait_until(gone, f"nothing is left of it: {await left()}")
