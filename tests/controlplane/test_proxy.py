"""The fault proxy misbehaves as told, and only then."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import nullcontext

import aiohttp
import orjson
import pytest

from ebbtide.kube.client import Client
from ebbtide.kube.errors import Forbidden
from ebbtide.kube.resources import NODES, SECRETS
from tests.controlplane.proxy import CutStream, Drop, FaultProxy, FreezeStream, Hold, LoseAnswer, Refuse, watched
from tests.controlplane.servers import ControlPlane
from tests.controlplane.world import PATIENCE, World, wait_until

pytestmark = pytest.mark.controlplane

NAMESPACES = "/api/v1/namespaces"
WATCH = f"{NAMESPACES}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
_TIMEOUT = aiohttp.ClientTimeout(total=PATIENCE)


@pytest.fixture
async def session(control_plane: ControlPlane, proxy: FaultProxy) -> AsyncIterator[aiohttp.ClientSession]:
    """A client that trusts the proxy's certificate and has the admin's token."""
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=control_plane.ca_file))
    headers = {"Authorization": f"Bearer {control_plane.admin_token}", "User-Agent": "proxy-test"}
    async with aiohttp.ClientSession(proxy.url, connector=connector, headers=headers, timeout=_TIMEOUT) as session:
        yield session


async def test_passes_through_and_records(proxy: FaultProxy, session: aiohttp.ClientSession) -> None:
    """Without a rule the answer is the server's, and the request is on record with its user agent."""
    async with session.get(f"{NAMESPACES}/default?pretty=false") as answer:
        assert (await answer.json())["metadata"]["name"] == "default"
    (seen,) = proxy.matching("GET", "/namespaces/default")
    assert (seen.path, seen.agent) == (f"{NAMESPACES}/default?pretty=false", "proxy-test")


async def test_refuses_the_nth(proxy: FaultProxy, session: aiohttp.ClientSession) -> None:
    """A rule lets the first pass, then acts as often as told, with a Status like the server's."""
    proxy.inject(Refuse(429, retry_after=3, cause="DisruptionBudget"), method="GET", path="/default$", skip=1, times=1)
    answers = []
    for _ in range(3):
        async with session.get(f"{NAMESPACES}/default") as answer:
            answers.append((answer.status, answer.headers.get("Retry-After"), await answer.json()))
    assert [status for status, _, _ in answers] == [200, 429, 200]
    assert answers[1][1] == "3"
    assert answers[1][2]["reason"] == "TooManyRequests"
    assert answers[1][2]["details"]["causes"][0]["reason"] == "DisruptionBudget"


async def test_drops_before_the_server_hears(proxy: FaultProxy, session: aiohttp.ClientSession) -> None:
    """A dropped creation has not happened."""
    proxy.inject(Drop(), method="POST", times=1)
    with pytest.raises(aiohttp.ClientConnectionError):
        await session.post(f"{NAMESPACES}/default/configmaps", json={"metadata": {"name": "dropped"}})
    async with session.get(f"{NAMESPACES}/default/configmaps/dropped") as answer:
        assert answer.status == 404


async def test_loses_the_answer(proxy: FaultProxy, session: aiohttp.ClientSession) -> None:
    """A creation whose answer is lost has happened."""
    proxy.inject(LoseAnswer(), method="POST", times=1)
    with pytest.raises(aiohttp.ClientConnectionError):
        await session.post(f"{NAMESPACES}/default/configmaps", json={"metadata": {"name": "lost"}})
    async with session.delete(f"{NAMESPACES}/default/configmaps/lost") as answer:
        assert answer.status == 200


async def test_holds(proxy: FaultProxy, session: aiohttp.ClientSession) -> None:
    """A held request goes on when it is let go."""
    gate = asyncio.Event()
    proxy.inject(Hold(before=gate), times=1)
    async with asyncio.TaskGroup() as tasks:
        held = tasks.create_task(_status(session))
        await wait_until(lambda: _arrived(proxy), "the first request has arrived")
        assert await _status(session) == 200
        assert not held.done()
        gate.set()
    assert held.result() == 200


async def test_streams_unbuffered_and_cuts(proxy: FaultProxy, session: aiohttp.ClientSession) -> None:
    """Events of a watch arrive while it is open; cutting closes every open watch."""
    async with session.get(WATCH) as answer:
        first = orjson.loads(await answer.content.readline())
        assert first["type"] == "ADDED"
        assert proxy.cut_streams() == 1
        with pytest.raises(aiohttp.ClientError):
            await answer.content.read()


async def test_cuts_after_a_line(proxy: FaultProxy, session: aiohttp.ClientSession) -> None:
    """The client gets that many lines of the stream, then a broken connection."""
    proxy.inject(CutStream(after_lines=2), path="watch=true", times=1)
    async with session.get(WATCH) as answer:
        lines = [orjson.loads(await answer.content.readline()) for _ in range(2)]
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.content.readline()
    assert [line["type"] for line in lines] == ["ADDED", "ADDED"]


async def test_freezes_after_a_line(proxy: FaultProxy, session: aiohttp.ClientSession) -> None:
    """The client gets that many lines of the stream, then silence on an open connection."""
    proxy.inject(FreezeStream(after_lines=1), path="watch=true", times=1)
    async with session.get(WATCH) as answer:
        assert await answer.content.readline()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await answer.content.readany()


async def _arrived(proxy: FaultProxy) -> bool:
    return bool(proxy.requests)


async def _status(session: aiohttp.ClientSession) -> int:
    async with session.get(f"{NAMESPACES}/default") as answer:
        return answer.status


@pytest.mark.parametrize(
    ("announced", "problem"),
    [
        ([], "forbidden to test: GET /api/v1/nodes/a"),
        (["/nodes/"], ""),
        (["/nodes/", "/pods/"], "not forbidden: GET /pods/"),
    ],
)
async def test_what_the_server_forbids_has_to_be_announced(
    announced: list[str], problem: str, control_plane: ControlPlane, cluster: World
) -> None:
    """A test whose program was forbidden something fails, and so does one that waits for that in vain."""
    token = await cluster.account("nobody", [])
    with pytest.raises(AssertionError, match=problem) if problem else nullcontext():
        async with watched(control_plane) as way:
            for path in announced:
                way.expect_forbidden("GET", path)
            way.inject(Refuse(403), path="/secrets/")
            async with Client(way.access(token), field_manager="test", user_agent="test") as client:
                for resource in (NODES, SECRETS):
                    with pytest.raises(Forbidden):
                        await client.get(resource, "a", namespace=cluster.namespace if resource.namespaced else "")
