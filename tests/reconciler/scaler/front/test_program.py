"""The front in whole replicas of the reconciler on the embedded cluster: who answers, and what becomes of clients."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from yarl import URL

from ebbtide import vocabulary
from ebbtide.config import Settings
from ebbtide.kube.client import Client
from ebbtide.kube.resources import LEASES
from ebbtide.service.supervisor import Supervisor
from ebbtide.sim import objects
from ebbtide.sim.faults import Answer
from reconciler.main import Reconciler
from reconciler.place import Place
from tests.doubles.client import Client as Importer
from tests.doubles.client import Heard
from tests.reconciler.scaler.front.laws import check
from tests.reconciler.scaler.front.stage import init, state
from tests.reconciler.scaler.room import PORT, Room, in_room
from tests.simulation.wiretap import Journal, Wiretap

HOME = "ebbtide-system"
TASK = "1-170-139-0"
OTHER = "1-170-139-1"


class Replica:
    """A reconciler as its program runs it, with its front on the network instead of a socket."""

    def __init__(self, room: Room, name: str, host: str, *, dry_run: bool = False) -> None:
        self.room = room
        self.host = host
        self.url = f"http://{host}:{PORT}"
        self.tap = Wiretap(room.cluster, name, Journal(room.cluster))
        self.client = Client(self.tap.access(), field_manager="ebbtide-reconciler", user_agent=name)
        rules = {"worker-scaler": room.settings, "certs": {"mode": "files"}}
        settings, place = Settings.model_validate(rules), Place(HOME, name, self.url)
        self.program = Reconciler(settings, self.client, room.cluster.clock, place, dry_run, room.network.connector)
        self.stopping = asyncio.Event()
        if self.program.front is not None:
            room.network.listen(host, PORT, self.program.front.connections)
        self.task = asyncio.create_task(self._run(), name=name)

    async def _run(self) -> None:
        try:
            async with self.client:
                await Supervisor(self.program.health, self.stopping).run(*self.program.parts(None))
        finally:
            self.room.network.leave(self.host, PORT)

    @property
    def leads(self) -> bool:
        return self.program.registry.get_sample_value("ebbtide_leader") == 1

    async def stop(self) -> None:
        self.stopping.set()
        await self.task

    async def kill(self) -> None:
        """`kill -9`, which nobody hears of."""
        self.tap.cut()
        self.room.network.leave(self.host, PORT)
        self.task.cancel()
        await asyncio.wait([self.task])
        await self.tap.close()


class World:
    """A room with nodes, a home for the lease, and clients."""

    def __init__(self, room: Room, session: aiohttp.ClientSession) -> None:
        self.room = room
        self.session = session
        room.cluster.create(objects.namespace(HOME), objects.node("n", group="g", zone="z"))
        self.replicas: list[Replica] = []

    def start(self, *, dry_run: bool = False) -> Replica:
        number = len(self.replicas) + 1
        self.replicas.append(Replica(self.room, f"replica-{number}", f"10.9.0.{number}", dry_run=dry_run))
        return self.replicas[-1]

    async def leading(self) -> Replica:
        """A replica that leads and knows everything."""
        replica = self.start()
        await self.room.until(lambda: replica.leads)
        await self.answering(replica, "9-9-9-9", 404)
        return replica

    async def following(self, leader: Replica) -> Replica:
        """Another replica, which has seen who leads."""
        replica = self.start()
        await self.answering(replica, TASK, 302)
        assert not replica.leads
        return replica

    async def answering(self, replica: Replica, task: str, status: int) -> None:
        """Waits until that is what it says of the task."""
        for _ in range(600):
            if (await self.ask(replica, "GET", state(task))).status == status:
                return
            await asyncio.sleep(0.1)
        raise TimeoutError(f"{replica.host} never answered with {status}")

    async def ask(self, replica: Replica, method: str, query: str) -> Heard:
        url = URL(f"{replica.url}/load_data?{query}", encoded=True)
        async with self.session.request(method, url, allow_redirects=False) as answer:
            heard = Heard(answer.status, await answer.text(), answer.headers.copy())
        check(heard, may_redirect=method in ("GET", "POST"))
        return heard

    def importer(self, at: Replica, task: str = TASK) -> Importer:
        return Importer(self.session, at.url, task, size=1 << 20)

    async def lease(self) -> dict[str, Any]:
        return dict((await self.room.client.get(LEASES, "ebbtide-reconciler", namespace=HOME))["metadata"])


@asynccontextmanager
async def world(room: Room) -> AsyncIterator[World]:
    timeout = aiohttp.ClientTimeout()
    async with aiohttp.ClientSession(connector=room.network.connector(), timeout=timeout) as session:
        made = World(room, session)
        try:
            yield made
        finally:
            for replica in made.replicas:
                await replica.kill()


Story = Callable[[World], Coroutine[Any, Any, None]]


def played(story: Story) -> Callable[[], None]:
    async def in_a_world(room: Room) -> None:
        room.local(0)
        async with world(room) as made:
            await story(made)

    test = in_room(worker_address="pod-ip")(in_a_world)
    test.__name__, test.__doc__ = story.__name__, story.__doc__
    return test


@played
async def test_a_leader_tells_on_its_lease_where_it_answers_and_takes_that_back_when_it_goes(world: World) -> None:
    leader = await world.leading()
    assert (await world.lease())["annotations"][vocabulary.LOAD_DATA_URL_ANNOTATION] == leader.url
    await leader.stop()
    assert vocabulary.LOAD_DATA_URL_ANNOTATION not in (await world.lease()).get("annotations", {})


@played
async def test_ws_04_a_follower_sends_to_the_leader_and_to_nobody_without_one(world: World) -> None:
    leader = await world.leading()
    follower = await world.following(leader)
    for method, query in (("POST", init(TASK)), ("GET", state(TASK))):
        assert (await world.ask(follower, method, query)).headers["Location"] == f"{leader.url}/load_data"
    await leader.kill()
    importer = world.importer(follower)
    await importer.init()
    assert follower.leads
    assert {heard.status for heard in importer.seen} == {200, 302, 503}
    assert importer.hops == 1


@played
async def test_ws_04_while_the_lease_of_a_dead_leader_runs_out_nobody_is_answered_in_vain(world: World) -> None:
    leader = await world.leading()
    follower = await world.following(leader)
    outage = world.room.cluster.faults.inject(Answer(500, "InternalError"))
    await asyncio.sleep(30)
    assert not leader.leads
    for replica in (leader, follower):
        assert (await world.ask(replica, "POST", init(TASK))).status == 503
        assert (await world.ask(replica, "GET", "cluster_id=7")).status == 503
    world.room.cluster.faults.remove(outage)
    await world.importer(follower).init()


@played
async def test_an_import_through_a_follower_runs_while_leaders_come_and_go(world: World) -> None:
    leader = await world.leading()
    follower = await world.following(leader)
    importer = world.importer(follower)
    await importer.init()
    await importer.write(1, 1, b"rows")
    await leader.stop()
    await world.room.until(lambda: follower.leads)
    await importer.restart()
    assert (await importer.load([b"rows"]))["finished"]


@played
async def test_a_follower_has_lists_and_deletes_answered_by_the_leader(world: World) -> None:
    leader = await world.leading()
    follower = await world.following(leader)
    await world.importer(leader).init()
    listed = (await world.ask(follower, "GET", "cluster_id=7")).json
    assert [entry["task-id"] for entry in listed] == [TASK]
    assert (await world.ask(follower, "DELETE", state(TASK))).status == 200
    assert (await world.ask(follower, "DELETE", state("9-9-9-9"))).status == 404
    assert [taken.method for taken in world.room.workers["tikv-api-0"].taken if taken.method == "DELETE"] == ["DELETE"]


@played
async def test_ws_74_in_an_outage_placed_tasks_are_told_from_memory_and_nothing_else(world: World) -> None:
    leader = await world.leading()
    importer = world.importer(leader)
    await importer.init()
    outage = world.room.cluster.faults.inject(Answer(503, "ServiceUnavailable"))
    await asyncio.sleep(600)
    assert not leader.leads
    assert (await world.ask(leader, "GET", state(TASK))).headers["Location"] == f"{importer.base}/load_data"
    assert (await world.ask(leader, "GET", state(OTHER))).status == 503
    assert (await world.ask(leader, "POST", init(OTHER))).status == 503
    world.room.cluster.faults.remove(outage)
    await world.room.until(lambda: leader.leads, within=200)
    await importer.restart()


@played
async def test_a_client_that_comes_again_and_again_is_sent_on_when_its_leader_ends(world: World) -> None:
    """A rolling update: the follower sent it to the leader's own address, which it knows alone."""
    leader = await world.leading()
    follower = await world.following(leader)
    world.room.unready("tikv-api-0")
    importing = asyncio.create_task(world.importer(follower, OTHER).run())
    await asyncio.sleep(20)
    assert not importing.done()
    await leader.stop()
    await world.room.until(lambda: follower.leads)
    world.room.change("tikv-api-0", {"conditions": [{"type": "Ready", "status": "True"}]})
    assert (await asyncio.wait_for(importing, 120))["finished"]


@played
async def test_a_dry_run_answers_nobody(world: World) -> None:
    replica = world.start(dry_run=True)
    await asyncio.sleep(60)
    assert replica.program.front is None
    with pytest.raises(aiohttp.ClientConnectorError):
        await world.ask(replica, "GET", state(TASK))
    assert "dry run" in {part.name for part in replica.program.parts(None)}
