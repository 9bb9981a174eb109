"""Lists and single objects: pages of one moment, selectors, and what is not there."""

import pytest

from ebbtide.kube.errors import NotFound
from ebbtide.kube.resources import PODS
from tests.conformance.subject import CONFIG_MAPS, Subject, names, version


async def _five(subject: Subject) -> None:
    for name in ("e", "c", "a", "d", "b"):
        await subject.config_map(f"five-{name}", labels={"test": "five"})


async def test_a_list_comes_in_pages_of_one_moment(subject: Subject) -> None:
    """Pages have the asked size, are in order of name and share one version; later objects are not among them."""
    await _five(subject)
    first = (await subject.ask("GET", CONFIG_MAPS, params={"limit": "2", "labelSelector": "test=five"})).json()
    assert names(first["items"]) == ["five-a", "five-b"]
    await subject.config_map("five-f", labels={"test": "five"})
    rest = []
    token = first["metadata"]["continue"]
    while token:
        params = {"limit": "2", "labelSelector": "test=five", "continue": token}
        page = (await subject.ask("GET", CONFIG_MAPS, params=params)).json()
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        rest += names(page["items"])
        token = page["metadata"].get("continue")
    assert rest == ["five-c", "five-d", "five-e"]


async def test_a_page_says_how_much_is_left(subject: Subject) -> None:
    """Without selectors the number of objects after the page is known."""
    await _five(subject)
    page = (await subject.ask("GET", CONFIG_MAPS, params={"limit": "2"})).json()
    everything = (await subject.ask("GET", CONFIG_MAPS)).json()
    assert page["metadata"]["remainingItemCount"] == len(everything["items"]) - 2
    assert everything["kind"] == "ConfigMapList"
    assert everything["apiVersion"] == "v1"
    assert not everything["metadata"].get("continue")


async def test_a_token_that_is_too_old_is_gone(subject: Subject) -> None:
    """Going on after a compaction is refused with 410 Expired; a fresh list works."""
    await _five(subject)
    page = (await subject.ask("GET", CONFIG_MAPS, params={"limit": "2"})).json()
    await subject.config_map("later")
    await subject.compact()
    params = {"limit": "2", "continue": page["metadata"]["continue"]}

    async def refused() -> bool:
        answer = await subject.ask("GET", CONFIG_MAPS, params=params)
        return answer.status == 410 and answer.json()["reason"] == "Expired"

    await subject.eventually(refused, "the token is refused")
    objects, _ = await subject.client.list_all(CONFIG_MAPS, namespace=subject.namespace, page_size=2)
    assert len(objects) >= 5


async def test_a_list_of_the_cache(subject: Subject) -> None:
    """`resourceVersion=0` is answered with a version to watch from, and with objects that can be a little old."""
    created = await subject.config_map("cached")

    async def shown() -> bool:
        listing = subject.client.list_all(CONFIG_MAPS, namespace=subject.namespace, stale_ok=True)
        objects, seen = await listing
        return "cached" in names(objects) and seen >= version(created)

    await subject.eventually(shown, "the cache has the object")


async def test_a_list_shows_what_was_just_written(subject: Subject) -> None:
    """A list without a version is consistent: it has every write that was answered before it was asked for."""
    for count in range(5):
        created = await subject.config_map(f"fresh-{count}")
        objects, seen = await subject.client.list_all(CONFIG_MAPS, namespace=subject.namespace)
        assert f"fresh-{count}" in names(objects)
        assert seen >= version(created)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("tier=db", ["one"]),
        ("tier==db", ["one"]),
        ("tier!=db", ["three", "two"]),
        ("tier in (db,web)", ["one", "two"]),
        ("tier notin (db)", ["three", "two"]),
        ("tier", ["one", "two"]),
        ("!tier", ["three"]),
        ("tier,zone=a", ["one"]),
    ],
)
async def test_label_selectors(subject: Subject, selector: str, expected: list[str]) -> None:
    """Every form of label selector picks what the API conventions say."""
    await subject.config_map("one", labels={"tier": "db", "zone": "a", "own": "yes"})
    await subject.config_map("two", labels={"tier": "web", "own": "yes"})
    await subject.config_map("three", labels={"own": "yes"})
    chosen, _ = await subject.client.list_all(
        CONFIG_MAPS, namespace=subject.namespace, label_selector=f"own=yes,{selector}"
    )
    assert names(chosen) == expected


async def test_a_nonsense_selector_is_refused(subject: Subject) -> None:
    """A selector that cannot be parsed, or a field that cannot be selected by, is a bad request."""
    for params in ({"labelSelector": "a in b"}, {"fieldSelector": "data.a=b"}):
        answer = await subject.ask("GET", CONFIG_MAPS, params=params)
        assert (answer.status, answer.json()["reason"]) == (400, "BadRequest")


async def test_pods_by_node(subject: Subject) -> None:
    """`spec.nodeName` selects the pods of one node, `status.phase` those in a phase."""
    node = await subject.make_node()
    await subject.pod("bound", node=node)
    await subject.pod("free")
    by_node, _ = await subject.client.list_all(PODS, field_selector=f"spec.nodeName={node}")
    assert names(by_node) == ["bound"]
    unbound, _ = await subject.client.list_all(
        PODS, namespace=subject.namespace, field_selector="spec.nodeName=,status.phase=Pending"
    )
    assert names(unbound) == ["free"]


async def test_by_name(subject: Subject) -> None:
    """`metadata.name` can be selected by for every kind."""
    await subject.config_map("one")
    await subject.config_map("two")
    chosen, _ = await subject.client.list_all(
        CONFIG_MAPS, namespace=subject.namespace, field_selector="metadata.name=two"
    )
    assert names(chosen) == ["two"]


async def test_items_of_a_list_do_not_name_their_kind(subject: Subject) -> None:
    """Objects in a list lack `kind` and `apiVersion`, single objects have them."""
    await subject.config_map("one")
    (item,), _ = await subject.client.list_all(
        CONFIG_MAPS, namespace=subject.namespace, field_selector="metadata.name=one"
    )
    assert "kind" not in item
    single = await subject.client.get(CONFIG_MAPS, "one", namespace=subject.namespace)
    assert (single["kind"], single["apiVersion"]) == ("ConfigMap", "v1")


async def test_what_is_not_there(subject: Subject) -> None:
    """An absent object is 404 with its kind and name in the details; an unknown kind is 404 too."""
    answer = await subject.ask("GET", CONFIG_MAPS, "absent")
    status = answer.json()
    assert (answer.status, status["kind"], status["reason"], status["code"]) == (404, "Status", "NotFound", 404)
    assert status["details"] == {"name": "absent", "kind": "configmaps"}
    assert status["message"] == 'configmaps "absent" not found'
    with pytest.raises(NotFound):
        await subject.client.get(CONFIG_MAPS, "absent", namespace=subject.namespace)
    assert (await subject.client.request("GET", "/api/v1/nonsense")).status == 404


async def test_an_unreadable_version_is_refused(subject: Subject) -> None:
    """A version that is no number is a bad request, not an empty answer."""
    answer = await subject.ask("GET", CONFIG_MAPS, params={"resourceVersion": "yesterday"})
    assert answer.status == 400
