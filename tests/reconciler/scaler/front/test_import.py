"""Imports of the client's double through fronts to workers: what all the single answers are for."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from ebbtide.config.scaler import WorkerScaler
from ebbtide.sim.time import simulate
from ebbtide.sim.wire import Network
from reconciler.scaler.contract import Refused, Unavailable
from tests.doubles.client import Client, ImportFailedError
from tests.doubles.worker import Worker
from tests.reconciler.scaler.front.stage import KNOWN, WORKER, ScriptedDesk, ScriptedLeadership, Stage

PORT = 19500
HOSTS = ("192.0.2.1", "192.0.2.2")
FIRST, SECOND = (f"http://{host}:{PORT}" for host in HOSTS)


class World:
    """Two fronts, of which the second leads, a worker, and a network between them."""

    def __init__(self) -> None:
        self.network = Network()
        self.worker = Worker()
        self.network.listen(WORKER.removeprefix("http://").partition(":")[0], PORT, self.worker.accept)
        self.fronts = [self._front(FIRST), self._front(SECOND)]
        self.lead(1)

    def _front(self, own: str) -> Stage:
        leadership = ScriptedLeadership(own=own, leading=False)
        return Stage(ScriptedDesk(), leadership, WorkerScaler(), in_memory=True, elsewhere=self.network.connector)

    def lead(self, number: int | None) -> None:
        """That front leads from now on, and knows what the one before has placed."""
        known = {task: place for front in self.fronts for task, place in front.desk.places.items()}
        for index, front in enumerate(self.fronts):
            front.leadership.leading = index == number
            front.leadership.elsewhere = "" if number is None or index == number else (FIRST, SECOND)[number]
            if index == number:
                front.desk.places = dict(known)

    @property
    def refusals(self) -> list[int]:
        """Statuses by which a front has ended somebody's import."""
        return [
            int(sample.labels["code"])
            for front in self.fronts
            for family in front.registry.collect()
            for sample in family.samples
            if sample.name == "worker_scaler_requests_total"
            and sample.value
            and sample.labels["code"] in ("400", "404")
        ]


@asynccontextmanager
async def world() -> AsyncIterator[tuple[World, Client]]:
    made = World()
    async with AsyncExitStack() as stack:
        for host, front in zip(HOSTS, made.fronts, strict=True):
            await stack.enter_async_context(front)
            made.network.listen(host, PORT, front.service.connections)
        timeout = aiohttp.ClientTimeout()
        session = aiohttp.ClientSession(connector=made.network.connector(), timeout=timeout)
        yield made, Client(await stack.enter_async_context(session), FIRST, str(KNOWN))
    await made.worker.close()


def play(story: Callable[[World, Client], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with world() as (made, client):
            await story(made, client)

    simulate(main())


def test_an_import_that_begins_at_a_follower_ends_at_its_worker() -> None:
    async def story(made: World, client: Client) -> None:
        assert (await client.run([b"rows"] * 5))["finished"]
        assert (client.base, client.hops) == (WORKER, 2)
        assert made.refusals == []
        assert [taken.method for taken in made.worker.taken] == ["POST", *["PUT"] * 5, "POST", "POST", "GET"]

    play(story)


def test_ws_02_a_client_that_is_restarted_in_the_middle_goes_on() -> None:
    async def story(made: World, client: Client) -> None:
        await client.init()
        await client.write(1, 1, b"rows")
        made.lead(0)
        await client.restart()
        assert (await client.load([b"rows"]))["finished"]
        assert made.refusals == []
        assert {"task exists"} == {heard.text for heard in client.seen if heard.status == 400}

    play(story)


def test_ws_07_no_passing_trouble_ends_an_import() -> None:
    """Limits, leaders that change, and fronts that go away and come back; what is begun goes on."""

    async def story(made: World, client: Client) -> None:
        first, second = made.fronts
        made.lead(None)
        running = asyncio.create_task(client.run())
        await asyncio.sleep(60)
        made.lead(1)
        second.desk.trouble = Unavailable("the limit is reached")
        await asyncio.sleep(60)
        second.desk.missing = "nothing has been read yet"
        second.desk.trouble = None
        await asyncio.sleep(60)
        second.desk.missing = ""
        second.desk.opened.clear()
        await asyncio.sleep(60)
        second.desk.trouble = Unavailable("this replica does not lead any more")
        made.lead(0)
        first.desk.trouble = RuntimeError("a fault of our own")
        second.desk.opened.set()
        await asyncio.sleep(60)
        first.desk.trouble = None
        assert (await running)["finished"]
        assert made.refusals == []

    with capture_logs() as lines:
        play(story)
    assert "request failed" in {line["event"] for line in lines}


def test_a_leader_that_ends_leaves_nobody_at_its_address() -> None:
    """A client that a follower sent to the leader asks there again and again, also when nobody is there any more."""

    async def story(made: World, client: Client) -> None:
        leader = made.fronts[1]
        leader.desk.opened.clear()
        running = asyncio.create_task(client.run())
        await asyncio.sleep(10)
        assert leader.desk.waiting == 1
        made.lead(None)
        leader.leadership.successors = ["", "", FIRST]
        leader.service.stop()
        await asyncio.sleep(0.8)
        made.fronts[0].leadership.leading = True
        await leader.serving
        made.network.leave(HOSTS[1], PORT)
        assert (await asyncio.wait_for(running, 60))["finished"]

    play(story)


def test_what_will_never_work_ends_an_import_at_once_and_says_why() -> None:
    async def story(made: World, client: Client) -> None:
        made.fronts[1].desk.trouble = Refused("data size 1099511627777 exceeds max data size 1099511627776")
        with pytest.raises(ImportFailedError, match="exceeds max data size 1099511627776"):
            await client.run()

    play(story)


def test_ws_05_data_at_a_front_is_refused_rather_than_lost() -> None:
    async def story(made: World, client: Client) -> None:
        await client.init()
        for front in (FIRST, SECOND):
            client.base = front
            for request in (client.write(1, 1, b"rows" * 1000), client.flush(1), client.build()):
                with pytest.raises(ImportFailedError, match="404"):
                    await request

    play(story)
