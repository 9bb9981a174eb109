"""A worker forgets tasks that have ended some time ago, and only those."""

import asyncio

import aiohttp

from ebbtide.sim.loaders.worker import LoadWorker
from ebbtide.sim.time import simulate
from ebbtide.sim.wire import Network
from tests.doubles.client import Client


def test_ended_tasks_are_listed_until_their_time_is_over() -> None:
    async def story() -> None:
        worker, network = LoadWorker(collect_after=20.0), Network()
        network.listen("w", 80, worker.accept)
        async with aiohttp.ClientSession(connector=network.connector()) as session:
            ended, runs = (Client(session, "http://w:80", f"1-26-{number}-0") for number in (1, 2))
            await runs.init()
            await ended.run()
            await asyncio.sleep(19.0)
            assert (await ended.state())["finished"]
            await asyncio.sleep(1.0)
            await runs.write(1, 1, b"rows")
            assert [str(entry.task) for entry in worker.tasks.values()] == ["1-26-2-0"]
        await worker.close()

    simulate(story())
