"""The chart's certificate modes on a real API server, and the ways between them."""

import asyncio
import os
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ebbtide import vocabulary
from ebbtide.config.admission import Certs
from ebbtide.kube.resources import MUTATING_WEBHOOKS, SECRETS, Resource
from tests.controlplane.definitions import defined
from tests.controlplane.everything import everything
from tests.controlplane.expectations import all_prevented
from tests.controlplane.installation import HOST, Release
from tests.controlplane.test_webhook import excluded
from tests.controlplane.world import World
from tests.webhook.stage import Authority

pytestmark = pytest.mark.controlplane

GUARD = {vocabulary.GUARD_LABEL: vocabulary.GUARD_ENABLED}
EXISTING: dict[str, Any] = {"mode": "existing", "existingSecret": "somebody-elses"}


CERTIFICATES = Resource("cert-manager.io", "v1", "certificates", "Certificate", namespaced=True)
ISSUERS = Resource("cert-manager.io", "v1", "issuers", "Issuer", namespaced=True)


@pytest.fixture
async def cert_manager(cluster: World) -> AsyncIterator[None]:
    """The kinds that cert-manager brings."""
    async with defined(cluster, CERTIFICATES, ISSUERS):
        yield


@pytest.fixture(params=["helm4", "helm3"])
async def release(request: pytest.FixtureRequest, cluster: World, tmp_path: Path) -> AsyncIterator[Release]:
    """One that can be installed, in a cluster with a zone that is blocked as soon as somebody looks."""
    made = Release(cluster, tmp_path, request.param)
    (signalled,) = await cluster.add_nodes("a", 1)
    await cluster.signal(signalled, value="1700000000")
    await cluster.add_nodes("b", 1)
    async with made.home():
        yield made


async def test_served_with_what_cert_manager_makes_of_the_objects_of_the_chart(
    release: Release, cluster: World, cert_manager: None, tmp_path: Path
) -> None:
    """Its controller and its injector are played here; then on to certificates of our own, and back."""
    await release.install(certificates={"mode": "cert-manager"})
    await _issue_and_inject(release, tmp_path)
    async with _serving(release):
        await all_prevented(cluster, [f"{cluster.name}-a-0"])
        await _excludes(cluster, "of-cert-manager")
    await release.upgrade()
    async with _serving(release):
        await _excludes(cluster, "own")
    await release.upgrade(certificates={"mode": "cert-manager"})
    await _issue_and_inject(release, tmp_path)
    async with _serving(release):
        await _excludes(cluster, "of-cert-manager-again")
    await release.uninstall()


async def test_upgraded_to_another_certificate_and_rolled_back_it_goes_on_serving(
    release: Release, cluster: World, tmp_path: Path
) -> None:
    """Own CA, somebody else's Secret, own CA again; then uninstalled, and what was made at run time goes as well."""
    secret = await _somebody_elses(release, tmp_path)
    before = {name for name in await everything(cluster.plane) if name[1] == release.namespace}
    await release.install()
    async with _serving(release):
        await all_prevented(cluster, [f"{cluster.name}-a-0"])
        await _excludes(cluster, "own")
    await release.upgrade(certificates=EXISTING)
    await _as_the_notes_say(release)
    async with _serving(release):
        await _excludes(cluster, "elsewhere")
    await release.rollback(1)
    async with _serving(release):
        await _excludes(cluster, "own-again")
    await release.uninstall()

    async def gone() -> bool:
        return {name for name in await everything(cluster.plane) if name[1] == release.namespace} == before

    await cluster.wait_until(gone, "only what was there before is left")
    assert (await cluster.client.get(SECRETS, "somebody-elses", namespace=release.namespace))["data"] == secret


@asynccontextmanager
async def _serving(release: Release) -> AsyncIterator[None]:
    async with release.running("reconciler") as reconciler, release.running("webhook") as webhook:
        await release.ready(reconciler)
        await release.ready(webhook)
        yield


async def _excludes(cluster: World, name: str) -> None:
    assert excluded(await cluster.pod(name, labels=GUARD)) == [["a"]]


async def _somebody_elses(release: Release, folder: Path) -> dict[str, str]:
    """A Secret with a certificate for the address of the webhook."""
    Authority(folder, Certs(extra_sans=(HOST,))).issue()
    data = _pair(folder)
    body = {"metadata": {"name": "somebody-elses"}, "type": "kubernetes.io/tls", "data": data}
    await release.cluster.client.create(SECRETS, body, namespace=release.namespace)
    return data


async def _issue_and_inject(release: Release, folder: Path) -> None:
    """What cert-manager does for a Certificate, and its injector for who names that Certificate."""
    client, name = release.cluster.client, f"{release.fullname}-webhook"
    spec = (await client.get(CERTIFICATES, name, namespace=release.namespace))["spec"]
    Authority(folder, Certs(extra_sans=(*spec["dnsNames"], *spec["ipAddresses"]))).issue()
    secret, data = spec["secretName"], _pair(folder)
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret},
        "type": "kubernetes.io/tls",
        "data": data,
    }
    await client.apply(SECRETS, secret, body, namespace=release.namespace, field_manager="cert-manager")
    async for found in client.list(MUTATING_WEBHOOKS):
        wanted = found["metadata"].get("annotations", {}).get("cert-manager.io/inject-ca-from")
        if wanted == f"{release.namespace}/{name}":
            operation = {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": data["ca.crt"]}
            await client.patch_json(MUTATING_WEBHOOKS, found["metadata"]["name"], [operation])


def _pair(folder: Path) -> dict[str, str]:
    return {name: b64encode((folder / name).read_bytes()).decode() for name in ("tls.crt", "tls.key", "ca.crt")}


async def _as_the_notes_say(release: Release) -> None:
    """Runs the commands that publish the CA, as the notes of the release have them."""
    said = await release.helm.run("get", "notes", release.name, "--namespace", release.namespace)
    (block,) = [part for part in said.out.split("\n\n") if "caBundle" in part and "ca=$(" in part]
    plane = release.cluster.plane
    path = f"{Path(plane.binaries['kubectl']).parent}:{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        *("bash", "-euc", block), env={"PATH": path, "KUBECONFIG": str(plane.kubeconfig)}
    )
    assert await process.wait() == 0, block
