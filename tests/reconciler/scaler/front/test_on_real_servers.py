"""Replicas of the reconciler as processes on the real control plane: what becomes of clients when one of them ends."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from tests.controlplane.processes import free_port
from tests.controlplane.program import Process, configuration, process
from tests.controlplane.proxy import FaultProxy
from tests.controlplane.world import World
from tests.doubles.client import Client
from tests.reconciler.scaler.front.laws import check
from tests.reconciler.scaler.front.stage import LOOPBACK

pytestmark = pytest.mark.controlplane

TASK = "1-170-139-0"


@dataclass
class Replica:
    """A process, and where its front is."""

    process: Process
    url: str
    session: aiohttp.ClientSession

    def client(self) -> Client:
        return Client(self.session, self.url, TASK, size=1 << 20, pause=0.2)

    def says(self, status: int) -> Callable[[], Awaitable[bool]]:
        """Whether that is its answer to a question for the task."""

        async def asked() -> bool:
            try:
                async with self.session.get(
                    f"{self.url}/load_data?cluster_id=7&task_id={TASK}", allow_redirects=False
                ) as answer:
                    return answer.status == status
            except aiohttp.ClientConnectorError:
                assert self.process.process.returncode is None, "\n".join(self.process.log)
                return False

        return asked


@asynccontextmanager
async def replicas(folder: Path, cluster: World, proxy: FaultProxy) -> AsyncIterator[Callable[[], Awaitable[Replica]]]:
    """Starts one after the other."""
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        started: list[Replica] = []

        async def start() -> Replica:
            port = free_port()
            rules = {"run": True, "namespace": cluster.namespace, "listen": f"{LOOPBACK}:{port}", "cluster-id": 7}
            text = configuration(cluster, worker_scaler=rules, certs={"mode": "files"})
            running = process(folder / str(len(started)), cluster, proxy, text)
            started.append(Replica(await stack.enter_async_context(running), f"http://{LOOPBACK}:{port}", session))
            return started[-1]

        yield start


async def test_a_client_that_waits_at_a_leader_that_ends_goes_on_at_the_next_one(
    cluster: World, proxy: FaultProxy, tmp_path: Path
) -> None:
    """SIGTERM: the process ends with 0, and the client, which knows its address alone, has been told another."""
    async with replicas(tmp_path, cluster, proxy) as start:
        first = await start()
        await cluster.wait_until(first.says(404), "the first replica leads and knows all tasks")
        second = await start()
        await cluster.wait_until(second.says(302), "the second one sends to the first")

        client = second.client()
        waiting = asyncio.create_task(client.init())

        async def at(url: str) -> bool:
            return client.base == url and client.seen[-1].status == 503

        await cluster.wait_until(lambda: at(first.url), "the client waits at the first replica")
        assert await first.process.terminate() == 0
        await cluster.wait_until(lambda: at(second.url), "the client waits at the second replica")
        waiting.cancel()
        for heard in client.seen:
            check(heard, may_redirect=True)


async def test_nobody_is_sent_to_a_leader_that_was_killed(cluster: World, proxy: FaultProxy, tmp_path: Path) -> None:
    async with replicas(tmp_path, cluster, proxy) as start:
        first = await start()
        await cluster.wait_until(first.says(404), "the first replica leads and knows all tasks")
        second = await start()
        await cluster.wait_until(second.says(302), "the second one sends to the first")
        first.process.kill()

        async def sends_away() -> bool:
            return await second.says(302)()

        async def keeps() -> bool:
            return not await sends_away()

        await cluster.wait_until(keeps, "the second one sends nobody to the first any more")
        await cluster.wait_until(second.says(404), "the second one leads")
