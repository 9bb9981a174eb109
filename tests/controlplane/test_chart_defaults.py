"""The chart with its default values, on a cluster on which nobody has prepared anything for it; and where its Services
lead."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ebbtide.config.scaler import WorkerScaler
from ebbtide.kube.errors import NotFound
from ebbtide.kube.resources import ENDPOINT_SLICES, NAMESPACES
from tests.chart.helm import Values
from tests.controlplane.everything import everything
from tests.controlplane.installation import HOST, Release, beyond_this_machine
from tests.controlplane.world import World

pytestmark = pytest.mark.controlplane


class AsItComes(Release):
    """One with default values, but for the address at which the API server can reach the webhook here."""

    def values(self, **further: Any) -> Values:
        return {"webhook": {"url": f"https://{HOST}:{self.port}/mutate"}, **further}


@asynccontextmanager
async def released(cluster: World, folder: Path, version: str = "helm4") -> AsyncIterator[Release]:
    made = AsItComes(cluster, folder, version)
    async with made.home():
        yield made


@pytest.mark.parametrize("version", ["helm4", "helm3"])
async def test_its_own_test_passes_where_there_is_no_namespace_for_workers(
    version: str, cluster: World, tmp_path: Path
) -> None:
    """As the notes of a new release say what to do next; it grants no more than is needed, and nothing stays behind."""
    with pytest.raises(NotFound):
        await cluster.client.get(NAMESPACES, WorkerScaler().namespace)
    await cluster.add_nodes("a", 1)
    async with released(cluster, tmp_path, version) as release:
        before = await everything(cluster.plane)
        await release.install()
        async with release.running("reconciler") as reconciler, release.running("webhook") as webhook:
            await release.ready(reconciler)
            await release.ready(webhook)
            said = await release.test()
            assert said.code == 0, said.err + said.out
            assert await release.unused("test") == set()
        await release.uninstall()

        async def gone() -> bool:
            return not {name for name in await everything(cluster.plane) - before if name[1] != "kube-node-lease"}

        await cluster.wait_until(gone, "nothing is left of it")


async def test_services_lead_to_the_ready_pods_of_their_component_at_the_ports_that_it_serves(
    cluster: World, tmp_path: Path
) -> None:
    """As the controllers of a real cluster read selectors and names of ports."""
    for zone in ("a", "b"):
        await beyond_this_machine(cluster, await cluster.add_nodes(zone, 1))
    config = {"worker-scaler": {"run": True, "namespace": cluster.namespace}}
    async with released(cluster, tmp_path) as release:
        await release.install(config=config, agent={"enabled": True})
        addresses = {part: await _addresses(release, part) for part in ("webhook", "reconciler", "agent")}
        assert [len(each) for each in addresses.values()] == [2, 2, 2]
        expected = {
            "webhook": {(8443, each) for each in addresses["webhook"]},
            "load-data": {(19500, each) for each in addresses["reconciler"]},
            "metrics": {
                (port, each)
                for part, port in (("webhook", 8081), ("reconciler", 8080), ("agent", 8082))
                for each in addresses[part]
            },
        }

        async def there() -> bool:
            return {name: await _led_to(release, name) for name in expected} == expected

        found = {name: await _led_to(release, name) for name in expected}
        await cluster.wait_until(there, f"the Services lead to {expected}, at first to {found}")
        await release.uninstall()


async def _addresses(release: Release, component: str) -> set[str]:
    return {str(pod["status"]["podIP"]) for pod in await release.pods(component)}


async def _led_to(release: Release, name: str) -> set[tuple[int, str]]:
    """Port and address of each ready endpoint of a Service of the release."""
    selector = f"kubernetes.io/service-name={release.fullname}-{name}"
    slices, _ = await release.cluster.client.list_all(
        ENDPOINT_SLICES, namespace=release.namespace, label_selector=selector
    )
    return {found for each in slices for found in _ready(each)}


def _ready(each: Mapping[str, Any]) -> set[tuple[int, str]]:
    ready = [endpoint for endpoint in each["endpoints"] or () if endpoint["conditions"]["ready"]]
    ports = [port["port"] for port in each["ports"] or ()]
    return {(port, address) for port in ports for endpoint in ready for address in endpoint["addresses"]}
