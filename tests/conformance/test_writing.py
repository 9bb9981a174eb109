"""Creating, replacing and patching: who is refused, and what exactly is stored."""

import asyncio

import pytest

from ebbtide.kube import patch
from ebbtide.kube.errors import AlreadyExists, Conflict, Invalid, NotFound, PreconditionFailed
from ebbtide.kube.resources import LEASES, NAMESPACES, NODES, PODS
from tests.conformance.subject import CONFIG_MAPS, Subject, version

MISSING = "/metadata/annotations/absent"


async def test_a_created_object_gets_its_identity(subject: Subject) -> None:
    """The server sets UID, version and creation time, and records who wrote which field."""
    created = await subject.config_map("one", {"key": "value"})
    metadata = created["metadata"]
    assert metadata["uid"]
    assert int(metadata["resourceVersion"]) > 0
    assert metadata["creationTimestamp"].endswith("Z")
    assert [entry["operation"] for entry in metadata["managedFields"]] == ["Update"]
    assert created == await subject.client.get(CONFIG_MAPS, "one", namespace=subject.namespace)


async def test_a_name_can_be_had_once(subject: Subject) -> None:
    """Creating what exists is 409 AlreadyExists, and of many at once exactly one succeeds."""
    answers = await asyncio.gather(*(subject.config_map("one") for _ in range(8)), return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, AlreadyExists)]
    assert len(refused) == 7
    assert refused[0].message == 'configmaps "one" already exists'


async def test_a_generated_name(subject: Subject) -> None:
    """`generateName` gets five characters appended, different ones each time."""
    body = {"metadata": {"generateName": "made-"}}
    made = [await subject.client.create(CONFIG_MAPS, body, namespace=subject.namespace) for _ in range(3)]
    found = {raw["metadata"]["name"] for raw in made}
    assert len(found) == 3
    assert all(name.startswith("made-") and len(name) == len("made-") + 5 for name in found)


async def test_a_namespace_that_is_not_there(subject: Subject) -> None:
    """Creating in a namespace that does not exist is 404."""
    with pytest.raises(NotFound) as caught:
        await subject.client.create(CONFIG_MAPS, {"metadata": {"name": "one"}}, namespace="nowhere")
    assert caught.value.message == 'namespaces "nowhere" not found'


async def test_a_namespace_that_is_going(subject: Subject) -> None:
    """Creating in a namespace that is being deleted is 403 with a cause that says so."""
    await subject.config_map("held", finalizers=["tests.ebbtide/hold"])
    await subject.client.delete(NAMESPACES, subject.namespace)
    answer = await subject.ask("POST", CONFIG_MAPS, body={"metadata": {"name": "late"}})
    assert answer.status == 403
    assert "NamespaceTerminating" in [cause["reason"] for cause in answer.json()["details"]["causes"]]
    await subject.client.patch_merge(
        CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, namespace=subject.namespace
    )


async def test_names_and_labels_are_checked(subject: Subject) -> None:
    """A name or a label value that no object may have is 422."""
    with pytest.raises(Invalid):
        await subject.config_map("No Name")
    with pytest.raises(Invalid) as caught:
        await subject.config_map("one", labels={"a": "no value!"})
    assert caught.value.code == 422


# --- replace -------------------------------------------------------------------------------------------------------


async def test_replacing_an_old_version(subject: Subject) -> None:
    """Of two writers who read the same version the second is refused with 409 Conflict."""
    read = await subject.config_map("one")
    replaced = await subject.client.replace(
        CONFIG_MAPS, "one", read | {"data": {"by": "first"}}, namespace=subject.namespace
    )
    with pytest.raises(Conflict) as caught:
        await subject.client.replace(CONFIG_MAPS, "one", read | {"data": {"by": "second"}}, namespace=subject.namespace)
    assert caught.value.reason == "Conflict"
    assert "the object has been modified" in caught.value.message
    assert version(replaced) > version(read)


async def test_replacing_another_object_of_that_name(subject: Subject) -> None:
    """A UID that is not the live object's is 409."""
    await subject.config_map("one")
    stranger = {"metadata": {"name": "one", "uid": "11111111-2222-3333-4444-555555555555"}}
    with pytest.raises(PreconditionFailed):
        await subject.client.replace(CONFIG_MAPS, "one", stranger, namespace=subject.namespace)


async def test_replacing_with_another_name(subject: Subject) -> None:
    """The name in the body must be that of the path."""
    read = await subject.config_map("one")
    read["metadata"]["name"] = "two"
    with pytest.raises(Invalid) as caught:
        await subject.client.replace(CONFIG_MAPS, "one", read, namespace=subject.namespace)
    assert caught.value.code == 400


async def test_replacing_with_the_same_changes_nothing(subject: Subject) -> None:
    """A write without a difference keeps the version, and makes no event."""
    read = await subject.config_map("one", {"key": "value"})
    again = await subject.client.replace(CONFIG_MAPS, "one", read, namespace=subject.namespace)
    assert version(again) == version(read)


# --- JSON patch ----------------------------------------------------------------------------------------------------


async def test_a_failing_test_refuses_the_whole_patch(subject: Subject) -> None:
    """A JSON patch whose `test` fails is 422, and none of its operations is done."""
    await subject.config_map("one", {"key": "value"})
    operations = [patch.replace("/data/key", "other"), patch.test("/data/key", "value")]
    with pytest.raises(Invalid) as caught:
        await subject.client.patch_json(CONFIG_MAPS, "one", operations, namespace=subject.namespace)
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    read = await subject.client.get(CONFIG_MAPS, "one", namespace=subject.namespace)
    assert read["data"] == {"key": "value"}


@pytest.mark.parametrize(
    "operation",
    [
        patch.remove("/data/absent"),
        patch.test("/data/absent", "x"),
        patch.add("/absent/key", "x"),
        patch.add(MISSING, "x"),
        patch.remove("/metadata/labels"),
        patch.add("/metadata/finalizers/-", "tests.ebbtide/x"),
    ],
    ids=lambda operation: f"{operation['op']} {operation['path']}",
)
async def test_a_missing_path_is_refused(subject: Subject, operation: dict[str, object]) -> None:
    """An operation on a path that is not there, or below one that is not there, is 422."""
    await subject.config_map("one", {"key": "value"})
    with pytest.raises(Invalid) as caught:
        await subject.client.patch_json(CONFIG_MAPS, "one", [operation], namespace=subject.namespace)
    assert caught.value.code == 422


async def test_replacing_a_missing_member_adds_it(subject: Subject) -> None:
    """Unlike RFC 6902, `replace` of a member that is not there is done, when its parent is: only a `test` can tell."""
    await subject.config_map("one", {"key": "value"})
    operation = patch.replace("/data/absent", "x")
    patched = await subject.client.patch_json(CONFIG_MAPS, "one", [operation], namespace=subject.namespace)
    assert patched["data"] == {"key": "value", "absent": "x"}


async def test_a_patch_can_name_the_version_that_it_means(subject: Subject) -> None:
    """Replacing `/metadata/resourceVersion`: with the live one all is done, with an old one 409 Conflict."""
    read = await subject.config_map("one", {"key": "value"})
    old = read["metadata"]["resourceVersion"]
    operations = [patch.replace("/metadata/resourceVersion", old), patch.replace("/data/key", "new")]
    changed = await subject.client.patch_json(CONFIG_MAPS, "one", operations, namespace=subject.namespace)
    assert changed["data"] == {"key": "new"}
    with pytest.raises(Conflict) as caught:
        await subject.client.patch_json(CONFIG_MAPS, "one", operations, namespace=subject.namespace)
    assert (caught.value.code, caught.value.reason) == (409, "Conflict")


async def test_a_patch_can_test_identity_and_version(subject: Subject) -> None:
    """`test` works on the UID and on the version as strings."""
    read = await subject.config_map("one")
    metadata = read["metadata"]
    guarded = [
        patch.test("/metadata/uid", metadata["uid"]),
        patch.test("/metadata/resourceVersion", metadata["resourceVersion"]),
    ]
    await subject.client.patch_json(
        CONFIG_MAPS, "one", [*guarded, patch.add("/data", {"key": "x"})], namespace=subject.namespace
    )
    with pytest.raises(Invalid):
        await subject.client.patch_json(
            CONFIG_MAPS, "one", [*guarded, patch.add("/data", {"key": "y"})], namespace=subject.namespace
        )
    stranger = [patch.test("/metadata/uid", "another"), patch.add("/data", {"key": "z"})]
    with pytest.raises(Invalid):
        await subject.client.patch_json(CONFIG_MAPS, "one", stranger, namespace=subject.namespace)


async def test_patching_what_is_not_there(subject: Subject) -> None:
    """A JSON or merge patch of an absent object is 404 and creates nothing."""
    with pytest.raises(NotFound):
        await subject.client.patch_json(CONFIG_MAPS, "one", [patch.add("/data", {})], namespace=subject.namespace)
    with pytest.raises(NotFound):
        await subject.client.patch_merge(CONFIG_MAPS, "one", {"data": {}}, namespace=subject.namespace)


async def test_a_patch_without_effect_changes_nothing(subject: Subject) -> None:
    """JSON and merge patches that lead to the same object keep its version."""
    read = await subject.config_map("one", {"key": "value"}, labels={"a": "b"})
    patched = await subject.client.patch_json(
        CONFIG_MAPS,
        "one",
        [patch.test("/data/key", "value"), patch.replace("/data/key", "value")],
        namespace=subject.namespace,
    )
    assert version(patched) == version(read)
    merged = await subject.client.patch_merge(
        CONFIG_MAPS, "one", {"metadata": {"labels": {"a": "b", "absent": None}}}, namespace=subject.namespace
    )
    assert version(merged) == version(read)


# --- merge patch ---------------------------------------------------------------------------------------------------


async def test_a_merge_patch_makes_and_removes(subject: Subject) -> None:
    """It makes missing parents, null removes, and a map that becomes empty is gone from the object."""
    await subject.config_map("one")
    key = "tests.ebbtide/note"
    added = await subject.client.patch_merge(
        CONFIG_MAPS, "one", {"metadata": {"annotations": {key: "x"}}}, namespace=subject.namespace
    )
    assert added["metadata"]["annotations"] == {key: "x"}
    removed = await subject.client.patch_merge(
        CONFIG_MAPS, "one", {"metadata": {"annotations": {key: None}}}, namespace=subject.namespace
    )
    assert "annotations" not in removed["metadata"]


async def test_a_merge_patch_can_name_the_version_that_it_means(subject: Subject) -> None:
    """A merge patch with an old `metadata.resourceVersion` is 409 Conflict."""
    read = await subject.config_map("one")
    body = {"metadata": {"resourceVersion": read["metadata"]["resourceVersion"]}, "data": {"a": "1"}}
    await subject.client.patch_merge(CONFIG_MAPS, "one", body, namespace=subject.namespace)
    with pytest.raises(Conflict):
        await subject.client.patch_merge(CONFIG_MAPS, "one", body, namespace=subject.namespace)


async def test_an_unknown_kind_of_patch(subject: Subject) -> None:
    """A patch of a content type that is no patch is 415."""
    await subject.config_map("one")
    answer = await subject.ask("PATCH", CONFIG_MAPS, "one", body={"data": {}}, content_type="application/json")
    assert answer.status == 415


# --- dry run, status -----------------------------------------------------------------------------------------------


async def test_a_dry_run_stores_nothing(subject: Subject) -> None:
    """`dryRun=All` answers as if it were done, and refuses what would be refused."""
    await subject.config_map("one", {"key": "value"})
    dry = {"dryRun": "All"}
    created = await subject.ask("POST", CONFIG_MAPS, params=dry, body={"metadata": {"name": "two"}})
    assert created.status == 201
    assert not await subject.exists(CONFIG_MAPS, "two")
    again = await subject.ask("POST", CONFIG_MAPS, params=dry, body={"metadata": {"name": "one"}})
    assert again.status == 409
    patched = await subject.ask(
        "PATCH",
        CONFIG_MAPS,
        "one",
        params=dry,
        body={"data": {"key": "other"}},
        content_type="application/merge-patch+json",
    )
    assert patched.json()["data"] == {"key": "other"}
    deleted = await subject.ask("DELETE", CONFIG_MAPS, "one", params=dry)
    assert deleted.status == 200
    read = await subject.client.get(CONFIG_MAPS, "one", namespace=subject.namespace)
    assert read["data"] == {"key": "value"}


async def test_status_is_written_apart(subject: Subject) -> None:
    """A write of the object leaves its status alone, and a write of the status leaves the specification alone."""
    await subject.running_pod("one")
    body = {"status": {"phase": "Failed"}, "metadata": {"labels": {"by": "object"}}}
    by_object = await subject.client.patch_merge(PODS, "one", body, namespace=subject.namespace)
    assert by_object["status"]["phase"] == "Running"
    assert by_object["metadata"]["labels"] == {"by": "object"}
    by_status = await subject.client.patch_merge(
        PODS,
        "one",
        {"status": {"message": "seen"}, "spec": {"terminationGracePeriodSeconds": 7}},
        namespace=subject.namespace,
        subresource="status",
    )
    assert by_status["status"]["message"] == "seen"
    assert by_status["spec"]["terminationGracePeriodSeconds"] == 30


async def test_a_created_object_has_no_status_of_the_writer(subject: Subject) -> None:
    """Status in a creation is dropped: a new pod is Pending."""
    body = {
        "metadata": {"name": "one"},
        "spec": {"schedulerName": "none", "containers": [{"name": "main", "image": "none"}]},
        "status": {"phase": "Running"},
    }
    created = await subject.client.create(PODS, body, namespace=subject.namespace)
    assert created["status"]["phase"] == "Pending"


# --- leases --------------------------------------------------------------------------------------------------------

RENEWED = "2026-01-02T03:04:05.000006Z"


async def _lease(subject: Subject) -> dict[str, object]:
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 15, "acquireTime": RENEWED, "renewTime": RENEWED}
    return await subject.client.create(
        LEASES, {"metadata": {"name": "leader"}, "spec": spec}, namespace=subject.namespace
    )


async def test_a_lease_keeps_its_microseconds(subject: Subject) -> None:
    """Times of a lease come back with six digits."""
    await _lease(subject)
    read = await subject.client.get(LEASES, "leader", namespace=subject.namespace)
    assert read["spec"]["renewTime"] == RENEWED


async def test_of_two_candidates_one_gets_the_lease(subject: Subject) -> None:
    """Two who replace the version that both read: one holds the lease, the other gets 409."""
    read = await _lease(subject)
    spec = read["spec"]
    assert isinstance(spec, dict)
    bids = [read | {"spec": spec | {"holderIdentity": name}} for name in ("b", "c")]
    answers = await asyncio.gather(
        *(subject.client.replace(LEASES, "leader", bid, namespace=subject.namespace) for bid in bids),
        return_exceptions=True,
    )
    assert sorted(isinstance(answer, Conflict) for answer in answers) == [False, True]
    held = await subject.client.get(LEASES, "leader", namespace=subject.namespace)
    assert held["spec"]["holderIdentity"] in ("b", "c")


async def test_a_lease_is_never_replaced_blindly(subject: Subject) -> None:
    """Replacing a lease without saying which version is 422."""
    await _lease(subject)
    body = {"metadata": {"name": "leader"}, "spec": {"holderIdentity": "b", "leaseDurationSeconds": 15}}
    with pytest.raises(Invalid) as caught:
        await subject.client.replace(LEASES, "leader", body, namespace=subject.namespace)
    assert caught.value.code == 422


# --- events --------------------------------------------------------------------------------------------------------


async def test_what_an_event_needs(subject: Subject) -> None:
    """An event of a node lives in namespace `default` and is 422 without its required fields."""
    node = await subject.make_node()
    uid = (await subject.client.get(NODES, node))["metadata"]["uid"]
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    event = {
        "metadata": {"name": f"{node}.1"},
        "eventTime": RENEWED,
        "reportingController": "tests.ebbtide/conformance",
        "reportingInstance": "one",
        "action": "Tested",
        "reason": "Tested",
        "type": "Normal",
        "note": "seen",
        "regarding": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid},
    }
    assert (await subject.client.request("POST", path, body=event | {"eventTime": None})).status == 422
    assert (await subject.client.request("POST", path, body=event)).status == 201
    elsewhere = path.replace("/default/", f"/{subject.namespace}/")
    assert (await subject.client.request("POST", elsewhere, body=event)).status == 422
