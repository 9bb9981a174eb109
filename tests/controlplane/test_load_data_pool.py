"""The shared pool behind two real replicas: a burst of tasks, two leaders killed, and the way back to nothing."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from http import HTTPStatus
from pathlib import Path
from random import Random
from typing import Final

import aiohttp
import orjson
import pytest

from ebbtide.kube.resources import CONFIG_MAPS, STATEFUL_SETS
from reconciler.scaler.shared.ledger import name_of, read
from tests.controlplane.load_data import POOL, Site, site
from tests.controlplane.processes import free_port
from tests.controlplane.program import Process, kill_leader, scrape
from tests.controlplane.proxy import FaultProxy, Seen
from tests.controlplane.world import PATIENCE, World
from tests.doubles.client import Client
from tests.doubles.worker import Worker

pytestmark = pytest.mark.controlplane

TASKS: Final = 300
# At 16 tasks a pod.
PODS: Final = 19
MOST_PER_POD: Final = 24
# Seconds for which a pod has to be idle before it goes.
IDLE: Final = 2.0
SIZE: Final = 1 << 20
# The pod whose tasks end last, so that what is below it waits for nothing.
LAST: Final = 3
# Tasks that end between two questions.
BATCH: Final = 50


@pytest.fixture
async def workers(cluster: World, proxy: FaultProxy) -> AsyncIterator[Site]:
    async with site(cluster, proxy) as made:
        yield made


class Replica:
    """One of the two, started again at the same address after it was killed, as its container would be."""

    def __init__(self, workers: Site, folder: Path, token: str, proxy: FaultProxy, stack: AsyncExitStack) -> None:
        self.port = free_port()
        self._workers, self._folder, self._token, self._proxy = workers, folder, token, proxy
        # Three hundred clients keep this machine busy: one may come late to where it was sent.
        rules = {"shared_idle_pod_expire_sec": IDLE, "status_timeout": 60, "reservation_seconds": 60}
        self._text = workers.text(port=self.port, **rules)
        self._stack = stack
        self._running: Process | None = None

    async def start(self) -> None:
        starting = self._workers.process(self._folder, self._text, self._token, self._proxy)
        self._running = await self._stack.enter_async_context(starting)

    async def kill(self) -> None:
        assert self._running is not None
        await kill_leader(self._running, self._workers.cluster)

    async def leads(self) -> bool:
        assert self._running is not None
        try:
            return (await scrape(await self._running.serving())).value("ebbtide_leader") == 1
        except aiohttp.ClientError:
            return False


async def leader_of(workers: Site, replicas: Sequence[Replica]) -> tuple[Replica, Replica]:
    """The one that leads and the other one."""

    async def one() -> list[Replica]:
        leading = [each for each in replicas if await each.leads()]
        return leading if len(leading) == 1 else []

    [leader] = await workers.cluster.wait_until(one, "one of them leads")
    return leader, next(each for each in replicas if each is not leader)


async def test_three_hundred_tasks_at_once_and_back_to_nothing(
    tmp_path: Path, workers: Site, proxy: FaultProxy, second_proxy: FaultProxy
) -> None:
    """All keep their places whoever leads, and no pod goes before it has been idle long enough."""
    await workers.cluster.add_nodes("a", 2)
    token = await workers.token(tmp_path, workers.text())
    ways = {"one": proxy, "two": second_proxy}
    async with AsyncExitStack() as stack:
        replicas = [Replica(workers, tmp_path / name, token, way, stack) for name, way in ways.items()]
        for replica in replicas:
            await replica.start()
        clients = await burst(workers, replicas)
        places = {client.task: client.base for client in clients}
        await spread_as_they_should(workers, places)
        leader, follower = await leader_of(workers, replicas)
        await fronts_answer(workers, leader, follower, clients[0])

        # Clients come before anybody has noticed; those that are still sent to the dead one find it again.
        await leader.kill()
        await leader.start()
        again = [workers.client(client.task, SIZE, follower.port) for client in clients]
        await asyncio.wait_for(asyncio.gather(*(client.restart() for client in again)), PATIENCE)
        assert {client.task: client.base for client in again} == places

        ended = await end_all(workers)
        await workers.nothing_left()
        await no_promise_left(workers)
    requests = sorted([*proxy.requests, *second_proxy.requests], key=lambda seen: seen.time)
    assert not [seen.path for seen in requests if seen.status == HTTPStatus.FORBIDDEN]
    only_idle_tails_went(requests, ended)


async def burst(workers: Site, replicas: Sequence[Replica]) -> list[Client]:
    """All clients at once, at either replica; the one that leads is killed when a tenth of them have their places."""
    clients = [workers.client(f"1-170-{n}-0", SIZE, replicas[n % 2].port) for n in range(TASKS)]
    async with asyncio.timeout(2 * PATIENCE), asyncio.TaskGroup() as group:
        inits = [group.create_task(client.init()) for client in clients]

        async def under_way() -> bool:
            return sum(init.done() for init in inits) >= TASKS // 10

        await workers.cluster.wait_until(under_way, "some have their places")
        leader, _ = await leader_of(workers, replicas)
        await leader.kill()
        await leader.start()
    return clients


async def spread_as_they_should(workers: Site, places: Mapping[str, str]) -> None:
    """Each task runs where its client was sent, and nowhere else; there are as many pods as it takes."""
    listed = [(str(task), worker) for worker in workers.crew.workers.values() for task in worker.tasks]
    assert sorted(task for task, _ in listed) == sorted(places)
    assert max(Counter(places.values()).values()) <= MOST_PER_POD
    assert (await workers.named(STATEFUL_SETS))[POOL]["spec"]["replicas"] == PODS


async def fronts_answer(workers: Site, leader: Replica, follower: Replica, client: Client) -> None:
    """Only an init and the question for a state are sent on; data never is."""
    known = {"task_id": client.task}
    init = {"start_ts": "1", "commit_ts": "2", "data_size": str(SIZE)}
    for method, query in (("GET", known), ("POST", known | init)):
        for replica, place in ((leader, client.base), (follower, f"http://127.0.0.1:{leader.port}")):
            status, text, headers = await workers.ask(method, replica.port, **query)
            assert (status, text, headers["Location"]) == (302, "", f"{place}/load_data")
    for port in (leader.port, follower.port):
        writes = [("PUT", {"chunk_id": "1"}), ("POST", {"flush": "true"}), ("POST", {"build": "true"})]
        for method, more in writes:
            assert (await workers.ask(method, port, **known, writer_id=1, **more))[0] == 404
        assert (await workers.ask("DELETE", port, task_id="1-171-0-0"))[0] == 404
        status, text, _ = await workers.ask("GET", port)
        assert (status, len(orjson.loads(text))) == (200, TASKS)


async def end_all(workers: Site) -> dict[int, float]:
    """In random order, but for one pod's; gives the loop's time at which each pod's last task ended."""
    # Until a task has been seen after its client was sent there once more, it may still be on its way.
    await asked_again(workers)
    by_pod = {int(name.rpartition("-")[2]): worker for name, worker in workers.crew.workers.items()}
    tasks = [(ordinal, str(task)) for ordinal, worker in by_pod.items() for task in worker.tasks if ordinal != LAST]
    Random(1).shuffle(tasks)
    last = [(LAST, str(task)) for task in by_pod[LAST].tasks]
    ended: dict[int, float] = {}
    for batch in [tasks[start : start + BATCH] for start in range(0, len(tasks), BATCH)]:
        end(by_pod, batch, ended)
        await asked_again(workers)

    async def only_the_tail_is_gone() -> bool:
        return bool((await workers.named(STATEFUL_SETS))[POOL]["spec"]["replicas"] == LAST + 1)

    await workers.cluster.wait_until(only_the_tail_is_gone, f"pod {LAST} is the last one")
    end(by_pod, last, ended)
    return ended


def end(by_pod: Mapping[int, Worker], tasks: Iterable[tuple[int, str]], ended: dict[int, float]) -> None:
    for ordinal, task in tasks:
        by_pod[ordinal].finish(task)
        by_pod[ordinal].lose(task)
        ended[ordinal] = asyncio.get_running_loop().time()


async def asked_again(workers: Site) -> None:
    """Whoever scales has seen what there is now."""
    before = {name: len(worker.taken) for name, worker in workers.crew.workers.items()}

    async def all_are() -> bool:
        now = workers.crew.workers
        return all(len(worker.taken) > before.get(name, 0) + 1 for name, worker in now.items())

    await workers.cluster.wait_until(all_are, "all workers were asked for their tasks")


async def no_promise_left(workers: Site) -> None:
    async def so() -> bool:
        stored = await workers.cluster.client.get(CONFIG_MAPS, name_of(POOL), namespace=workers.cluster.namespace)
        return not read(stored["data"]).entries

    await workers.cluster.wait_until(so, "no promise is stored")


def only_idle_tails_went(requests: Iterable[Seen], ended: Mapping[int, float]) -> None:
    """Every accepted change of the pool's size against what its pods had to do then.

    While clients still come, pods may go that nobody has come to: after a leader's end it may take a while until they
    ask again. One with tasks would have been missed by these.
    """
    sizes, all_placed = [], min(ended.values())
    for seen in requests:
        if seen.method != "PATCH" or f"/statefulsets/{POOL}?" not in seen.path or b"/spec/replicas" not in seen.body:
            continue
        if seen.status == HTTPStatus.OK:
            before, size = [change["value"] for change in orjson.loads(seen.body) if change["path"] == "/spec/replicas"]
            assert size <= PODS
            sizes.append(size)
            if seen.time >= all_placed:
                # Those that never had a task were empty all the time.
                idle = {ordinal: seen.time - ended.get(ordinal, 0.0) for ordinal in range(size, before)}
                assert {ordinal: seconds for ordinal, seconds in idle.items() if seconds < IDLE} == {}
    assert sizes[-1] == 0
    assert LAST + 1 in sizes
