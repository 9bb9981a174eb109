"""Clients that wait at a leader whose machine dies: what the page says that they see, and what helps."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
import pytest

from ebbtide.kube.resources import STATEFUL_SETS
from tests.controlplane.load_data import HOST, PAUSE, Site, site
from tests.controlplane.processes import free_port
from tests.controlplane.program import Process, scrape, stop_leader
from tests.controlplane.proxy import FaultProxy
from tests.controlplane.webhook_service import Replica, Service
from tests.controlplane.world import PATIENCE, World
from tests.doubles.client import Client
from tests.doubles.worker import CLUSTER

pytestmark = pytest.mark.controlplane

LARGE: Final = 3 << 30
# After which a client gives a request up, by itself; minutes in production.
GIVES_UP: Final = 2.0


@pytest.fixture
async def workers(cluster: World, proxy: FaultProxy) -> AsyncIterator[Site]:
    async with site(cluster, proxy) as made:
        yield made


@dataclass
class Imports:
    """Clients with timeouts of their own. `given_up` are the addresses at which a request was, in their order."""

    session: aiohttp.ClientSession
    given_up: list[str]

    def client(self, front: str, task: str) -> Client:
        return Client(self.session, front, task, CLUSTER, LARGE, pause=PAUSE)


@asynccontextmanager
async def imports() -> AsyncIterator[Imports]:
    given_up: list[str] = []
    tracing = aiohttp.TraceConfig()

    async def failed(_session: object, _context: object, failure: aiohttp.TraceRequestExceptionParams) -> None:
        given_up.append(str(failure.url.origin()))

    tracing.on_request_exception.append(failed)
    timeout = aiohttp.ClientTimeout(total=GIVES_UP)
    async with aiohttp.ClientSession(timeout=timeout, trace_configs=[tracing]) as session:
        yield Imports(session, given_up)


@dataclass
class Fronted:
    """A reconciler, with the port of its front."""

    name: str
    port: int
    process: Process
    health: str

    @property
    def front(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def behind(self) -> Replica:
        """As a Service knows it."""
        return Replica(self.name, self.port, self.health)

    async def leads(self) -> bool:
        return (await scrape(self.health)).value("ebbtide_leader") == 1

    async def waiting(self) -> float:
        """Requests that are held at its front."""
        return (await scrape(self.health)).value("worker_scaler_requests_in_flight") or 0


async def test_whoever_waits_at_a_leader_that_dies_finds_the_next_one_by_the_service(
    tmp_path: Path, workers: Site, proxy: FaultProxy, second_proxy: FaultProxy
) -> None:
    """One client has met the leader by way of the Service, and gets its worker from the next one. One was sent to the
    leader's own address: it tries there for as long as nobody answers, while an import that is begun anew gets its
    worker; and is sent on at last where the replica is at its address again."""
    cluster = workers.cluster
    token = await workers.token(tmp_path, workers.text())
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(Service().serving())
        loads = await stack.enter_async_context(imports())

        async def start(name: str, port: int, way: FaultProxy) -> Fronted:
            text = workers.text(port=port, expire_seconds=600)
            process = await stack.enter_async_context(workers.process(tmp_path / name, text, token, way))
            return Fronted(name, port, process, await process.serving())

        replicas = [await start("one", free_port(), proxy), await start("two", free_port(), second_proxy)]
        leader, follower = await leader_of(cluster, replicas)
        service.add(leader.behind)
        entrance = f"http://{HOST}:{service.port}"
        by_service, sent = loads.client(entrance, "1-170-1-0"), loads.client(follower.front, "1-170-2-0")
        # Nobody's worker can start: there is no node.
        inits = [asyncio.create_task(each.init()) for each in (by_service, sent)]

        async def both_wait() -> bool:
            made = await workers.named(STATEFUL_SETS)
            return sent.base == leader.front and await leader.waiting() == len(inits) == len(made)

        await cluster.wait_until(both_wait, "both wait for their workers at the leader")
        await stop_leader(leader.process, cluster)
        # As the controllers do with the pods of a machine that is gone.
        service.remove(leader.name)
        service.add(follower.behind)
        stranded = len(loads.given_up)
        await cluster.wait_until(follower.leads, "the other one leads")

        async def tried_again() -> bool:
            later = loads.given_up[stranded:]
            return later.count(leader.front) > 1 and later.count(entrance) > 0

        await cluster.wait_until(tried_again, "both have given up what they waited for, and have come again")
        await cluster.add_nodes("a", 1)
        await asyncio.wait_for(inits[0], PATIENCE)
        assert redirects(by_service) == [by_service.base]
        begun_anew = loads.client(entrance, sent.task)
        await asyncio.wait_for(begun_anew.init(), PATIENCE)
        assert begun_anew.base != by_service.base
        assert (inits[1].done(), sent.base, redirects(sent)) == (False, leader.front, [leader.front])
        assert len(await workers.named(STATEFUL_SETS)) == len(inits)

        leader.process.kill()
        await leader.process.process.wait()
        await start(leader.name, leader.port, proxy)
        await asyncio.wait_for(inits[1], PATIENCE)
        assert redirects(sent) == [leader.front, follower.front, begun_anew.base]
    assert workers.refused() == []


async def leader_of(cluster: World, replicas: Sequence[Fronted]) -> tuple[Fronted, Fronted]:
    """The one that leads and the other one."""

    async def one() -> list[Fronted]:
        leading = [each for each in replicas if await each.leads()]
        return leading if len(leading) == 1 else []

    [leader] = await cluster.wait_until(one, "one of them leads")
    return leader, next(each for each in replicas if each is not leader)


def redirects(client: Client) -> list[str]:
    """Where the client was sent, one after the other."""
    return [heard.headers["Location"].removesuffix("/load_data") for heard in client.seen if heard.status == 302]
