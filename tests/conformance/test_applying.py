"""Server-side apply: owning some fields of an object that others own too."""

import base64
from typing import Any

import pytest

from ebbtide.kube.client import Object
from ebbtide.kube.errors import Conflict, Invalid
from ebbtide.kube.resources import NODES
from tests.conformance.subject import CONFIG_MAPS, WEBHOOKS, Subject, version

# The server wants PEM and does not look into it.
BUNDLE = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").decode()


async def _apply(subject: Subject, body: dict[str, Any], manager: str = "a", *, force: bool = False) -> Object:
    full = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}} | body
    return await subject.client.apply(
        CONFIG_MAPS, "one", full, namespace=subject.namespace, field_manager=manager, force=force
    )


async def test_applying_creates(subject: Subject) -> None:
    """What is not there is created, and the manager is on record as its applier."""
    created = await _apply(subject, {"data": {"key": "value"}})
    (entry,) = created["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["apiVersion"]) == ("a", "Apply", "v1")
    assert entry["fieldsV1"] == {"f:data": {"f:key": {}}}


async def test_applying_again_changes_nothing(subject: Subject) -> None:
    """The same apply again keeps the version."""
    created = await _apply(subject, {"data": {"key": "value"}})
    assert version(await _apply(subject, {"data": {"key": "value"}})) == version(created)


async def test_applying_keeps_what_others_own(subject: Subject) -> None:
    """Fields of other managers stay, whether they were applied or written plainly."""
    await subject.config_map("one", {"plain": "1"})
    await _apply(subject, {"data": {"b": "2"}}, "b")
    applied = await _apply(subject, {"data": {"a": "3"}}, "a")
    assert applied["data"] == {"plain": "1", "b": "2", "a": "3"}


async def test_what_is_no_longer_applied_goes(subject: Subject) -> None:
    """A field that its only owner leaves out is removed; one that others own too stays."""
    await _apply(subject, {"data": {"own": "1", "shared": "2"}}, "a")
    await _apply(subject, {"data": {"shared": "2"}}, "b")
    applied = await _apply(subject, {"data": {"other": "3"}}, "a")
    assert applied["data"] == {"other": "3", "shared": "2"}


async def test_a_field_of_another_is_a_conflict(subject: Subject) -> None:
    """Another value for another's field is 409 with the field as cause; by force it changes hands."""
    await _apply(subject, {"data": {"key": "value"}}, "a")
    with pytest.raises(Conflict) as caught:
        await _apply(subject, {"data": {"key": "other"}}, "b")
    assert caught.value.causes == ("FieldManagerConflict",)
    forced = await _apply(subject, {"data": {"key": "other"}}, "b", force=True)
    assert forced["data"] == {"key": "other"}
    assert [entry["manager"] for entry in forced["metadata"]["managedFields"]] == ["b"]


async def test_the_same_value_is_shared(subject: Subject) -> None:
    """Applying the value that is there makes a second owner, without force."""
    await _apply(subject, {"data": {"key": "value"}}, "a")
    shared = await _apply(subject, {"data": {"key": "value"}}, "b")
    assert sorted(entry["manager"] for entry in shared["metadata"]["managedFields"]) == ["a", "b"]


async def test_applying_needs_kind_and_manager(subject: Subject) -> None:
    """An apply without `apiVersion` and `kind`, or without a field manager, is refused."""
    how: dict[str, Any] = {"content_type": "application/apply-patch+yaml"}
    whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}
    nobody = await subject.ask("PATCH", CONFIG_MAPS, "one", body=whole, **how)
    assert nobody.status == 422
    with pytest.raises(Invalid) as caught:
        await subject.client.apply(
            CONFIG_MAPS, "one", {"metadata": {"name": "one"}}, namespace=subject.namespace, field_manager="a"
        )
    assert caught.value.code == 400


async def test_applying_taints_takes_all_of_them(subject: Subject) -> None:
    """`spec.taints` has one owner as a whole: applying one's own taint conflicts with whoever has set others."""
    node = await subject.make_node()
    taints = [{"key": "example.com/foreign", "effect": "NoSchedule"}]
    await subject.client.patch_merge(NODES, node, {"spec": {"taints": taints}})
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node},
        "spec": {"taints": [{"key": "ebbtide/prevent-ca-scale-up", "value": "1", "effect": "NoSchedule"}]},
    }
    with pytest.raises(Conflict):
        await subject.client.apply(NODES, node, body, field_manager="a")


async def test_a_certificate_bundle_is_added_to_an_entry(subject: Subject) -> None:
    """Applying name and bundle of a webhook entry keeps the rest of it, and of the others; again, it is no write."""
    name = f"{subject.namespace}-hooks"
    entry = {
        "clientConfig": {"url": "https://127.0.0.1:9/mutate"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "namespaceSelector": {"matchLabels": {"nobody": "has"}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
    }
    hooks = [entry | {"name": "one.tests.ebbtide.io"}, entry | {"name": "two.tests.ebbtide.io"}]
    before = await subject.client.create(WEBHOOKS, {"metadata": {"name": name}, "webhooks": hooks})
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{"name": "one.tests.ebbtide.io", "clientConfig": {"caBundle": BUNDLE}}],
    }
    try:
        applied = await subject.client.apply(WEBHOOKS, name, body, field_manager="ebbtide-webhook-certs")
        again = await subject.client.apply(WEBHOOKS, name, body, field_manager="ebbtide-webhook-certs")
    finally:
        await subject.client.delete(WEBHOOKS, name)
    first, second = before["webhooks"]
    assert applied["webhooks"] == [
        first | {"clientConfig": {"url": first["clientConfig"]["url"], "caBundle": BUNDLE}},
        second,
    ]
    assert version(again) == version(applied)
