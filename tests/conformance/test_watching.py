"""Watches: nothing is lost or repeated after a version, and a version that is too old is said to be so."""

import asyncio

import pytest

from ebbtide.kube.errors import Gone
from ebbtide.kube.resources import PODS
from ebbtide.kube.stream import ADDED, BOOKMARK, DELETED, MODIFIED, WatchEvent
from tests.conformance.subject import CONFIG_MAPS, DAEMON_SETS, Subject, version
from tests.controlplane.world import PATIENCE


def _short(events: list[WatchEvent]) -> list[tuple[str, str]]:
    return [(event.type, event.object["metadata"]["name"]) for event in events]


async def _change(subject: Subject, name: str, **labels: str | None) -> int:
    patch = {"metadata": {"labels": labels}}
    return version(await subject.client.patch_merge(CONFIG_MAPS, name, patch, namespace=subject.namespace))


async def test_everything_after_a_list(subject: Subject) -> None:
    """A watch from a list's version has every later change once, in order, with growing versions."""
    await subject.config_map("before")
    _, start = await subject.client.list_all(CONFIG_MAPS, namespace=subject.namespace)
    created = await subject.config_map("one")
    changed = await _change(subject, "one", a="b")
    await subject.client.delete(CONFIG_MAPS, "one", namespace=subject.namespace)
    events = await subject.watch_from(CONFIG_MAPS, start, 3)
    assert _short(events) == [(ADDED, "one"), (MODIFIED, "one"), (DELETED, "one")]
    assert [event.resource_version for event in events[:2]] == [version(created), changed]


async def test_a_deleted_object_carries_the_version_of_its_end(subject: Subject) -> None:
    """The DELETED event is newer than the last change, and its object is the last one otherwise."""
    created = await subject.config_map("one", {"key": "value"})
    await subject.client.delete(CONFIG_MAPS, "one", namespace=subject.namespace)
    (event,) = await subject.watch_from(CONFIG_MAPS, version(created), 1)
    assert event.type == DELETED
    assert event.resource_version > version(created)
    assert event.object["data"] == {"key": "value"}
    assert event.object["metadata"]["uid"] == created["metadata"]["uid"]


async def test_events_name_their_kind(subject: Subject) -> None:
    """Objects in events have `kind` and `apiVersion`, unlike those in lists."""
    _, start = await subject.client.list_all(CONFIG_MAPS, namespace=subject.namespace)
    await subject.config_map("one")
    (event,) = await subject.watch_from(CONFIG_MAPS, start, 1)
    assert (event.object["kind"], event.object["apiVersion"]) == ("ConfigMap", "v1")


async def test_a_running_watch_sees_changes(subject: Subject) -> None:
    """An open watch gets a change that is made later."""
    _, start = await subject.client.list_all(CONFIG_MAPS, namespace=subject.namespace)
    async with asyncio.timeout(PATIENCE), subject.watching(CONFIG_MAPS, start) as stream:
        reader = asyncio.ensure_future(anext(aiter(stream)))
        await subject.config_map("one")
        assert (await reader).object["metadata"]["name"] == "one"


async def test_a_selector_turns_changes_into_arrivals_and_ends(subject: Subject) -> None:
    """An object that begins to match is ADDED, one that no longer matches is DELETED, others are not told of."""
    created = await subject.config_map("one")
    await subject.config_map("other", labels={"chosen": "no"})
    arrived = await _change(subject, "one", chosen="yes")
    await _change(subject, "one", other="x")
    left = await _change(subject, "one", chosen=None)
    await _change(subject, "one", other="y")
    back = await _change(subject, "one", chosen="yes")
    events = await subject.watch_from(CONFIG_MAPS, version(created), 4, label_selector="chosen=yes")
    assert [event.type for event in events] == [ADDED, MODIFIED, DELETED, ADDED]
    assert [events[0].resource_version, events[2].resource_version, events[3].resource_version] == [arrived, left, back]


async def test_pods_of_a_node(subject: Subject) -> None:
    """A watch of `spec.nodeName` tells of the pods of that node only."""
    node = await subject.make_node()
    _, start = await subject.client.list_all(PODS, namespace=subject.namespace)
    await subject.pod("free")
    await subject.pod("bound", node=node)
    events = await subject.watch_from(PODS, start, 1, field_selector=f"spec.nodeName={node}")
    assert _short(events) == [(ADDED, "bound")]


async def test_a_streamed_list(subject: Subject) -> None:
    """`sendInitialEvents`: every object as ADDED, then a bookmark that says so, then what happens later."""
    await subject.config_map("one")
    last = await subject.config_map("two")
    seen = []
    async with asyncio.timeout(PATIENCE), subject.watching(CONFIG_MAPS, None, initial_events=True) as stream:
        async for event in stream:
            if event.ends_initial_events:
                assert event.resource_version >= version(last)
                await subject.config_map("three")
            if event.type != BOOKMARK:
                seen.append(event)
            if event.object["metadata"].get("name") == "three":
                break
    own = [event for event in seen if event.object["metadata"]["name"] in ("one", "two", "three")]
    assert sorted(_short(own[:2])) == [(ADDED, "one"), (ADDED, "two")]
    assert _short(own[2:]) == [(ADDED, "three")]


async def test_a_streamed_list_of_nothing(subject: Subject) -> None:
    """The bookmark that ends a streamed list comes also when there is nothing to list."""
    async with (
        asyncio.timeout(PATIENCE),
        subject.watching(CONFIG_MAPS, None, initial_events=True, label_selector="nobody=has") as stream,
    ):
        event = await anext(aiter(stream))
    assert event.ends_initial_events
    assert event.object["kind"] == "ConfigMap"


async def test_a_streamed_list_needs_its_partners(subject: Subject) -> None:
    """`sendInitialEvents` without `resourceVersionMatch=NotOlderThan` is refused."""
    params = {"watch": "true", "sendInitialEvents": "true", "allowWatchBookmarks": "true", "timeoutSeconds": "1"}
    answer = await subject.ask("GET", CONFIG_MAPS, params=params)
    assert (answer.status, answer.json()["reason"]) == (422, "Invalid")


async def test_a_version_that_is_too_old_is_gone(subject: Subject) -> None:
    """A watch from before what the server remembers fails with 410 Expired; it never goes on with a gap."""
    created = await subject.config_map("one")
    for name in ("two", "three"):
        await subject.config_map(name)
    await subject.compact()
    with pytest.raises(Gone) as caught:
        await subject.watch_from(DAEMON_SETS, version(created), 1)
    assert (caught.value.code, caught.value.reason) == (410, "Expired")


async def test_a_watch_ends_in_time_with_a_bookmark(subject: Subject) -> None:
    """`timeoutSeconds` ends the stream in order; before that a bookmark says how far the watch has come."""
    created = await subject.config_map("one")
    async with asyncio.timeout(PATIENCE), subject.watching(CONFIG_MAPS, version(created), timeout=8) as stream:
        events = [event async for event in stream]
    assert {event.type for event in events} == {BOOKMARK}
    assert events[0].resource_version >= version(created)
    assert events[0].object["kind"] == "ConfigMap"
    assert not events[0].ends_initial_events
