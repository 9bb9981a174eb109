"""cert-manager at work on the real control plane: its controllers, its CA injector and the kinds that it brings."""

import time
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import yaml

from ebbtide.kube.errors import NotFound
from ebbtide.kube.resources import MUTATING_WEBHOOKS, SECRETS, Resource
from ebbtide.model import format_time
from tests.controlplane.build import CRDS, tool
from tests.controlplane.definitions import installed
from tests.controlplane.installation import Release
from tests.controlplane.processes import Server
from tests.controlplane.world import Object, World, wait_until

CERTIFICATES: Final = Resource("cert-manager.io", "v1", "certificates", "Certificate", namespaced=True)
_ROLES: Final = ("controller", "cainjector")
Data = Mapping[str, bytes]


class CertManager:
    """What it has done for a release. The leaf's Certificate is called as the webhook is, the CA's `-ca` beside it."""

    def __init__(self, release: Release, servers: list[Server]) -> None:
        self.leaf = f"{release.fullname}-webhook"
        self.authority = f"{self.leaf}-ca"
        self._release = release
        self._client = release.cluster.client
        self._servers = servers

    async def issued(self, name: str, before: Data | None = None) -> Data:
        """What is in the Secret of a Certificate once that is Ready, and is another one than `before`."""

        async def there() -> Data | None:
            certificate = await self._certificate(name)
            ready = {each["type"]: each["status"] for each in _conditions(certificate)}.get("Ready") == "True"
            data = await self._secret(certificate)
            another = before is None or data.get("tls.crt") != before["tls.crt"]
            return data if ready and data and another else None

        found = await wait_until(there, f"certificate {name} is issued", check=self._check)
        assert found is not None
        return found

    async def injected(self, leaf: Data) -> None:
        """Every registration of the release trusts the CA that this leaf came with."""

        async def everywhere() -> bool:
            bundles = [b64decode(each["clientConfig"].get("caBundle", "")) async for each in self._entries()]
            return len(bundles) == 3 and all(leaf["ca.crt"].strip() in bundle for bundle in bundles)

        await wait_until(everywhere, "the CA is injected", check=self._check)

    async def renew(self, name: str) -> None:
        """As `cmctl renew`."""
        certificate = await self._certificate(name)
        condition = {
            "type": "Issuing",
            "status": "True",
            "reason": "ManuallyTriggered",
            "message": "Certificate re-issuance manually triggered",
            "lastTransitionTime": format_time(time.time() // 1),
            "observedGeneration": certificate["metadata"]["generation"],
        }
        others = [each for each in _conditions(certificate) if each["type"] != "Issuing"]
        status = {"conditions": [*others, condition]}
        await self._client.patch_merge(
            CERTIFICATES, name, {"status": status}, namespace=self._release.namespace, subresource="status"
        )

    async def lose(self, name: str) -> None:
        """Somebody deletes the Secret of a Certificate."""
        secret = (await self._certificate(name))["spec"]["secretName"]
        await self._client.delete(SECRETS, secret, namespace=self._release.namespace)

    def _check(self) -> None:
        for server in self._servers:
            server.check()

    async def _certificate(self, name: str) -> Object:
        return await self._client.get(CERTIFICATES, name, namespace=self._release.namespace)

    async def _secret(self, certificate: Object) -> Data:
        """Its content, decoded; nothing while there is none."""
        try:
            found = await self._client.get(
                SECRETS, certificate["spec"]["secretName"], namespace=self._release.namespace
            )
        except NotFound:
            return {}
        return {name: b64decode(value) for name, value in found["data"].items()}

    async def _entries(self) -> AsyncIterator[Object]:
        async for found in self._client.list(MUTATING_WEBHOOKS):
            if found["metadata"]["name"].startswith(f"{self._release.fullname}-"):
                for entry in found["webhooks"]:
                    yield entry


@asynccontextmanager
async def cert_manager(release: Release, folder: Path) -> AsyncIterator[CertManager]:
    """Runs it until this ends; its logs are in `folder`."""
    program, cluster = tool("certmanager"), release.cluster
    definitions = [yaml.safe_load(path.read_text()) for path in sorted((program.parent / CRDS).glob("*.yaml"))]
    async with installed(cluster, definitions):
        servers = [_started(program, role, cluster, folder) for role in _ROLES]
        try:
            yield CertManager(release, servers)
        finally:
            for server in servers:
                server.stop()


def _started(program: Path, role: str, cluster: World, folder: Path) -> Server:
    return Server(role, [str(program), role, str(cluster.plane.kubeconfig)], folder / f"{role}.log")


def _conditions(certificate: Object) -> list[Object]:
    found: list[Object] = certificate.get("status", {}).get("conditions", [])
    return found
