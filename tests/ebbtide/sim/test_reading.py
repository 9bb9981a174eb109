"""GET and LIST over HTTP."""

import pytest

from ebbtide.sim import objects
from tests.ebbtide.sim.talk import CONFIG_MAPS, NODES, PODS, Talk, config_map, embedded, simulated


async def with_config_maps(talk: Talk, count: int) -> None:
    for number in range(count):
        await talk.post(CONFIG_MAPS, config_map(f"m{number}"))


@simulated
async def test_an_object_as_it_was_written() -> None:
    """GET gives kind, version and content."""
    async with embedded() as talk:
        created = await talk.post(CONFIG_MAPS, config_map("a", key="value"))
        read = await talk.get(f"{CONFIG_MAPS}/a")
        assert (created.code, read.code) == (201, 200)
        assert read.body == created.body
        assert read.body["kind"] == "ConfigMap"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (f"{NODES}/absent", 404),
        ("/api/v1/nonsense", 404),
        ("/apis/nothing.example/v1/things", 404),
        ("/api/v1/pods/a", 404),
        (f"{NODES}/a/nonsense", 404),
        (f"{NODES}?labelSelector=,,", 400),
        (f"{NODES}?fieldSelector=spec.nonsense=x", 400),
        (f"{NODES}?resourceVersion=x", 400),
        (f"{NODES}?resourceVersion=999999", 504),
        (f"{NODES}?resourceVersionMatch=Exact", 422),
        (f"{NODES}?continue=nonsense", 400),
    ],
)
@simulated
async def test_what_cannot_be_read(path: str, code: int) -> None:
    """Every refusal is a Status with its code."""
    async with embedded() as talk:
        assert (await talk.get(path)).refusal()[0] == code


@simulated
async def test_pages_show_one_moment() -> None:
    """What is written between two pages is in neither; the last page says that nothing is left."""
    async with embedded() as talk:
        await with_config_maps(talk, 5)
        first = (await talk.get(f"{CONFIG_MAPS}?limit=2")).body
        await talk.delete(f"{CONFIG_MAPS}/m3")
        await talk.post(CONFIG_MAPS, config_map("m31"))
        names, page = [item["metadata"]["name"] for item in first["items"]], first
        assert first["metadata"]["remainingItemCount"] == 3
        while token := page["metadata"].get("continue"):
            page = (await talk.get(f"{CONFIG_MAPS}?limit=2&continue={token}")).body
            assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
            names += [item["metadata"]["name"] for item in page["items"]]
        assert names == ["m0", "m1", "m2", "m3", "m4"]


@simulated
async def test_a_forgotten_page_offers_to_go_on() -> None:
    """A token from before a compaction is 410 and carries another one, which goes on with what is there now."""
    async with embedded() as talk:
        await with_config_maps(talk, 3)
        token = (await talk.get(f"{CONFIG_MAPS}?limit=1")).body["metadata"]["continue"]
        await talk.delete(f"{CONFIG_MAPS}/m1")
        talk.cluster.storage.compact()
        gone = await talk.get(f"{CONFIG_MAPS}?limit=1&continue={token}")
        assert gone.refusal() == (410, "Expired")
        rest = await talk.get(f"{CONFIG_MAPS}?continue={gone.body['metadata']['continue']}")
        assert [item["metadata"]["name"] for item in rest.body["items"]] == ["m2"]


@simulated
async def test_an_exact_version() -> None:
    """`Exact` shows the past; once that is forgotten it is 410."""
    async with embedded() as talk:
        await with_config_maps(talk, 2)
        version = talk.cluster.storage.version
        await with_config_maps(talk, 3)
        path = f"{CONFIG_MAPS}?resourceVersionMatch=Exact&resourceVersion={version}"
        past = await talk.get(path)
        assert [item["metadata"]["name"] for item in past.body["items"]] == ["m0", "m1"]
        assert past.version == version
        talk.cluster.storage.compact()
        assert (await talk.get(path)).refusal() == (410, "Expired")


@simulated
async def test_a_list_of_the_cache_ignores_the_limit() -> None:
    """With `resourceVersion=0` all comes at once, as the watch cache of the real server gives it."""
    async with embedded() as talk:
        await with_config_maps(talk, 3)
        answer = await talk.get(f"{CONFIG_MAPS}?resourceVersion=0&limit=1")
        assert len(answer.body["items"]) == 3
        assert "continue" not in answer.body["metadata"]


@simulated
async def test_fields_select() -> None:
    """Pods by node and phase, nodes by cordon, anything by name; over all namespaces or in one."""
    async with embedded() as talk:
        talk.cluster.create(
            objects.changed(objects.node("a"), {"spec": {"unschedulable": True}}),
            objects.node("b"),
            objects.pod("p", node="a"),
            objects.pod("q", node="b"),
            objects.pod("r"),
            objects.pod("s", namespace="kube-system", node="a"),
        )

        async def names(path: str) -> list[str]:
            return [item["metadata"]["name"] for item in (await talk.get(path)).body["items"]]

        assert await names("/api/v1/pods?fieldSelector=spec.nodeName=a") == ["p", "s"]
        assert await names(f"{PODS}?fieldSelector=spec.nodeName%3Da,status.phase!%3DPending") == ["p"]
        assert await names(f"{PODS}?fieldSelector=status.phase=Pending") == ["r"]
        assert await names(f"{NODES}?fieldSelector=spec.unschedulable=true") == ["a"]
        assert await names(f"{NODES}?fieldSelector=metadata.name=b") == ["b"]
        assert await names("/api/v1/pods?fieldSelector=metadata.namespace=kube-system") == ["s"]


@simulated
async def test_a_page_of_what_is_selected_does_not_count_the_rest() -> None:
    """With a selector nobody knows how much is left."""
    async with embedded() as talk:
        for number in range(4):
            body = config_map(f"m{number}")
            body["metadata"]["labels"] = {"odd": str(number % 2)}
            await talk.post(CONFIG_MAPS, body)
        page = (await talk.get(f"{CONFIG_MAPS}?labelSelector=odd%3D1&limit=1")).body
        assert [item["metadata"]["name"] for item in page["items"]] == ["m1"]
        assert "remainingItemCount" not in page["metadata"]
        token = page["metadata"]["continue"]
        page = (await talk.get(f"{CONFIG_MAPS}?labelSelector=odd%3D1&limit=1&continue={token}")).body
        assert [item["metadata"]["name"] for item in page["items"]] == ["m3"]


@simulated
async def test_the_server_tells_what_it_is() -> None:
    """Health, version and discovery have their usual places."""
    async with embedded() as talk:
        assert (await talk.get("/readyz")).text == b"ok"
        assert (await talk.get("/version")).body["minor"] == "37"
        groups = [group["name"] for group in (await talk.get("/apis")).body["groups"]]
        assert {"apps", "policy", "coordination.k8s.io", "admissionregistration.k8s.io"} <= set(groups)
        for path in ("/api/v1", "/apis/apps/v1", "/apis/policy/v1", "/apis/authorization.k8s.io/v1"):
            assert (await talk.get(path)).body["resources"]


@simulated
async def test_everybody_may_do_everything() -> None:
    """A review of one's own access is always answered with yes."""
    async with embedded() as talk:
        review = {"kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": {"verb": "patch"}}}
        answer = await talk.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        assert answer.code == 201
        assert answer.body["status"]["allowed"] is True
