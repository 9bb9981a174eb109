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
from ebbtide.kube.resources import SECRETS
from tests.controlplane.everything import everything
from tests.controlplane.expectations import all_prevented
from tests.controlplane.installation import HOST, Release
from tests.controlplane.test_webhook import excluded
from tests.controlplane.world import World
from tests.webhook.stage import Authority

pytestmark = pytest.mark.controlplane

GUARD = {vocabulary.GUARD_LABEL: vocabulary.GUARD_ENABLED}
EXISTING: dict[str, Any] = {"mode": "existing", "existingSecret": "somebody-elses"}


@pytest.fixture(params=["helm4", "helm3"])
async def release(request: pytest.FixtureRequest, cluster: World, tmp_path: Path) -> AsyncIterator[Release]:
    """One that can be installed, in a cluster with a zone that is blocked as soon as somebody looks."""
    made = Release(cluster, tmp_path, request.param)
    (signalled,) = await cluster.add_nodes("a", 1)
    await cluster.signal(signalled, value="1700000000")
    await cluster.add_nodes("b", 1)
    async with made.home():
        yield made


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
    data = {name: b64encode((folder / name).read_bytes()).decode() for name in ("tls.crt", "tls.key", "ca.crt")}
    body = {"metadata": {"name": "somebody-elses"}, "type": "kubernetes.io/tls", "data": data}
    await release.cluster.client.create(SECRETS, body, namespace=release.namespace)
    return data


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
