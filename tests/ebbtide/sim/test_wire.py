"""The network without sockets, and the cluster behind it."""

import asyncio

import aiohttp
import pytest

from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.kinds import NODES
from ebbtide.sim.time import SimulatedClock, simulate
from ebbtide.sim.wire import Network
from tests.ebbtide.sim.talk import CONFIG_MAPS, Talk, config_map, embedded, simulated, talking


@simulated
async def test_a_body_larger_than_any_buffer() -> None:
    """Comes and goes unharmed."""
    async with embedded() as talk:
        big = config_map("a", big="x" * 900_000)
        assert (await talk.post(CONFIG_MAPS, big)).code == 201
        assert (await talk.get(f"{CONFIG_MAPS}/a")).body["data"] == big["data"]


@simulated
async def test_connections_are_kept() -> None:
    """One after the other, requests share a connection, even after days."""
    async with embedded() as talk:
        for _ in range(3):
            await talk.get("/version")
            await asyncio.sleep(86_400)
        assert talk.cluster.wire.accepted == 1


@simulated
async def test_many_requests_at_once() -> None:
    """All are answered, each with its own answer."""
    async with embedded() as talk:
        await asyncio.gather(*(talk.post(CONFIG_MAPS, config_map(f"m{number}")) for number in range(200)))
        answers = await asyncio.gather(*(talk.get(f"{CONFIG_MAPS}/m{number}") for number in range(200)))
        assert [answer.body["metadata"]["name"] for answer in answers] == [f"m{number}" for number in range(200)]


@simulated
async def test_a_server_that_is_killed() -> None:
    """Open connections are reset, new ones refused, until it is back with all that it had."""
    async with embedded() as talk:
        await talk.post(CONFIG_MAPS, config_map("a"))
        stream = talk.watch(CONFIG_MAPS)
        await anext(stream)
        reading = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(1)
        talk.cluster.wire.refusing = True
        talk.cluster.wire.reset()
        with pytest.raises(aiohttp.ClientError):
            await reading
        with pytest.raises(aiohttp.ClientConnectorError):
            await talk.get(CONFIG_MAPS)
        talk.cluster.wire.refusing = False
        assert (await talk.get(f"{CONFIG_MAPS}/a")).code == 200


@simulated
async def test_a_client_that_gives_up_while_it_waits() -> None:
    """Its request ends with it, and the cluster goes on."""
    async with embedded() as talk:
        stream = talk.watch(CONFIG_MAPS)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(stream), 5)
        await asyncio.sleep(1)
        assert talk.cluster.storage.listeners == 0
        assert (await talk.get("/version")).code == 200


@simulated
async def test_a_cluster_on_simulated_time_has_its_clock() -> None:
    """Unless it is given another."""
    async with Cluster() as cluster:
        assert isinstance(cluster.clock, SimulatedClock)
    clock = SimulatedClock(asyncio.get_running_loop(), epoch=0.0)
    async with Cluster(clock=clock) as cluster:
        (node,) = cluster.create(objects.node("n"))
        assert node["metadata"]["creationTimestamp"] == "1970-01-01T00:00:00Z"


@simulated
async def test_objects_can_be_put_there_as_they_are() -> None:
    """With their status, whatever the kind; one that is not served is refused."""
    async with Cluster() as cluster:
        cluster.create(objects.node("n"), objects.pod("p", node="n"), objects.namespace("ns"))
        assert cluster.storage.get(NODES, "n")["status"]["nodeInfo"]
        with pytest.raises(ValueError, match="does not serve"):
            cluster.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}})


def test_the_same_seed_gives_the_same_history() -> None:
    """To the last byte of every answer, whatever overlaps."""

    async def history() -> list[bytes]:
        async with embedded(seed=3) as talk:
            posts = (talk.post(CONFIG_MAPS, config_map(f"m{number}", key="x")) for number in range(20))
            answers = await asyncio.gather(*posts)
            events = [event async for event in talk.watch(CONFIG_MAPS)]
            return [answer.text for answer in answers] + [repr(event).encode() for event in events]

    assert simulate(history()) == simulate(history())


async def test_real_sockets_in_real_time() -> None:
    """The same cluster listens on loopback, too."""
    async with (
        Cluster() as cluster,
        talking(cluster, await cluster.serve()) as outside,
        talking(cluster) as inside,
    ):
        await outside.post(CONFIG_MAPS, config_map("a"))
        assert (await inside.get(f"{CONFIG_MAPS}/a")).code == 200
        stream = outside.watch(CONFIG_MAPS, resourceVersion=cluster.storage.version)
        reading = asyncio.ensure_future(anext(stream))
        while not cluster.storage.listeners:
            await inside.get("/version")
        await inside.post(CONFIG_MAPS, config_map("b"))
        assert (await reading)["object"]["metadata"]["name"] == "b"
        await stream.aclose()


async def test_closing_ends_what_runs() -> None:
    """Watches are broken off; nothing is left behind on the loop."""
    async with Cluster() as cluster:
        access = cluster.access()
        async with aiohttp.ClientSession(connector=access.connector()) as session:
            talk = Talk(cluster, session, access.server)
            reading = asyncio.ensure_future(anext(talk.watch(CONFIG_MAPS)))
            while not cluster.storage.listeners:
                await talk.get("/version")
            await cluster.close()
            with pytest.raises(aiohttp.ClientError):
                await reading
    assert asyncio.all_tasks() == {asyncio.current_task()}


class Echo(asyncio.Protocol):
    """Says its name to whoever connects."""

    def __init__(self, name: str) -> None:
        self._name = name

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        assert data.startswith(b"GET ")
        body = self._name.encode()
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


async def heard(network: Network, url: str) -> str:
    """The answer to one request on a new connection."""
    async with aiohttp.ClientSession(connector=network.connector()) as session, session.get(url) as answer:
        return await answer.text()


@simulated
async def test_a_network_of_many_servers() -> None:
    """Each is at its host and port; names lead to them; where nobody is connections are refused."""
    names = {"first": "10.0.0.1", "10.0.0.2": "10.0.0.2", "lonely": "10.0.0.9"}
    network = Network(lambda name: names.get(name, ""))
    network.listen("10.0.0.1", 80, lambda: Echo("one"))
    network.listen("10.0.0.2", 81, lambda: Echo("two"))
    assert await heard(network, "http://first/") == "one"
    assert await heard(network, "http://10.0.0.2:81/") == "two"
    for url in ("http://10.0.0.2:80/", "http://lonely/"):
        with pytest.raises(aiohttp.ClientConnectorError, match="refused"):
            await heard(network, url)
    with pytest.raises(aiohttp.ClientConnectorError, match="not known"):
        await heard(network, "http://nowhere/")


@simulated
async def test_a_server_that_leaves_a_network() -> None:
    """Its connections break, and the next one takes its place."""
    network = Network()
    network.listen("a", 80, lambda: Echo("one"))
    async with aiohttp.ClientSession(connector=network.connector()) as session:
        async with session.get("http://a/") as answer:
            assert await answer.text() == "one"
        network.leave("a", 80)
        with pytest.raises(aiohttp.ClientError):
            await session.get("http://a/")
        network.listen("a", 80, lambda: Echo("two"))
        async with session.get("http://a/") as answer:
            assert await answer.text() == "two"
