"""Lines and events out of chunks that end anywhere."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.kube import errors
from ebbtide.kube.client import Client
from ebbtide.kube.resources import NODES
from ebbtide.kube.stream import WatchEvent, events, lines
from ebbtide.kube.traffic import Verb
from tests.ebbtide.kube.wire import Wire, bookmark, event, node, refuses, status, streams


async def given_in(pieces: list[bytes]) -> AsyncGenerator[bytes, None]:
    for piece in pieces:
        yield piece


async def seen(client: Client, timeout: float | None = None) -> list[WatchEvent]:
    async with aclosing(client.watch(NODES, resource_version=1, timeout=timeout)) as found:
        return [each async for each in found]


@given(content=st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\n", b""))), cuts=st.lists(st.integers(0, 60)))
async def test_lines_do_not_depend_on_where_chunks_end(content: list[bytes], cuts: list[int]) -> None:
    whole = b"".join(line + b"\n" for line in content)
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    pieces = [whole[start:end] for start, end in pairwise(edges)]
    assert [line async for line in lines("GET /x", given_in(pieces))] == content


async def test_what_follows_the_last_line_end_was_cut_off_and_is_dropped() -> None:
    assert [line async for line in lines("GET /x", given_in([b"one\ntw"]))] == [b"one"]


async def test_a_line_of_several_megabytes_is_one_event(client: Client, wire: Wire) -> None:
    huge = node("a", 7, note="x" * 5_000_000)
    wire.then(streams(event("ADDED", huge), event("ADDED", node("b", 8))))
    first, second = await seen(client)
    assert len(first.object["metadata"]["annotations"]["note"]) == 5_000_000
    assert (second.type, second.resource_version) == ("ADDED", 8)


async def test_a_watch_asks_for_bookmarks_a_deadline_and_no_compression(client: Client, wire: Wire) -> None:
    wire.then(streams(bookmark(2)))
    await seen(client, timeout=30)
    [asked] = wire.seen
    assert asked.query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "30",
        "resourceVersion": "1",
    }
    assert asked.headers["Accept-Encoding"] == "identity"
    assert client.sent == {Verb("watch", "", "nodes", ""): 1}


async def test_without_a_deadline_of_its_own_a_watch_ends_after_five_to_ten_minutes(client: Client, wire: Wire) -> None:
    wire.then(streams(bookmark(2)))
    await seen(client)
    assert 300 <= int(wire.seen[0].query["timeoutSeconds"]) <= 600


async def test_a_streamed_list_is_asked_for_as_the_server_wants_it(client: Client, wire: Wire) -> None:
    wire.then(streams(event("ADDED", node("a", 1)), bookmark(5, initial_end=True)))
    async with aclosing(client.watch(NODES, initial_events=True)) as found:
        first, last = [each async for each in found]
    assert wire.seen[0].query["sendInitialEvents"] == "true"
    assert wire.seen[0].query["resourceVersionMatch"] == "NotOlderThan"
    assert "resourceVersion" not in wire.seen[0].query
    assert (first.ends_initial_events, last.ends_initial_events) == (False, True)


async def test_a_version_that_is_too_old_is_gone_as_a_status_and_as_an_event(client: Client, wire: Wire) -> None:
    wire.then(refuses(410, "Expired"), streams(event("ERROR", status(410, "Expired", "too old resource version"))))
    for _ in range(2):
        with pytest.raises(errors.Gone):
            await seen(client)


async def test_an_error_event_becomes_the_error_of_its_code(client: Client, wire: Wire) -> None:
    wire.then(streams(event("ERROR", status(504, "Timeout", causes=["ResourceVersionTooLarge"]))))
    with pytest.raises(errors.Unavailable) as caught:
        await seen(client)
    assert caught.value.causes == ("ResourceVersionTooLarge",)


@pytest.mark.parametrize(
    "line", [b"<html>", b"[]", b'{"type": "ADDED"}', b'{"type": "ADDED", "object": {"metadata": {}}}']
)
async def test_what_is_no_event_ends_the_stream(line: bytes) -> None:
    with pytest.raises(errors.Unreachable):
        [each async for each in events("GET /x", given_in([line + b"\n"]))]


async def test_an_error_event_without_a_status_is_a_fault() -> None:
    with pytest.raises(errors.ServerFault):
        [each async for each in events("GET /x", given_in([b'{"type": "ERROR", "object": null}\n']))]


async def test_a_stream_cut_within_a_line_gives_the_whole_lines_and_then_unreachable(
    client: Client, wire: Wire
) -> None:
    half = orjson.dumps(event("ADDED", node("b", 3)))[:40]
    wire.then(streams(event("ADDED", node("a", 2)), half, end="cut"))
    async with aclosing(client.watch(NODES, resource_version=1)) as found:
        assert (await anext(found)).resource_version == 2
        with pytest.raises(errors.Unreachable):
            await anext(found)


async def test_closing_a_watch_ends_its_connection(client: Client, wire: Wire) -> None:
    wire.then(streams(event("ADDED", node("a", 2)), end="hold"), streams(bookmark(9)))
    async with aclosing(client.watch(NODES, resource_version=1)) as found:
        await anext(found)
    assert [each.resource_version for each in await seen(client)] == [9]
