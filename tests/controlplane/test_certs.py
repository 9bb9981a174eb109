"""Certificates on a real control plane: one CA however many start, and no field written but ours."""

from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from certs.inspect import Fault, certificates
from certs.layout import Found, read
from ebbtide.kube.errors import Conflict
from ebbtide.kube.resources import MUTATING_WEBHOOKS, SECRETS
from ebbtide.vocabulary import CERTS_ROTATE_ANNOTATION
from tests.certs.builders import self_signed
from tests.controlplane.program import configuration, in_this_process
from tests.controlplane.world import World, wait_until

pytestmark = pytest.mark.controlplane

SECRET = "ebbtide-webhook-tls"
MANAGER = "ebbtide-webhook-certs"
ENTRIES = ("pods.webhook.ebbtide", "namespaces.webhook.ebbtide")


def registration(world: World, name: str) -> dict[str, Any]:
    """A configuration that matches nothing of what the other tests do."""
    return {
        "apiVersion": MUTATING_WEBHOOKS.api_version,
        "kind": MUTATING_WEBHOOKS.kind,
        "metadata": {"name": name, "labels": {"tests.ebbtide/world": world.name}},
        "webhooks": [
            {
                "name": entry,
                "clientConfig": {"service": {"namespace": world.namespace, "name": "ebbtide-webhook"}},
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Ignore",
                "timeoutSeconds": 3,
                "objectSelector": {"matchLabels": {"tests.ebbtide/matches": "nothing"}},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            }
            for entry in ENTRIES
        ],
    }


@pytest.fixture
async def registered(cluster: World) -> AsyncIterator[str]:
    """The name of a configuration with two entries, made by somebody with server-side apply, as Helm 4 does. It is one
    that the chart grants the reconciler to write."""
    name = f"ebbtide-pods-{cluster.name}"
    await cluster.client.apply(MUTATING_WEBHOOKS, name, registration(cluster, name), field_manager="helm")
    yield name
    await cluster.client.delete(MUTATING_WEBHOOKS, name)


def settings(cluster: World, **certs: object) -> str:
    selector = f"tests.ebbtide/world={cluster.name}"
    return configuration(cluster, certs={"webhook-configuration-selector": selector, **certs})


async def secret(cluster: World) -> Found | None:
    listed = [raw async for raw in cluster.client.list(SECRETS, namespace=cluster.namespace)]
    return next((read(raw) for raw in listed if raw["metadata"]["name"] == SECRET), None)


async def bundles(cluster: World, name: str) -> list[bytes]:
    raw = await cluster.client.get(MUTATING_WEBHOOKS, name)
    return [b64decode(entry["clientConfig"].get("caBundle") or "") for entry in raw["webhooks"]]


async def published(cluster: World, name: str) -> bool:
    found = await secret(cluster)
    if found is None or not found.holding.listed:
        return False
    return set(await bundles(cluster, name)) == {found.holding.listed}


async def wait_published(cluster: World, name: str) -> None:
    async def done() -> bool:
        return await published(cluster, name)

    await cluster.wait_until(done, f"every entry of {name} has the bundle")


def without_bundles(raw: dict[str, Any]) -> dict[str, Any]:
    """All of an object that is not ours to write."""
    metadata = {k: v for k, v in raw["metadata"].items() if k not in ("managedFields", "resourceVersion", "generation")}
    entries = [
        {**entry, "clientConfig": {k: v for k, v in entry["clientConfig"].items() if k != "caBundle"}}
        for entry in raw["webhooks"]
    ]
    return {"metadata": metadata, "webhooks": entries}


def owners(raw: Mapping[str, Any], manager: str) -> list[Mapping[str, Any]]:
    return [entry for entry in raw["metadata"]["managedFields"] if entry["manager"] == manager]


async def test_wh_44_five_reconcilers_that_start_at_once_make_one_ca(
    tmp_path: Path, cluster: World, registered: str
) -> None:
    """On a cluster that has nothing yet: one CA, one leaf, published, and never another Secret in between."""
    text = settings(cluster)
    async with AsyncExitStack() as stack:
        for number in range(5):
            folder = tmp_path / str(number)
            folder.mkdir()
            await stack.enter_async_context(in_this_process(folder, cluster, text))
        await wait_published(cluster, registered)
        first = await secret(cluster)
        assert first is not None
        assert len(first.holding.authorities) == 1
    after = await secret(cluster)
    assert after is not None
    assert after.metadata["resourceVersion"] == first.metadata["resourceVersion"]


async def test_only_the_bundle_is_ours_and_it_stays_through_an_upgrade(
    tmp_path: Path, cluster: World, registered: str
) -> None:
    """Everything else is as it was applied, and its owner can apply it again without a conflict."""
    before = without_bundles(await cluster.client.get(MUTATING_WEBHOOKS, registered))
    async with in_this_process(tmp_path, cluster, settings(cluster)):
        await wait_published(cluster, registered)
        raw = await cluster.client.get(MUTATING_WEBHOOKS, registered)
        assert without_bundles(raw) == before
        (ours,) = owners(raw, MANAGER)
        assert ours["operation"] == "Apply"
        held = ours["fieldsV1"]["f:webhooks"]
        assert all(entry["f:clientConfig"] == {"f:caBundle": {}} for entry in held.values())
        await cluster.client.apply(
            MUTATING_WEBHOOKS, registered, registration(cluster, registered), field_manager="helm"
        )
        assert await published(cluster, registered)


async def test_wh_51_a_wiped_bundle_is_back(tmp_path: Path, cluster: World, registered: str) -> None:
    """Of one entry, by somebody who then owns the field; the other entry keeps its own all the time.

    How soon is asked where time is simulated.
    """
    async with in_this_process(tmp_path, cluster, settings(cluster)):
        await wait_published(cluster, registered)
        for operation in ("remove", "replace"):
            path = "/webhooks/0/clientConfig/caBundle"
            value = {} if operation == "remove" else {"value": b64encode(self_signed().certificate.pem).decode()}
            await cluster.client.patch_json(MUTATING_WEBHOOKS, registered, [{"op": operation, "path": path, **value}])
            await wait_published(cluster, registered)


async def test_a_bundle_that_another_manager_applies_is_taken_over(
    tmp_path: Path, cluster: World, registered: str
) -> None:
    """Server-side apply of a field that both want is a conflict for the other, and for us it is not."""
    async with in_this_process(tmp_path, cluster, settings(cluster)):
        await wait_published(cluster, registered)
        theirs = b64encode(self_signed().certificate.pem).decode()
        body = {
            "apiVersion": MUTATING_WEBHOOKS.api_version,
            "kind": MUTATING_WEBHOOKS.kind,
            "webhooks": [{"name": ENTRIES[0], "clientConfig": {"caBundle": theirs}}],
        }
        with pytest.raises(Conflict):
            await cluster.client.apply(MUTATING_WEBHOOKS, registered, body, field_manager="other")
        await cluster.client.apply(MUTATING_WEBHOOKS, registered, body, field_manager="other", force=True)
        await wait_published(cluster, registered)
        raw = await cluster.client.get(MUTATING_WEBHOOKS, registered)
        assert all("f:caBundle" not in str(entry) for entry in owners(raw, "other"))


async def test_wh_46_a_ca_is_rotated(tmp_path: Path, cluster: World, registered: str) -> None:
    """Asked for by an annotation: both published, then leaves of the new one with the old one still trusted."""
    async with in_this_process(tmp_path, cluster, settings(cluster, overlap="1s")):
        await wait_published(cluster, registered)
        before = await secret(cluster)
        assert before is not None
        request = {"metadata": {"annotations": {CERTS_ROTATE_ANNOTATION: "ca"}}}
        await cluster.client.patch_merge(SECRETS, SECRET, request, namespace=cluster.namespace)

        async def rotated() -> bool:
            found = await secret(cluster)
            return found is not None and found.holding.step == "retiring"

        await cluster.wait_until(rotated, "leaves come from the new CA")
        await wait_published(cluster, registered)
        for bundle in await bundles(cluster, registered):
            found = certificates(bundle, "caBundle")
            assert not isinstance(found, Fault)
            assert len(found) == 2
            assert found[1] == before.holding.authorities[0]


async def test_wh_48_a_secret_that_was_emptied_or_deleted_is_made_anew(
    tmp_path: Path, cluster: World, registered: str
) -> None:
    """The type of a Secret cannot be changed: what is written has to be valid under the one that it has."""
    async with in_this_process(tmp_path, cluster, settings(cluster, overlap="1s")):
        await wait_published(cluster, registered)
        empty = {"tls.crt": "", "tls.key": "", "ca.crt": None, "ca-signer.crt": None, "ca-signer.key": None}
        await cluster.client.patch_merge(SECRETS, SECRET, {"data": empty}, namespace=cluster.namespace)
        await wait_whole(cluster, registered)
        await cluster.client.delete(SECRETS, SECRET, namespace=cluster.namespace)
        await wait_whole(cluster, registered)


async def wait_whole(cluster: World, name: str) -> None:
    async def whole() -> bool:
        found = await secret(cluster)
        return found is not None and found.holding.step == "retiring" and await published(cluster, name)

    await wait_until(whole, "CA and leaf are there again, and published")
