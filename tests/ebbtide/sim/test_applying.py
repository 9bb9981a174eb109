"""Server-side apply and who owns what."""

from typing import Any

import pytest

from ebbtide.sim import objects
from tests.ebbtide.sim.talk import (
    CONFIG_MAPS,
    NODES,
    STATEFUL_SETS,
    Answer,
    Object,
    Talk,
    config_map,
    embedded,
    simulated,
)

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


def webhook(name: str, **config: Any) -> Object:
    return {
        "name": name,
        "clientConfig": {"url": "https://127.0.0.1/mutate", **config},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }


def configuration(*webhooks: Object) -> Object:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "hooks"},
        "webhooks": list(webhooks),
    }


def data(name: str = "a", **values: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", **config_map(name, **values)}


def managers(answer: Answer) -> list[tuple[str, str]]:
    entries = answer.body["metadata"]["managedFields"]
    return [(entry["manager"], entry["operation"]) for entry in entries]


async def applied(talk: Talk, manager: str, **values: str) -> Answer:
    return await talk.apply(f"{CONFIG_MAPS}/a", data(**values), manager)


@simulated
async def test_the_first_apply_creates() -> None:
    """An object that is not there is made, and belongs to who applied it."""
    async with embedded() as talk:
        answer = await applied(talk, "one", x="1")
        assert answer.code == 201
        assert answer.body["metadata"]["managedFields"][0]["fieldsV1"] == {"f:data": {"f:x": {}}}
        assert managers(answer) == [("one", "Apply")]


@simulated
async def test_the_same_apply_again_changes_nothing() -> None:
    """No new version, whatever the others did meanwhile."""
    async with embedded() as talk:
        await applied(talk, "one", x="1")
        first = await applied(talk, "two", y="2")
        assert (await applied(talk, "one", x="1")).body == first.body
        assert (await applied(talk, "two", y="2")).body == first.body


@simulated
async def test_what_is_left_out_goes() -> None:
    """A field that only this manager had applied is removed, one that somebody else applied too stays."""
    async with embedded() as talk:
        await applied(talk, "one", mine="1", ours="2")
        await applied(talk, "two", ours="2")
        answer = await applied(talk, "one")
        assert answer.body["data"] == {"ours": "2"}
        assert managers(answer) == [("two", "Apply")]


@simulated
async def test_a_conflict_names_field_and_owner() -> None:
    """Another value in somebody else's field is 409 unless forced, and then belongs to who forced it."""
    async with embedded() as talk:
        await applied(talk, "one", x="1")
        answer = await applied(talk, "two", x="2")
        assert answer.refusal() == (409, "Conflict")
        assert answer.body["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.x'
        cause = {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.x"}
        assert answer.body["details"]["causes"] == [cause]
        forced = await talk.apply(f"{CONFIG_MAPS}/a", data(x="2"), "two", force=True)
        assert forced.body["data"] == {"x": "2"}
        assert managers(forced) == [("two", "Apply")]


@simulated
async def test_other_writes_take_what_they_change() -> None:
    """After a patch by another manager, applying the old value is a conflict with that one."""
    async with embedded() as talk:
        await applied(talk, "one", x="1", y="1")
        await talk.merge(f"{CONFIG_MAPS}/a?fieldManager=editor", {"data": {"x": "2"}})
        answer = await applied(talk, "one", x="1", y="1")
        assert answer.refusal() == (409, "Conflict")
        assert 'conflict with "editor" using v1: .data.x' in answer.body["message"]
        assert (await applied(talk, "one", y="1")).body["data"] == {"x": "2", "y": "1"}


@simulated
async def test_a_bundle_is_put_into_each_webhook() -> None:
    """Items of an associative list are found by their key and come in the order applied; the rest of them stays."""
    async with embedded() as talk:
        made = await talk.post(WEBHOOKS, configuration(webhook("a.example.com"), webhook("b.example.com")))
        bundles = [{"name": name, "clientConfig": {"caBundle": "Y2E="}} for name in ("b.example.com", "a.example.com")]
        answer = await talk.apply(f"{WEBHOOKS}/hooks", configuration(*bundles), "certs", force=True)
        assert answer.code == 200
        webhooks = answer.body["webhooks"]
        assert [entry["name"] for entry in webhooks] == ["b.example.com", "a.example.com"]
        for before, after in zip(reversed(made.body["webhooks"]), webhooks, strict=True):
            assert after == objects.changed(before, {"clientConfig": {"caBundle": "Y2E="}})
        again = await talk.apply(f"{WEBHOOKS}/hooks", configuration(*bundles), "certs", force=True)
        assert again.version == answer.version


@simulated
async def test_an_item_that_is_not_applied_any_more_goes() -> None:
    """As a whole, with what the server had filled in, if nobody else has a part in it."""
    async with embedded() as talk:
        path = f"{WEBHOOKS}/hooks"
        await talk.apply(path, configuration(webhook("a.example.com"), webhook("b.example.com")), "one")
        answer = await talk.apply(path, configuration(webhook("a.example.com")), "one")
        assert [entry["name"] for entry in answer.body["webhooks"]] == ["a.example.com"]


@simulated
async def test_taints_are_one_value() -> None:
    """The list is atomic: applying one taint is a conflict with whoever wrote the others."""
    async with embedded() as talk:
        await talk.post(NODES, objects.node("n", taints=[objects.taint("theirs")]))
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n"},
            "spec": {"taints": [objects.taint("mine")]},
        }
        answer = await talk.apply(f"{NODES}/n", body)
        assert answer.refusal() == (409, "Conflict")
        assert answer.body["details"]["causes"][0]["field"] == ".spec.taints"


@simulated
async def test_containers_and_their_environment_merge_by_name() -> None:
    """Two managers may each have their variable of one container."""
    async with embedded() as talk:
        await talk.post(STATEFUL_SETS, objects.stateful_set("db"))

        def with_variable(name: str) -> Object:
            container = {"name": "app", "env": [{"name": name, "value": "x"}]}
            spec = {"template": {"spec": {"containers": [container]}}}
            return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": spec}

        await talk.apply(f"{STATEFUL_SETS}/db", with_variable("ONE"), "one")
        answer = await talk.apply(f"{STATEFUL_SETS}/db", with_variable("TWO"), "two")
        container = answer.body["spec"]["template"]["spec"]["containers"][0]
        assert [variable["name"] for variable in container["env"]] == ["ONE", "TWO"]
        assert container["image"]
        answer = await talk.apply(f"{STATEFUL_SETS}/db", with_variable("OTHER"), "one")
        container = answer.body["spec"]["template"]["spec"]["containers"][0]
        assert [variable["name"] for variable in container["env"]] == ["TWO", "OTHER"]


@pytest.mark.parametrize(
    ("live", "wanted", "merged"),
    [
        ("ab", "ba", "ba"),
        ("ab", "b", "ab"),
        ("ab", "bc", "abc"),
        ("abc", "ca", "bca"),
        ("ab", "cab", "cab"),
        ("abc", "bxa", "bcxa"),
        ("", "ba", "ba"),
    ],
)
@simulated
async def test_the_order_of_merged_lists(live: str, wanted: str, merged: str) -> None:
    """Items of both lists come as applied; those that only the live list has keep their place among them."""

    def named(letters: str) -> list[Object]:
        return [webhook(f"{letter}.example.com") for letter in letters]

    async with embedded() as talk:
        await talk.post(WEBHOOKS, configuration(*named(live)))
        answer = await talk.apply(f"{WEBHOOKS}/hooks", configuration(*named(wanted)))
        assert "".join(entry["name"][0] for entry in answer.body["webhooks"]) == merged


@pytest.mark.parametrize(
    ("query", "body", "code"),
    [
        ("", data(), 422),
        ("?fieldManager=one", data("other"), 400),
        ("?fieldManager=one", {**data(), "kind": "Pod"}, 400),
        ("?fieldManager=one", {**data(), "metadata": {"name": "a", "managedFields": []}}, 400),
        ("?fieldManager=one", {**data(), "metadata": {"name": "a", "resourceVersion": "1"}}, 409),
    ],
)
@simulated
async def test_what_cannot_be_applied(query: str, body: Object, code: int) -> None:
    """Apply needs a manager, the object's own name and kind, and, if it names a version, the live one."""
    async with embedded() as talk:
        await applied(talk, "one", x="1")
        answer = await talk.ask("PATCH", f"{CONFIG_MAPS}/a{query}", body, "application/apply-patch+yaml")
        assert answer.refusal()[0] == code
