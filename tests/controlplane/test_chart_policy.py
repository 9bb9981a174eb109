"""The policies of the chart that hold webhook and reconciler to less than their roles say, on a real API server."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from ebbtide import vocabulary
from ebbtide.kube.resources import MUTATING_WEBHOOKS, PODS, SECRETS
from ebbtide.kube.slim import SlimClient
from tests.controlplane.installation import Release
from tests.controlplane.world import World

pytestmark = pytest.mark.controlplane


@pytest.fixture
async def release(cluster: World, tmp_path: Path) -> AsyncIterator[Release]:
    made = Release(cluster, tmp_path)
    async with made.home():
        yield made


def _patch(operation: str, path: str, value: object) -> list[Mapping[str, Any]]:
    return [{"op": operation, "path": path, "value": value}]


NOT_FOR_THE_WEBHOOK = {
    "image": _patch("replace", "/spec/containers/0/image", "another"),
    "toleration": _patch("add", "/spec/tolerations/-", {"key": "x", "operator": "Exists", "effect": "NoExecute"}),
    "deadline": _patch("add", "/spec/activeDeadlineSeconds", 60),
    "label": _patch("add", "/metadata/labels/x", "y"),
    "annotation": _patch("add", "/metadata/annotations", {"x": "y"}),
    "finalizer": _patch("add", "/metadata/finalizers", ["example.com/x"]),
    "owner": _patch("remove", "/metadata/ownerReferences", None),
}
_DRY: Mapping[str, Any] = {"params": {"dryRun": "All"}, "content_type": "application/json-patch+json"}


async def test_the_webhook_annotates_its_own_pod_and_changes_nothing_else(
    release: Release, cluster: World, tmp_path: Path
) -> None:
    """Although its role lets it patch every pod of the namespace: the policy that comes with it holds it to its own."""
    await cluster.add_nodes("a", 1)
    await release.install()
    (pod, sibling), (reconciler, *_) = await release.pods("webhook"), await release.pods("reconciler")
    own, *others = [PODS.path(release.namespace, each["metadata"]["name"]) for each in (pod, sibling, reconciler)]
    client = _as(cluster, await release.token(pod), tmp_path / "bound")
    unbound = _as(cluster, await _token_without_pod(release, pod), tmp_path / "unbound")

    async def in_force() -> bool:
        """A policy is known to the API server a moment after it was made."""
        return (await client.request("PATCH", own, body=NOT_FOR_THE_WEBHOOK["label"], **_DRY)).status == 403

    await cluster.wait_until(in_force, "the policy is in force")
    for what, patch in NOT_FOR_THE_WEBHOOK.items():
        answer = await client.request("PATCH", own, body=patch, **_DRY)
        assert (what, answer.status) == (what, 403), answer.body
        assert b"the webhook" in answer.body
    for mark in ("first", "second", None):
        note = {"metadata": {"annotations": {vocabulary.CA_SEEN_ANNOTATION: mark}}}
        kind = "application/merge-patch+json"
        assert (await client.request("PATCH", own, body=note, content_type=kind)).status == 200
        for who, path in ((client, others[0]), (client, others[1]), (unbound, own)):
            answer = await who.request("PATCH", path, body=note, content_type=kind)
            assert (answer.status, b"no pod but its own" in answer.body) == (403, True), answer.body
    assert (await client.request("DELETE", own)).status == 403
    await release.uninstall()


async def test_the_webhook_may_say_what_a_rotation_waits_for(release: Release, cluster: World) -> None:
    """The leader goes on as soon as the only replica has said on its own pod that it knows the new CA."""
    await cluster.add_nodes("a", 1)
    await release.install(webhook={"replicas": 1}, config={"certs": {"overlap": "1s"}})
    async with release.running("reconciler") as reconciler, release.running("webhook") as webhook:
        await release.ready(reconciler)
        await release.ready(webhook)
        request = {"metadata": {"annotations": {vocabulary.CERTS_ROTATE_ANNOTATION: "ca"}}}
        secret = f"{release.fullname}-webhook-tls"
        await cluster.client.patch_merge(SECRETS, secret, request, namespace=release.namespace)

        async def rotated() -> bool:
            found = await cluster.client.get(SECRETS, secret, namespace=release.namespace)
            return bool(found["metadata"]["annotations"].get(vocabulary.CERTS_STEP_ANNOTATION) == "retiring")

        await cluster.wait_until(rotated, "leaves come from the new CA")
        (pod,) = await release.pods("webhook")
        assert vocabulary.CA_SEEN_ANNOTATION in pod["metadata"]["annotations"]
        assert not [line for line in webhook.log if "cannot say which CAs are known" in line]
    await release.uninstall()


WEBHOOK: Final = "/webhooks/0"
NOT_FOR_THE_RECONCILER: Final = {
    "url": _patch("replace", f"{WEBHOOK}/clientConfig/url", "https://somewhere.else/mutate"),
    "service": _patch("replace", f"{WEBHOOK}/clientConfig", {"service": {"namespace": "kube-system", "name": "x"}}),
    "rules": _patch("replace", f"{WEBHOOK}/rules/0/resources", ["*"]),
    "one more rule": _patch(
        "add",
        f"{WEBHOOK}/rules/-",
        {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["secrets"]},
    ),
    "failure policy": _patch("replace", f"{WEBHOOK}/failurePolicy", "Fail"),
    "namespaces": _patch("replace", f"{WEBHOOK}/namespaceSelector", {}),
    "objects": _patch("replace", f"{WEBHOOK}/objectSelector", {}),
    "conditions": _patch("remove", f"{WEBHOOK}/matchConditions", None),
    "time": _patch("replace", f"{WEBHOOK}/timeoutSeconds", 30),
    "name": _patch("replace", f"{WEBHOOK}/name", "another.example.com"),
    "entry gone": _patch("remove", WEBHOOK, None),
    "label": _patch("add", "/metadata/labels/x", "y"),
    "label gone": _patch("remove", "/metadata/labels/ebbtide~1ca-injection", None),
    "annotation": _patch("add", "/metadata/annotations", {"cert-manager.io/inject-ca-from": "x/y"}),
    "finalizer": _patch("add", "/metadata/finalizers", ["example.com/x"]),
    "owner": _patch(
        "add", "/metadata/ownerReferences", [{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "y"}]
    ),
    "with the CA": [
        *_patch("add", f"{WEBHOOK}/clientConfig/caBundle", "Zm9v"),
        *_patch("replace", f"{WEBHOOK}/failurePolicy", "Fail"),
    ],
}


async def test_the_reconciler_publishes_its_ca_and_changes_nothing_else_of_who_is_asked(
    release: Release, cluster: World, tmp_path: Path
) -> None:
    """Although its role lets it patch the configurations of its release: the policy beside it holds it to the CA."""
    await cluster.add_nodes("a", 1)
    await release.install()
    (pod, *_) = await release.pods("reconciler")
    client = _as(cluster, await release.token(pod), tmp_path / "account")
    path = MUTATING_WEBHOOKS.path(name=f"{release.fullname}-pods")

    async def in_force() -> bool:
        return (await client.request("PATCH", path, body=NOT_FOR_THE_RECONCILER["label"], **_DRY)).status == 403

    await cluster.wait_until(in_force, "the policy is in force")
    for what, patch in NOT_FOR_THE_RECONCILER.items():
        answer = await client.request("PATCH", path, body=patch, **_DRY)
        assert (what, answer.status, b"the reconciler changes nothing but the CA" in answer.body) == (
            what,
            403,
            True,
        ), answer.body
    before = await cluster.client.get(MUTATING_WEBHOOKS, f"{release.fullname}-pods")
    async with release.running("reconciler") as reconciler:
        await release.ready(reconciler)

        async def published() -> bool:
            return all("caBundle" in each["clientConfig"] for each in await _entries(release))

        await cluster.wait_until(published, "the CA is in every entry")
        # Another one, also where the first has been.
        for bundle in ("Zm9v", None):
            await cluster.client.patch_merge(MUTATING_WEBHOOKS, before["metadata"]["name"], _with(before, bundle))
            await cluster.wait_until(partial(_has_another_than, release, bundle), "it is put back")
        assert not [line for line in reconciler.log if "403" in line]
    after = await cluster.client.get(MUTATING_WEBHOOKS, f"{release.fullname}-pods")
    for each in after["webhooks"]:
        del each["clientConfig"]["caBundle"]
    assert after["webhooks"] == before["webhooks"]
    policy = await cluster.client.request("GET", _POLICIES.format(f"{release.fullname}-reconciler"))
    assert not policy.json()["status"].get("typeChecking", {}).get("expressionWarnings")
    await release.uninstall()


_POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{}"


async def _entries(release: Release) -> list[Any]:
    selector = f"app.kubernetes.io/instance={release.name}"
    found, _ = await release.cluster.client.list_all(MUTATING_WEBHOOKS, label_selector=selector)
    return [entry for each in found for entry in each["webhooks"]]


async def _has_another_than(release: Release, bundle: str | None) -> bool:
    return all(each["clientConfig"].get("caBundle") not in (None, bundle) for each in await _entries(release))


def _with(configuration: Mapping[str, Any], bundle: str | None) -> Mapping[str, Any]:
    """A merge patch takes lists as wholes."""
    entries = [
        {**each, "clientConfig": {**each["clientConfig"], "caBundle": bundle}} for each in configuration["webhooks"]
    ]
    return {"webhooks": entries}


def _as(cluster: World, token: str, folder: Path) -> SlimClient:
    """A client with that token."""
    folder.mkdir()
    (folder / "token").write_text(token)
    (folder / "ca.crt").write_bytes(cluster.plane.ca_file.read_bytes())
    return SlimClient(cluster.plane.server, folder, "test")


async def _token_without_pod(release: Release, pod: Mapping[str, Any]) -> str:
    """One of its account that was issued for no pod."""
    account = pod["spec"]["serviceAccountName"]
    path = f"/api/v1/namespaces/{release.namespace}/serviceaccounts/{account}/token"
    answer = await asyncio.to_thread(release.cluster.plane.call, "POST", path, {"spec": {}})
    return str(answer["status"]["token"])
