"""The agent's port: open to the whole network of the node, in a process of little memory."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import pytest
from prometheus_client import CollectorRegistry

from ebbtide.agent.main import Orders, run
from ebbtide.agent.server import MOST_AT_ONCE, serving
from ebbtide.kube.answers import Answer
from ebbtide.service.probes import Health
from ebbtide.sim.time import simulate

MORE: Final = 40


@asynccontextmanager
async def listening() -> AsyncIterator[int]:
    """A server; gives its port."""
    open_socket = socket.create_server(("127.0.0.1", 0))
    async with serving(open_socket, CollectorRegistry(), Health()):
        yield open_socket.getsockname()[1]


async def begun(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection whose request never ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /hea")
    return reader, writer


async def ended(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        await reader.read()


def test_no_more_connections_are_open_than_there_may_be() -> None:
    """Those that have been there longest make room, at once and not when their time is over; a probe is answered."""

    async def crowd() -> None:
        async with listening() as port:
            loop = asyncio.get_running_loop()
            clients = [await begun(port) for _ in range(MOST_AT_ONCE + MORE)]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 200")
            for first, _ in clients[: MORE + 1]:
                await ended(first)
            assert loop.time() < 1.0
            assert not any(last.at_eof() for last, _ in clients[MORE + 1 :])
            for each in (writer, *(writer for _, writer in clients)):
                each.transport.abort()
            await asyncio.sleep(1.0)  # the server finds out

    simulate(crowd())


def test_a_connection_that_is_over_counts_no_more() -> None:
    """However many come one after the other, one that stays is let stay."""

    async def one_by_one() -> None:
        async with listening() as port:
            patient, staying = await begun(port)
            for _ in range(2 * MOST_AT_ONCE):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
                assert (await reader.read()).startswith(b"HTTP/1.1 200")
                writer.transport.abort()
            staying.write(b"lthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await patient.read()).startswith(b"HTTP/1.1 200")
            staying.transport.abort()

    simulate(one_by_one())


class Silent:
    """A cluster that takes requests and never answers one."""

    async def request(self, method: str, path: str, **_named: object) -> Answer:
        raise NotImplementedError if await asyncio.get_running_loop().create_future() else AssertionError(method, path)


@pytest.mark.parametrize("steps", range(40))
def test_whenever_it_is_stopped_it_leaves_nothing_behind(steps: int) -> None:
    """So many turns of the loop after somebody has connected, and somebody else has begun to ask."""

    async def program() -> list[dict[str, object]]:
        complaints: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        open_socket, stopping = socket.create_server(("127.0.0.1", 0)), asyncio.Event()
        port = open_socket.getsockname()[1]
        orders = Orders("a1", "key", "http://127.0.0.1:1", 1.0, "127.0.0.1", port)
        running = asyncio.ensure_future(run(orders, Silent(), open_socket, stopping))
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        clients[1].send(b"GET /hea")
        for _ in range(steps):
            await asyncio.sleep(0)
        stopping.set()
        await running
        for client in clients:
            client.close()
        mine = {asyncio.current_task()}
        assert asyncio.all_tasks() == mine
        return complaints

    with asyncio.Runner() as runner:
        assert runner.run(program()) == []
