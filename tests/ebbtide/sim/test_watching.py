"""WATCH over HTTP."""

import asyncio

import pytest

from ebbtide.sim import objects
from ebbtide.sim.watches import INITIAL_EVENTS_END
from tests.ebbtide.sim.talk import CONFIG_MAPS, NODES, Talk, config_map, embedded, simulated


async def version(talk: Talk) -> int:
    return (await talk.get(CONFIG_MAPS)).version


@simulated
async def test_everything_after_a_version() -> None:
    """A watch from a list's version misses nothing and repeats nothing."""
    async with embedded() as talk:
        await talk.post(CONFIG_MAPS, config_map("a"))
        start = await version(talk)
        await talk.merge(f"{CONFIG_MAPS}/a", {"data": {"key": "new"}})
        await talk.post(CONFIG_MAPS, config_map("b"))
        await talk.delete(f"{CONFIG_MAPS}/a")
        events = await talk.events(CONFIG_MAPS, resourceVersion=start, timeoutSeconds=5)
        assert events == [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]


@simulated
async def test_events_come_as_they_happen() -> None:
    """A running watch sees a change at once."""
    async with embedded() as talk:
        stream = talk.watch(CONFIG_MAPS, resourceVersion=await version(talk), timeoutSeconds=1000)
        first = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(10)
        await talk.post(CONFIG_MAPS, config_map("a"))
        event = await first
        assert event["object"]["metadata"]["name"] == "a"
        assert event["object"]["kind"] == "ConfigMap"
        assert asyncio.get_running_loop().time() == 10
        await stream.aclose()


@simulated
async def test_without_a_version_it_starts_with_what_is_there() -> None:
    """No version, or 0, means all objects as ADDED, then the changes."""
    async with embedded() as talk:
        await talk.post(CONFIG_MAPS, config_map("a"))
        assert await talk.events(CONFIG_MAPS, timeoutSeconds=1) == [("ADDED", "a")]
        assert await talk.events(CONFIG_MAPS, resourceVersion=0, timeoutSeconds=1) == [("ADDED", "a")]


@simulated
async def test_a_streamed_list_says_where_it_ends() -> None:
    """`sendInitialEvents` gives everything, then a bookmark that says so."""
    async with embedded() as talk:
        await talk.post(CONFIG_MAPS, config_map("a"))
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
        events = [event async for event in talk.watch(CONFIG_MAPS, timeoutSeconds=1, **query)]
        assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
        metadata = events[-1]["object"]["metadata"]
        assert metadata["annotations"] == {INITIAL_EVENTS_END: "true"}
        assert int(metadata["resourceVersion"]) == talk.cluster.storage.version


@pytest.mark.parametrize(
    "query",
    [
        "sendInitialEvents=true",
        "resourceVersionMatch=NotOlderThan",
        "sendInitialEvents=true&resourceVersionMatch=Exact",
    ],
)
@simulated
async def test_a_streamed_list_needs_its_partners(query: str) -> None:
    """The parameters are refused with 422 when they do not come together."""
    async with embedded() as talk:
        assert (await talk.get(f"{CONFIG_MAPS}?watch=1&{query}")).refusal() == (422, "Invalid")


@simulated
async def test_bookmarks_come_every_minute_and_before_the_end() -> None:
    """A quiet watch learns how far the cluster has come; one that did not ask for it is left alone."""
    async with embedded() as talk:
        start = await version(talk)
        await talk.post(NODES, objects.node("n"))
        query = {"resourceVersion": start, "timeoutSeconds": 150}
        events = await talk.events(CONFIG_MAPS, allowWatchBookmarks="true", **query)
        assert events == [("BOOKMARK", str(start + 1))] * 3
        assert asyncio.get_running_loop().time() == 150
        assert await talk.events(CONFIG_MAPS, **query) == []


@simulated
async def test_a_version_that_is_forgotten() -> None:
    """The stream begins with an ERROR of 410 and ends."""
    async with embedded() as talk:
        start = await version(talk)
        await talk.post(CONFIG_MAPS, config_map("a"))
        talk.cluster.storage.compact()
        events = [event async for event in talk.watch(CONFIG_MAPS, resourceVersion=start, timeoutSeconds=60)]
        assert [(event["type"], event["object"]["code"]) for event in events] == [("ERROR", 410)]
        assert asyncio.get_running_loop().time() == 0


@simulated
async def test_a_version_that_has_not_come_yet() -> None:
    """It is refused, and worth another try."""
    async with embedded() as talk:
        answer = await talk.get(f"{CONFIG_MAPS}?watch=1&resourceVersion=99999")
        assert answer.refusal() == (504, "Timeout")
        assert answer.headers["Retry-After"] == "1"


@simulated
async def test_a_selector_turns_changes_into_arrivals_and_departures() -> None:
    """What leaves the selector is DELETED with its former content and the new version, what enters is ADDED."""
    async with embedded() as talk:
        await talk.post(CONFIG_MAPS, config_map("a"))
        start = await version(talk)
        await talk.merge(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"in": "yes"}}})
        left = await talk.merge(f"{CONFIG_MAPS}/a", {"metadata": {"labels": None}})
        await talk.merge(f"{CONFIG_MAPS}/a", {"data": {"unseen": "x"}})
        query = {"resourceVersion": start, "labelSelector": "in", "timeoutSeconds": 1}
        events = [event async for event in talk.watch(CONFIG_MAPS, **query)]
        assert [event["type"] for event in events] == ["ADDED", "DELETED"]
        assert events[1]["object"]["metadata"]["labels"] == {"in": "yes"}
        assert int(events[1]["object"]["metadata"]["resourceVersion"]) == left.version


@simulated
async def test_one_namespace_only() -> None:
    """A watch of a namespace does not see the others."""
    async with embedded() as talk:
        start = await version(talk)
        await talk.post("/api/v1/namespaces/kube-system/configmaps", config_map("far"))
        await talk.post(CONFIG_MAPS, config_map("near"))
        events = await talk.events(CONFIG_MAPS, resourceVersion=start, timeoutSeconds=1)
        assert events == [("ADDED", "near")]
        everywhere = await talk.events("/api/v1/configmaps", resourceVersion=start, timeoutSeconds=1)
        assert everywhere == [("ADDED", "far"), ("ADDED", "near")]


@simulated
async def test_a_watch_that_does_not_say_how_long() -> None:
    """It ends between half an hour and an hour, as the real server's."""
    async with embedded() as talk:
        await talk.events(CONFIG_MAPS, resourceVersion=await version(talk))
        assert 1800 <= asyncio.get_running_loop().time() <= 3600


@simulated
async def test_a_client_that_leaves_is_forgotten() -> None:
    """The server keeps nothing for a stream that nobody reads."""
    async with embedded() as talk:
        stream = talk.watch(CONFIG_MAPS, timeoutSeconds=1000)
        reading = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(1)
        assert talk.cluster.storage.listeners == 1
        reading.cancel()
        await asyncio.sleep(1)
        await stream.aclose()
        await asyncio.sleep(1)
        assert talk.cluster.storage.listeners == 0


@simulated
async def test_a_slow_reader_gets_everything() -> None:
    """More than fits into the buffers of the way waits until it is read."""
    async with embedded() as talk:
        start = await version(talk)
        stream = talk.watch(CONFIG_MAPS, resourceVersion=start, timeoutSeconds=1000)
        first = asyncio.ensure_future(anext(stream))
        for number in range(100):
            await talk.post(CONFIG_MAPS, config_map(f"m{number:03}", big="x" * 20_000))
        await first
        await asyncio.sleep(100)
        names = [(await anext(stream))["object"]["metadata"]["name"] for _ in range(99)]
        assert names == [f"m{number:03}" for number in range(1, 100)]
        await stream.aclose()
