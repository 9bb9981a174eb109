"""The chart's certificate modes on a real API server, and the ways between them."""

import asyncio
import os
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from certs.inspect import Certificate, Fault, certificates
from ebbtide import vocabulary
from ebbtide.config.admission import Certs
from ebbtide.kube.resources import SECRETS
from tests.controlplane.cert_manager import CertManager, Data, cert_manager
from tests.controlplane.creations import RATE, Creations
from tests.controlplane.everything import Name, everything
from tests.controlplane.expectations import all_prevented
from tests.controlplane.installation import HOST, Release
from tests.controlplane.program import Process
from tests.controlplane.test_webhook import excluded
from tests.controlplane.webhook_service import shown
from tests.controlplane.world import World
from tests.webhook.stage import Authority

pytestmark = pytest.mark.controlplane

GUARD = {vocabulary.GUARD_LABEL: vocabulary.GUARD_ENABLED}
EXISTING: dict[str, Any] = {"mode": "existing", "existingSecret": "somebody-elses"}


# Whatever becomes of the webhook is seen. The API server waits longer than by default: here a process may not be run
# for so long.
STRICT: dict[str, Any] = {"pods": {"failurePolicy": "Fail", "timeoutSeconds": 10}}
BY_CERT_MANAGER: dict[str, Any] = {"mode": "cert-manager"}


@pytest.fixture(params=["helm4", "helm3"])
async def release(request: pytest.FixtureRequest, cluster: World, tmp_path: Path) -> AsyncIterator[Release]:
    async with _blocked(cluster, tmp_path, request.param) as made:
        yield made


async def test_served_with_what_cert_manager_issues_and_injects(
    release: Release, cluster: World, tmp_path: Path
) -> None:
    """Then on to certificates of our own, and back. Uninstalled, it leaves the Secrets, which cert-manager keeps."""
    async with cert_manager(release, tmp_path) as issuer:
        before = await _inside(release)
        await release.install(certificates=BY_CERT_MANAGER)
        await _issued_and_injected(issuer)
        async with _serving(release):
            await all_prevented(cluster, [f"{cluster.name}-a-0"])
            await _excludes(cluster, "of-cert-manager")
            assert await shown(release.port) == _leaf(await issuer.issued(issuer.leaf))
        await release.upgrade()
        async with _serving(release):
            await _excludes(cluster, "own")
        await release.upgrade(certificates=BY_CERT_MANAGER)
        await _issued_and_injected(issuer)
        async with _serving(release):
            await _excludes(cluster, "of-cert-manager-again")
        await release.uninstall()
        kept = {("secrets", release.namespace, f"{issuer.leaf}-{each}") for each in ("ca", "cert")}
        await _left(release, before | kept)


async def test_a_renewal_by_cert_manager_is_served_without_a_restart_and_no_pod_notices(
    cluster: World, tmp_path: Path
) -> None:
    """The leaf's Secret is deleted; then the CA is renewed, and a leaf by it. Kubelets are late with each."""
    async with _blocked(cluster, tmp_path, "helm4") as release, cert_manager(release, tmp_path) as issuer:
        await release.install(certificates=BY_CERT_MANAGER, webhook=STRICT)
        first, authority = await _issued_and_injected(issuer)
        load = Creations(cluster)
        async with _serving(release) as webhook:
            await all_prevented(cluster, [f"{cluster.name}-a-0"])
            await _excludes(cluster, "first")
            async with load.going_on():
                await issuer.lose(issuer.leaf)
                second = await issuer.issued(issuer.leaf, before=first)
                await _taken_up_late(release, load, second)
                await issuer.renew(issuer.authority)
                await issuer.issued(issuer.authority, before=authority)
                await issuer.renew(issuer.leaf)
                third = await issuer.issued(issuer.leaf, before=second)
                await issuer.injected(third)
                await _taken_up_late(release, load, third)
            assert webhook.process.returncode is None
        await release.uninstall()
    assert [first["ca.crt"] == second["ca.crt"], second["ca.crt"] == third["ca.crt"]] == [True, False]
    assert [each for each in load.done if each.zones != ("a",)] == []


async def test_upgraded_to_another_certificate_and_rolled_back_it_goes_on_serving(
    release: Release, cluster: World, tmp_path: Path
) -> None:
    """Own CA, somebody else's Secret, own CA again; then uninstalled, and what was made at run time goes as well."""
    secret = await _somebody_elses(release, tmp_path)
    before = await _inside(release)
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
    await _left(release, before)
    assert (await cluster.client.get(SECRETS, "somebody-elses", namespace=release.namespace))["data"] == secret


@asynccontextmanager
async def _blocked(cluster: World, folder: Path, helm: str) -> AsyncIterator[Release]:
    """One that can be installed, in a cluster with a zone that is blocked as soon as somebody looks."""
    made = Release(cluster, folder, helm)
    (signalled,) = await cluster.add_nodes("a", 1)
    await cluster.signal(signalled, value="1700000000")
    await cluster.add_nodes("b", 1)
    async with made.home():
        yield made


@asynccontextmanager
async def _serving(release: Release) -> AsyncIterator[Process]:
    """Reconciler and webhook are ready; the webhook."""
    async with release.running("reconciler") as reconciler, release.running("webhook") as webhook:
        await release.ready(reconciler)
        await release.ready(webhook)
        yield webhook


async def _inside(release: Release) -> set[Name]:
    """What there is in the namespace of the release."""
    return {name for name in await everything(release.cluster.plane) if name[1] == release.namespace}


async def _left(release: Release, expected: set[Name]) -> None:
    async def just_that() -> bool:
        return await _inside(release) == expected

    await release.cluster.wait_until(just_that, f"only {expected} is left")


async def _issued_and_injected(issuer: CertManager) -> tuple[Data, Data]:
    """The leaf's Secret and the CA's."""
    leaf = await issuer.issued(issuer.leaf)
    await issuer.injected(leaf)
    return leaf, await issuer.issued(issuer.authority)


async def _taken_up_late(release: Release, load: Creations, renewed: Data) -> None:
    """Pods are created before the kubelet has noticed, while the webhook takes it up, and after."""
    await _more(release, load)
    await release.mount_again("webhook")

    async def served() -> bool:
        return await shown(release.port) == _leaf(renewed)

    await release.cluster.wait_until(served, "the renewed leaf is served")
    await _more(release, load)


async def _more(release: Release, load: Creations) -> None:
    """Until a second's worth of pods more has been created."""
    before = len(load.done)

    async def done() -> bool:
        return len(load.done) > before + RATE

    await release.cluster.wait_until(done, "more pods have been created")


def _leaf(secret: Data) -> Certificate:
    found = certificates(secret["tls.crt"], "the leaf")
    assert not isinstance(found, Fault)
    return found[0]


async def _excludes(cluster: World, name: str) -> None:
    assert excluded(await cluster.pod(name, labels=GUARD)) == [["a"]]


async def _somebody_elses(release: Release, folder: Path) -> dict[str, str]:
    """A Secret with a certificate for the address of the webhook."""
    Authority(folder, Certs(extra_sans=(HOST,))).issue()
    data = _pair(folder)
    body = {"metadata": {"name": "somebody-elses"}, "type": "kubernetes.io/tls", "data": data}
    await release.cluster.client.create(SECRETS, body, namespace=release.namespace)
    return data


def _pair(folder: Path) -> dict[str, str]:
    return {name: b64encode((folder / name).read_bytes()).decode() for name in ("tls.crt", "tls.key", "ca.crt")}


async def _as_the_notes_say(release: Release) -> None:
    """Runs the commands that publish the CA, as the notes of the release have them."""
    said = await release.helm.run("get", "notes", release.name, "--namespace", release.namespace)
    (block,) = [part for part in said.out.split("\n\n") if "caBundle" in part and "ca=$(" in part]
    plane = release.cluster.plane
    path = f"{Path(plane.binaries['kubectl']).parent}:{os.environ['PATH']}"
    home = str(plane.folder)  # where kubectl keeps what it has found out about the server
    environ = {"PATH": path, "HOME": home, "KUBECONFIG": str(plane.kubeconfig)}
    process = await asyncio.create_subprocess_exec("bash", "-euc", block, env=environ)
    assert await process.wait() == 0, block
