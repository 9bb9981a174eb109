"""POST, PUT, PATCH and DELETE over HTTP."""

from typing import Any

import pytest

from ebbtide.sim import objects
from ebbtide.sim.writes import Admission
from tests.ebbtide.sim.talk import (
    CONFIG_MAPS,
    JSON_PATCH,
    LEASES,
    NODES,
    PODS,
    STATEFUL_SETS,
    Object,
    Talk,
    config_map,
    embedded,
    simulated,
)

TAINTS = [objects.taint("first"), objects.taint("second", "value"), objects.taint("third", effect="NoExecute")]


async def tainted(talk: Talk) -> Object:
    talk.cluster.create(objects.node("n", zone="z1", taints=TAINTS))
    return (await talk.get(f"{NODES}/n")).body


# --- JSON patch ----------------------------------------------------------------------------------------------------


@simulated
async def test_a_json_patch_takes_one_taint_and_leaves_the_others() -> None:
    """Foreign entries keep content and order."""
    async with embedded() as talk:
        await tainted(talk)
        test = {"op": "test", "path": "/spec/taints/1", "value": TAINTS[1]}
        answer = await talk.patch(f"{NODES}/n", test, {"op": "remove", "path": "/spec/taints/1"})
        assert answer.code == 200
        assert answer.body["spec"]["taints"] == [TAINTS[0], TAINTS[2]]


@simulated
async def test_an_emptied_list_disappears() -> None:
    """A node without taints has no `spec.taints`, so that a later patch must add the list."""
    async with embedded() as talk:
        talk.cluster.create(objects.node("n", taints=TAINTS[:1]))
        answer = await talk.patch(f"{NODES}/n", {"op": "remove", "path": "/spec/taints/0"})
        assert "taints" not in answer.body["spec"]
        refused = await talk.patch(f"{NODES}/n", {"op": "add", "path": "/spec/taints/-", "value": TAINTS[0]})
        assert refused.refusal() == (422, "Invalid")


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/spec/taints/0/key", "value": "other"},
        {"op": "test", "path": "/spec/absent", "value": "x"},
        {"op": "remove", "path": "/spec/taints/7"},
        {"op": "remove", "path": "/spec/absent"},
        {"op": "add", "path": "/spec/absent/x", "value": 1},
        {"op": "replace", "path": "/spec/taints/7", "value": {}},
    ],
)
@simulated
async def test_a_patch_that_does_not_fit_changes_nothing(operation: Object) -> None:
    """A failing test or a missing path refuses all operations with 422."""
    async with embedded() as talk:
        made = await tainted(talk)
        first = {"op": "add", "path": "/metadata/labels/x", "value": "y"}
        assert (await talk.patch(f"{NODES}/n", first, operation)).refusal() == (422, "Invalid")
        assert (await talk.get(f"{NODES}/n")).body == made


@simulated
async def test_missing_members_as_the_real_library_sees_them() -> None:
    """`replace` adds a member that is not there, `test` finds null in its place."""
    async with embedded() as talk:
        await tainted(talk)
        answer = await talk.patch(
            f"{NODES}/n",
            {"op": "test", "path": "/metadata/labels/new", "value": None},
            {"op": "replace", "path": "/metadata/labels/new", "value": "x"},
        )
        assert answer.body["metadata"]["labels"]["new"] == "x"


@simulated
async def test_a_patch_may_name_the_version_it_means() -> None:
    """Replacing resourceVersion with an old one is 409, with the live one it is the same as not naming it."""
    async with embedded() as talk:
        made = await tainted(talk)
        version = made["metadata"]["resourceVersion"]
        meant = {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
        label = {"op": "add", "path": "/metadata/labels/x", "value": "y"}
        assert (await talk.patch(f"{NODES}/n", meant, label)).code == 200
        late = await talk.patch(f"{NODES}/n", meant, {"op": "add", "path": "/metadata/labels/x", "value": "z"})
        assert late.refusal() == (409, "Conflict")
        assert "the object has been modified" in late.body["message"]


@simulated
async def test_identity_cannot_be_patched() -> None:
    """A patch of the UID is 422, of the name 400; of creation time and generation it is ignored."""
    async with embedded() as talk:
        made = await tainted(talk)
        path = f"{NODES}/n"
        uid = await talk.patch(path, {"op": "replace", "path": "/metadata/uid", "value": "x"})
        assert uid.refusal() == (422, "Invalid")
        name = await talk.patch(path, {"op": "replace", "path": "/metadata/name", "value": "x"})
        assert name.refusal() == (400, "BadRequest")
        time = {"op": "replace", "path": "/metadata/creationTimestamp", "value": "2000-01-01T00:00:00Z"}
        assert (await talk.patch(path, time)).body == made


@pytest.mark.parametrize("body", [{"op": "test"}, [{"op": "nonsense", "path": "/x"}], [1]])
@simulated
async def test_what_is_no_json_patch(body: Any) -> None:
    """It is refused as a bad request."""
    async with embedded() as talk:
        await tainted(talk)
        assert (await talk.ask("PATCH", f"{NODES}/n", body, JSON_PATCH)).refusal()[0] in {400, 422}


# --- other patches -------------------------------------------------------------------------------------------------


@simulated
async def test_a_merge_patch_replaces_lists() -> None:
    """A list of one deletes everybody else's taints; null removes a member."""
    async with embedded() as talk:
        await tainted(talk)
        answer = await talk.merge(f"{NODES}/n", {"spec": {"taints": [TAINTS[0]], "providerID": None}})
        assert answer.refusal() == (422, "Invalid")
        answer = await talk.merge(f"{NODES}/n", {"spec": {"taints": [TAINTS[0]]}})
        assert answer.body["spec"]["taints"] == [TAINTS[0]]
        answer = await talk.merge(f"{NODES}/n", {"spec": {"taints": None, "unschedulable": False}})
        assert answer.body["spec"].keys() == {"providerID"}


@pytest.mark.parametrize("media_type", ["application/strategic-merge-patch+json", "application/json", "text/plain"])
@simulated
async def test_other_patches_are_refused(media_type: str) -> None:
    """Strategic merge patches on purpose, the rest because they are none."""
    async with embedded() as talk:
        await tainted(talk)
        answer = await talk.ask("PATCH", f"{NODES}/n", {"metadata": {}}, media_type)
        assert answer.refusal() == (415, "UnsupportedMediaType")


@simulated
async def test_a_patch_without_effect_is_no_new_version() -> None:
    """Nor is it one for a watcher."""
    async with embedded() as talk:
        made = await tainted(talk)
        assert (await talk.merge(f"{NODES}/n", {"metadata": {"labels": {"absent": None}}})).body == made
        assert (await talk.put(f"{NODES}/n", made)).body == made


# --- PUT -----------------------------------------------------------------------------------------------------------


@simulated
async def test_put_replaces_the_version_that_it_names() -> None:
    """An old version or another UID is 409; another name or namespace is 400."""
    async with embedded() as talk:
        made = (await talk.post(CONFIG_MAPS, config_map("a", key="1"))).body
        path = f"{CONFIG_MAPS}/a"
        assert (await talk.put(path, {**made, "data": {"key": "2"}})).code == 200
        assert (await talk.put(path, {**made, "data": {"key": "3"}})).refusal() == (409, "Conflict")
        other = {**config_map("a"), "metadata": {"name": "a", "uid": "other"}}
        assert (await talk.put(path, other)).refusal() == (409, "Conflict")
        assert (await talk.put(path, config_map("b"))).refusal() == (400, "BadRequest")
        elsewhere = {"metadata": {"name": "a", "namespace": "kube-system"}}
        assert (await talk.put(path, elsewhere)).refusal() == (400, "BadRequest")
        assert (await talk.put(f"{CONFIG_MAPS}/absent", config_map("absent"))).refusal() == (404, "NotFound")


@simulated
async def test_a_lease_is_written_by_its_version() -> None:
    """PUT makes a lease that is not there, and then wants to know which version is meant."""
    async with embedded() as talk:
        lease = {"metadata": {"name": "leader"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}
        made = await talk.put(f"{LEASES}/leader", lease)
        assert made.code == 201
        assert (await talk.put(f"{LEASES}/leader", lease)).refusal() == (422, "Invalid")
        made.body["spec"]["holderIdentity"] = ""
        taken = {**made.body, "spec": {**made.body["spec"], "holderIdentity": "b"}}
        assert (await talk.put(f"{LEASES}/leader", taken)).code == 200
        assert (await talk.put(f"{LEASES}/leader", taken)).refusal() == (409, "Conflict")


# --- validation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (NODES, {"metadata": {"name": "Not A Name"}}, "metadata.name"),
        (NODES, {"metadata": {"name": "a" * 254}}, "metadata.name"),
        (NODES, objects.node("n", labels={"bad key": "x"}), "metadata.labels"),
        (NODES, objects.node("n", labels={"key": "bad value"}), "metadata.labels"),
        (NODES, objects.node("n", labels={"key": "x" * 64}), "metadata.labels"),
        (NODES, objects.node("n", taints=[objects.taint("k", effect="Nonsense")]), "metadata.taints[0].effect"),
        (NODES, objects.node("n", taints=[objects.taint("")]), "metadata.taints[0].key"),
        (NODES, objects.node("n", taints=[objects.taint("k", "1"), objects.taint("k", "2")]), "metadata.taints[1]"),
        (PODS, {"metadata": {"name": "p"}, "spec": {}}, "spec.containers"),
        (PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "x"}]}}, "spec.containers[0].image"),
        (STATEFUL_SETS, objects.changed(objects.stateful_set("s"), {"spec": {"selector": None}}), "spec.selector"),
        (STATEFUL_SETS, objects.stateful_set("s", replicas=-1), "spec.replicas"),
        (LEASES, {"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 0}}, "spec.leaseDurationSeconds"),
    ],
)
@simulated
async def test_what_is_not_valid(path: str, body: Object, field: str) -> None:
    """422 names the field."""
    async with embedded() as talk:
        answer = await talk.post(path, body)
        assert answer.refusal() == (422, "Invalid")
        assert answer.body["details"]["causes"][0]["field"] == field


@simulated
async def test_what_never_changes() -> None:
    """Most of a StatefulSet's and of a pod's specification is fixed."""
    async with embedded() as talk:
        await talk.post(STATEFUL_SETS, objects.stateful_set("db"))
        await talk.post(PODS, objects.pod("p"))
        for path, patch in (
            (f"{STATEFUL_SETS}/db", {"spec": {"serviceName": "other"}}),
            (f"{STATEFUL_SETS}/db", {"spec": {"selector": {"matchLabels": {"app": "other"}}}}),
            (f"{PODS}/p", {"spec": {"nodeName": "n"}}),
        ):
            assert (await talk.merge(path, patch)).refusal() == (422, "Invalid")
        assert (await talk.merge(f"{STATEFUL_SETS}/db", {"spec": {"replicas": 7}})).code == 200


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x"}}, 400),
        ({"metadata": {"name": "x", "namespace": "other"}}, 400),
        ({"metadata": {"name": "x", "resourceVersion": "1"}}, 500),
        ([], 400),
    ],
)
@simulated
async def test_bodies_that_do_not_belong_there(body: Any, code: int) -> None:
    """Another kind or namespace, or a version on a new object, is refused."""
    async with embedded() as talk:
        assert (await talk.post(CONFIG_MAPS, body)).refusal()[0] == code


# --- the rest ------------------------------------------------------------------------------------------------------


@simulated
async def test_a_dry_run_says_what_would_be_and_does_nothing() -> None:
    """Create, patch and delete, each for show."""
    async with embedded() as talk:
        made = (await talk.post(CONFIG_MAPS, config_map("a", key="1"))).body
        version = talk.cluster.storage.version
        assert (await talk.post(f"{CONFIG_MAPS}?dryRun=All", config_map("b"))).code == 201
        shown = await talk.merge(f"{CONFIG_MAPS}/a?dryRun=All", {"data": {"key": "2"}})
        assert shown.body["data"] == {"key": "2"}
        assert (await talk.delete(f"{CONFIG_MAPS}/a?dryRun=All")).code == 200
        assert talk.cluster.storage.version == version
        assert (await talk.get(f"{CONFIG_MAPS}/a")).body == made


@simulated
async def test_deleting() -> None:
    """A Status for most kinds, the object for pods; preconditions that fail are 409; a second time is 404."""
    async with embedded() as talk:
        made = (await talk.post(CONFIG_MAPS, config_map("a"))).body
        path = f"{CONFIG_MAPS}/a"
        wrong = await talk.delete(path, {"preconditions": {"uid": "other"}})
        assert wrong.refusal() == (409, "Conflict")
        wrong = await talk.delete(path, {"preconditions": {"resourceVersion": "1"}})
        assert wrong.refusal() == (409, "Conflict")
        gone = await talk.delete(path, {"preconditions": {"uid": made["metadata"]["uid"]}})
        assert (gone.body["kind"], gone.body["status"]) == ("Status", "Success")
        assert gone.body["details"]["uid"] == made["metadata"]["uid"]
        assert (await talk.delete(path)).refusal() == (404, "NotFound")
        await talk.post(PODS, objects.pod("p"))
        assert (await talk.delete(f"{PODS}/p")).body["kind"] == "Pod"


@simulated
async def test_deleting_a_collection() -> None:
    """Only what is selected goes."""
    async with embedded() as talk:
        for name in ("a", "b", "c"):
            body = config_map(name)
            body["metadata"]["labels"] = {"name": name}
            await talk.post(CONFIG_MAPS, body)
        answer = await talk.delete(f"{CONFIG_MAPS}?labelSelector=name%20in%20(a,b)")
        assert [item["metadata"]["name"] for item in answer.body["items"]] == ["a", "b"]
        assert [item["metadata"]["name"] for item in (await talk.get(CONFIG_MAPS)).body["items"]] == ["c"]


@simulated
async def test_status_is_a_resource_of_its_own() -> None:
    """What is sent to the wrong one of both is ignored."""
    async with embedded() as talk:
        await talk.post(PODS, {**objects.pod("p"), "status": {"phase": "Running"}})
        assert (await talk.get(f"{PODS}/p")).body["status"]["phase"] == "Pending"
        await talk.merge(f"{PODS}/p", {"status": {"phase": "Running"}, "metadata": {"labels": {"a": "b"}}})
        assert (await talk.get(f"{PODS}/p")).body["status"]["phase"] == "Pending"
        answer = await talk.merge(f"{PODS}/p/status", {"status": {"phase": "Running"}, "spec": {"nodeName": "n"}})
        assert answer.body["status"]["phase"] == "Running"
        assert "nodeName" not in answer.body["spec"]


@simulated
async def test_methods_that_make_no_sense() -> None:
    """They are 405, and a body that the client cannot send is 415, one that it cannot read 406."""
    async with embedded() as talk:
        await talk.post(CONFIG_MAPS, config_map("a"))
        assert (await talk.post(f"{CONFIG_MAPS}/a", {})).refusal()[0] == 405
        assert (await talk.put(CONFIG_MAPS, {})).refusal()[0] == 405
        assert (await talk.post("/api/v1/configmaps", config_map("b"))).refusal()[0] == 405
        yaml = await talk.ask("POST", CONFIG_MAPS, config_map("b"), "application/yaml")
        assert yaml.refusal() == (415, "UnsupportedMediaType")
        protobuf = {"Accept": "application/vnd.kubernetes.protobuf"}
        async with talk.session.get(f"{talk.server}{CONFIG_MAPS}", headers=protobuf) as answer:
            assert answer.status == 406


@simulated
async def test_whoever_admits_sees_old_and_new() -> None:
    """Admission may change what is stored, and is asked again when the object has changed while it thought."""
    async with embedded() as talk:
        seen: list[tuple[str, bool]] = []
        made = config_map("a", key="1")
        await talk.post(CONFIG_MAPS, made)

        async def admit(admission: Admission) -> Object:
            seen.append((admission.operation, admission.old is not None))
            if len(seen) == 1:
                live = talk.cluster.storage.get(talk_kind(admission), "a", "default")
                talk.cluster.storage.update(talk_kind(admission), {**live, "data": {"key": "raced"}})
            return {**admission.new, "data": {**admission.new["data"], "admitted": "yes"}}

        talk.cluster.api.writes.admit = admit
        answer = await talk.merge(f"{CONFIG_MAPS}/a", {"data": {"other": "2"}})
        assert answer.body["data"] == {"key": "raced", "other": "2", "admitted": "yes"}
        assert seen == [("UPDATE", True)] * 2
        created = await talk.post(CONFIG_MAPS, config_map("b"))
        assert created.body["data"] == {"admitted": "yes"}
        assert seen[-1] == ("CREATE", False)


def talk_kind(admission: Admission) -> Any:
    return admission.target.kind
