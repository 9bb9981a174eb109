"""What the verbs send, what they return, and what they do about failures."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ebbtide.kube import errors, patch
from ebbtide.kube.access import Access, from_url
from ebbtide.kube.calls import Listing
from ebbtide.kube.client import Client
from ebbtide.kube.limits import Lane, RateLimits
from ebbtide.kube.resources import EVENTS, LEASES, NODES, PDBS, PODS
from ebbtide.kube.traffic import Verb
from ebbtide.sim.time import simulate
from tests.ebbtide.kube.wire import Reply, Wire, hangs_up, listing, node, refuses, says, streams

AGENT = "ebbtide/test (tests)"


def opened(access: Access, limits: RateLimits | None = None) -> Client:
    return Client(access, field_manager="ebbtide-test", user_agent=AGENT, limits=limits)


async def test_every_request_says_who_asks_and_what_it_understands(client: Client, wire: Wire) -> None:
    wire.then(says(node("a", 1)))
    await client.get(NODES, "a")
    headers = wire.seen[0].headers
    assert headers["Authorization"] == "Bearer secret"
    assert headers["User-Agent"] == AGENT
    assert headers["Accept"] == "application/json"
    assert headers["Accept-Encoding"] == "gzip"


Act = Callable[[Client], Awaitable[object]]
WRITES: dict[str, tuple[Act, str, str, str, Verb]] = {
    "create": (
        lambda c: c.create(EVENTS, {"a": 1}, namespace="n"),
        "POST",
        "/apis/events.k8s.io/v1/namespaces/n/events",
        "application/json",
        Verb("create", "events.k8s.io", "events", ""),
    ),
    "replace": (
        lambda c: c.replace(LEASES, "l", {"a": 1}, namespace="n", lane=Lane.URGENT),
        "PUT",
        "/apis/coordination.k8s.io/v1/namespaces/n/leases/l",
        "application/json",
        Verb("update", "coordination.k8s.io", "leases", ""),
    ),
    "json patch": (
        lambda c: c.patch_json(NODES, "a", [patch.remove("/x")], subresource="status"),
        "PATCH",
        "/api/v1/nodes/a/status",
        "application/json-patch+json",
        Verb("patch", "", "nodes", "status"),
    ),
    "merge patch": (
        lambda c: c.patch_merge(NODES, "a", {"x": None}),
        "PATCH",
        "/api/v1/nodes/a",
        "application/merge-patch+json",
        Verb("patch", "", "nodes", ""),
    ),
    "apply": (
        lambda c: c.apply(PDBS, "b", {"a": 1}, namespace="n"),
        "PATCH",
        "/apis/policy/v1/namespaces/n/poddisruptionbudgets/b",
        "application/apply-patch+yaml",
        Verb("patch", "policy", "poddisruptionbudgets", ""),
    ),
    "delete": (
        lambda c: c.delete(PODS, "p", namespace="n"),
        "DELETE",
        "/api/v1/namespaces/n/pods/p",
        "application/json",
        Verb("delete", "", "pods", ""),
    ),
    "evict": (
        lambda c: c.evict("p", namespace="n", uid="u"),
        "POST",
        "/api/v1/namespaces/n/pods/p/eviction",
        "application/json",
        Verb("create", "", "pods", "eviction"),
    ),
}


@pytest.mark.parametrize(("act", "method", "path", "content", "verb"), WRITES.values(), ids=WRITES)
async def test_each_write_goes_to_its_path_once_with_field_manager_and_is_counted(
    client: Client, wire: Wire, act: Act, method: str, path: str, content: str, verb: Verb
) -> None:
    wire.then(says({"kind": "Status"}))
    await act(client)
    [seen] = wire.seen
    assert (seen.method, seen.path) == (method, path)
    assert seen.headers["Content-Type"] == content
    assert seen.query["fieldManager"] == "ebbtide-test"
    assert client.sent == {verb: 1}


@pytest.mark.parametrize("act", [row[0] for row in WRITES.values()], ids=WRITES)
async def test_without_permit_no_write_reaches_the_wire_and_reads_still_do(
    client: Client, wire: Wire, act: Act
) -> None:
    wire.then(says(node("a", 1)))
    held = client.permitted(lambda: False)
    with pytest.raises(errors.NotLeading):
        await act(held)
    with pytest.raises(errors.NotLeading):
        await held.request("POST", "/x")
    await held.get(NODES, "a")
    assert [seen.method for seen in wire.seen] == ["GET"]
    assert set(held.sent) == {Verb("get", "", "nodes", "")}


async def test_a_permit_that_ends_while_the_lane_is_full_holds_the_write_back(wire: Wire) -> None:
    """The permit counts at the moment of sending, not at the moment of the call."""
    leading = True
    wire.then(streams(b"{", end="hold"), says({}))
    limits = RateLimits(normal_in_flight=1)
    async with opened(from_url(wire.url), limits) as client:
        slow = asyncio.create_task(client.request("GET", "/slow"))
        await wire.asked(1)
        write = asyncio.create_task(client.permitted(lambda: leading).patch_merge(NODES, "a", {}))
        await asyncio.sleep(0)
        leading = False
        wire.released.set()
        await slow
        with pytest.raises(errors.NotLeading):
            await write
    assert len(wire.seen) == 1


def yes() -> bool:
    return True


def no() -> bool:
    return False


async def test_nested_permits_must_all_hold(client: Client, wire: Wire) -> None:
    wire.then(says({}))
    for views in ((client.permitted(yes), no), (client.permitted(no), yes)):
        view = views[0].permitted(views[1])
        with pytest.raises(errors.NotLeading):
            await view.patch_merge(NODES, "a", {})
    await client.permitted(yes).permitted(yes).patch_merge(NODES, "a", {})
    assert len(wire.seen) == 1


async def test_eviction_names_the_uid_and_leaves_the_grace_period_to_the_pod(client: Client, wire: Wire) -> None:
    wire.then(says({"kind": "Status"}, 201))
    await client.evict("p", namespace="n", uid="u-1")
    assert wire.seen[0].json == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p", "namespace": "n"},
        "deleteOptions": {"preconditions": {"uid": "u-1"}},
    }


async def test_delete_carries_its_preconditions(client: Client, wire: Wire) -> None:
    wire.then(says({"kind": "Status"}))
    await client.delete(PODS, "p", namespace="n", uid="u", resource_version=7, propagation="Foreground")
    await client.delete(PODS, "p", namespace="n")
    assert wire.seen[0].json["preconditions"] == {"uid": "u", "resourceVersion": "7"}
    assert wire.seen[0].json["propagationPolicy"] == "Foreground"
    assert "preconditions" not in wire.seen[1].json


async def test_apply_can_speak_for_another_manager_and_take_fields_over(client: Client, wire: Wire) -> None:
    wire.then(says({}))
    await client.apply(PDBS, "b", {}, namespace="n", field_manager="other", force=True)
    assert wire.seen[0].query == {"fieldManager": "other", "force": "true"}


async def test_a_stale_read_is_asked_for_by_version_zero(client: Client, wire: Wire) -> None:
    wire.then(says(node("a", 1)), says(listing(3)))
    await client.get(NODES, "a", stale_ok=True)
    await client.list_all(NODES, stale_ok=True)
    assert [seen.query["resourceVersion"] for seen in wire.seen] == ["0", "0"]


async def test_a_list_comes_in_pages_with_its_selectors_on_each(client: Client, wire: Wire) -> None:
    wire.then(
        says(listing(9, node("a", 1), node("b", 2), token="t/1")),
        says(listing(9, node("c", 3), token="t2")),
        says(listing(9)),
    )
    how: Listing = {"namespace": "n", "label_selector": "a=b", "field_selector": "spec.nodeName=x", "page_size": 2}
    names = [pod["metadata"]["name"] async for pod in client.list(PODS, **how)]
    assert names == ["a", "b", "c"]
    assert [seen.query.get("continue") for seen in wire.seen] == [None, "t/1", "t2"]
    assert {seen.path for seen in wire.seen} == {"/api/v1/namespaces/n/pods"}
    for seen in wire.seen:
        assert (seen.query["labelSelector"], seen.query["fieldSelector"]) == ("a=b", "spec.nodeName=x")
        assert seen.query["limit"] == "2"


async def test_a_list_compacted_between_pages_is_read_again_from_the_start(client: Client, wire: Wire) -> None:
    wire.then(says(listing(9, node("old", 1), token="t")), refuses(410, "Expired"), says(listing(12, node("new", 11))))
    objects, version = await client.list_all(NODES)
    assert [found["metadata"]["name"] for found in objects] == ["new"]
    assert version == 12
    assert "continue" not in wire.seen[2].query


async def test_objects_already_handed_out_are_never_repeated_after_a_compaction(client: Client, wire: Wire) -> None:
    wire.then(says(listing(9, node("a", 1), token="t")), refuses(410, "Expired"))
    objects = client.list(NODES)
    assert (await anext(objects))["metadata"]["name"] == "a"
    with pytest.raises(errors.Gone):
        await anext(objects)


async def test_a_list_that_is_always_compacted_ends_with_gone(client: Client, wire: Wire) -> None:
    wire.then(refuses(410, "Expired"))
    with pytest.raises(errors.Gone):
        await client.list_all(NODES)


async def test_request_returns_whatever_the_server_says(client: Client, wire: Wire) -> None:
    wire.then(refuses(422, "Invalid", "no"))
    answer = await client.request("POST", "/apis/x", params={"dryRun": "All"}, body={"a": 1})
    assert (answer.status, answer.json()["message"]) == (422, "no")
    assert wire.seen[0].query == {"dryRun": "All"}
    assert wire.seen[0].json == {"a": 1}


@pytest.mark.parametrize("body", [b"<html>sign in</html>", b"[]", b""])
async def test_an_answer_that_no_api_server_gives_is_no_answer(client: Client, wire: Wire, body: bytes) -> None:
    wire.then(says(body))
    with pytest.raises(errors.Unreachable):
        await client.patch_merge(NODES, "a", {})


async def test_a_list_without_a_version_is_no_list(client: Client, wire: Wire) -> None:
    wire.then(says({"items": []}))
    with pytest.raises(errors.Unreachable):
        await client.list_all(NODES)


async def test_a_redirect_is_not_followed_with_our_credentials(client: Client, wire: Wire) -> None:
    wire.then(says({}, 302, Location="/elsewhere"))
    with pytest.raises(errors.ApiError):
        await client.patch_merge(NODES, "a", {})
    assert len(wire.seen) == 1


async def test_nobody_listening_is_unreachable() -> None:
    async with Wire() as gone:
        url = gone.url
    async with opened(from_url(url)) as client:
        with pytest.raises(errors.Unreachable) as caught:
            await client.patch_merge(NODES, "a", {})
    peer = url.removeprefix("http://")
    assert str(caught.value) == f"PATCH /api/v1/nodes/a: {peer} refuses connections"
    assert caught.value.what == "PATCH /api/v1/nodes/a"


def scenario(*script: Reply, act: Callable[[Client], Awaitable[Any]]) -> tuple[Any, Wire]:
    """Runs `act` against a scripted server on simulated time; its result or error, and the server."""

    async def run() -> tuple[Any, Wire]:
        async with Wire(list(script)) as wire, opened(from_url(wire.url)) as client:
            try:
                return await act(client), wire
            except errors.KubeError as error:
                return error, wire

    return simulate(run())


async def timed(awaitable: Awaitable[object]) -> float:
    loop = asyncio.get_running_loop()
    before = loop.time()
    await awaitable
    return loop.time() - before


@pytest.mark.parametrize(
    "trouble", [refuses(429), refuses(503), refuses(504), hangs_up], ids=["429", "503", "504", "cut"]
)
def test_a_read_is_tried_again_until_the_server_is_back(trouble: Reply) -> None:
    result, wire = scenario(trouble, trouble, says(node("a", 1)), act=lambda c: c.get(NODES, "a"))
    assert result["metadata"]["name"] == "a"
    assert len(wire.seen) >= 3


def test_a_read_is_not_tried_for_ever() -> None:
    result, wire = scenario(refuses(503), act=lambda c: c.get(NODES, "a"))
    assert type(result) is errors.Unavailable
    assert len(wire.seen) == 4


@pytest.mark.parametrize("trouble", [refuses(500), refuses(404), refuses(403), refuses(410)])
def test_a_read_that_will_not_get_better_is_not_repeated(trouble: Reply) -> None:
    result, wire = scenario(trouble, act=lambda c: c.get(NODES, "a"))
    assert isinstance(result, errors.ApiError)
    assert len(wire.seen) == 1


def test_an_urgent_read_is_not_repeated_because_its_caller_has_a_deadline() -> None:
    result, wire = scenario(refuses(503), act=lambda c: c.get(LEASES, "l", namespace="n", lane=Lane.URGENT))
    assert type(result) is errors.Unavailable
    assert len(wire.seen) == 1


@pytest.mark.parametrize("trouble", [refuses(429, header="1"), refuses(503), hangs_up], ids=["429", "503", "cut"])
@pytest.mark.parametrize("act", [WRITES[name][0] for name in ("create", "json patch", "evict")])
def test_a_write_is_never_repeated(trouble: Reply, act: Act) -> None:
    result, wire = scenario(trouble, act=act)
    assert isinstance(result, errors.KubeError)
    assert len(wire.seen) == 1


def test_retry_after_holds_all_normal_requests_and_no_urgent_one() -> None:
    async def act(client: Client) -> tuple[float, float]:
        with pytest.raises(errors.Throttled):
            await client.create(EVENTS, {}, namespace="n")
        return await timed(client.patch_json(NODES, "a", [], lane=Lane.URGENT)), await timed(
            client.patch_json(NODES, "b", [])
        )

    (urgent, normal), _ = scenario(refuses(429, header="5"), says({}), act=act)
    assert urgent < 1
    assert normal >= 5


def test_a_refused_eviction_holds_nothing_up() -> None:
    async def act(client: Client) -> float:
        with pytest.raises(errors.BudgetRefused):
            await client.evict("p", namespace="n", uid="u")
        return await timed(client.evict("q", namespace="n", uid="v"))

    pause, _ = scenario(refuses(429, causes=["DisruptionBudget"], after=10), says({}), act=act)
    assert pause < 1


def test_an_answer_that_never_comes_is_unreachable_after_a_minute() -> None:
    async def act(client: Client) -> float:
        with pytest.raises(errors.Unreachable):
            await client.evict("p", namespace="n", uid="u")
        return asyncio.get_running_loop().time()

    seconds, _ = scenario(streams(b"{", end="hold"), act=act)
    assert 59 <= seconds <= 62


def test_pointers_escape_slash_and_tilde() -> None:
    assert patch.pointer("metadata", "annotations", "a/b~c") == "/metadata/annotations/a~1b~0c"
    assert patch.pointer("spec", "taints", 0) == "/spec/taints/0"
    assert patch.test("/a", 1) == {"op": "test", "path": "/a", "value": 1}
    assert patch.add("/a/-", 1)["op"] == "add"
    assert patch.replace("/a", 1)["op"] == "replace"


def test_paths_are_those_of_the_api_and_escape_names() -> None:
    assert NODES.path() == "/api/v1/nodes"
    assert NODES.path("ignored", "a") == "/api/v1/nodes/a"
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("n", "../x", "eviction") == "/api/v1/namespaces/n/pods/..%2Fx/eviction"
    assert (PDBS.api_version, PODS.api_version) == ("policy/v1", "v1")
