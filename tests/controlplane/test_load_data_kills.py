"""`kill -9` at every write of a worker's life, on a real control plane: the next scaler goes on where it stood."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.controlplane.load_data import POOL, Site, site
from tests.controlplane.program import kill_leader
from tests.controlplane.proxy import FaultProxy, Hold, Rule, Seen
from tests.controlplane.world import PATIENCE, World

Step = Callable[[], Awaitable[None]]

pytestmark = pytest.mark.controlplane

OWN, SHARED = "1-1701753296955293956-139-0", "1-1701753296955293956-140-0"
NAME = f"load-data-worker-{OWN}"
LARGE = 3 << 30


class Write(NamedTuple):
    """Requests of the scaler at the same path, with that in their body; `times` is how many there will be."""

    method: str
    path: str
    times: int = 1
    body: bytes = b""

    @property
    def pattern(self) -> str:
        return rf"{self.path}(\?|$)"

    def seen(self, proxy: FaultProxy) -> list[Seen]:
        return proxy.matching(self.method, self.pattern, self.body)

    def inject(self, proxy: FaultProxy, hold: Hold) -> Rule:
        return proxy.inject(hold, method=self.method, path=self.pattern, body=self.body)


# The writes of a scaler that has a task for a worker of its own and one for the pool. Those of one line are under way
# at the same time when it is killed. Places on the pool do not wait for its Service: they are held back as well.
Line = Sequence[Write]
BEGINNING: Sequence[Line] = (
    [Write("POST", "/statefulsets", times=2)],
    [Write("POST", "/services", times=2), Write("PATCH", f"/pods/{POOL}-0")],
    [Write("PATCH", f"/statefulsets/{NAME}"), Write("POST", "/configmaps")],
)
_CLOSING = b'"path":"/data/closing"'
ENDING: Sequence[Line] = (
    [Write("PATCH", f"/statefulsets/{NAME}"), Write("PATCH", f"/pods/{POOL}-0")],
    [Write("PATCH", f"/pods/{NAME}-0"), Write("PATCH", "/configmaps/.*", body=b'"op":"add",' + _CLOSING)],
    [Write("DELETE", f"/statefulsets/{NAME}"), Write("PATCH", f"/statefulsets/{POOL}", body=b"/spec/replicas")],
    [Write("PATCH", "/configmaps/.*", body=b'"op":"remove",' + _CLOSING)],
)


@pytest.fixture
async def workers(cluster: World, proxy: FaultProxy) -> AsyncIterator[Site]:
    async with site(cluster, proxy) as made:
        yield made


async def test_killed_at_every_write_of_a_workers_life_the_end_is_the_same(tmp_path: Path, workers: Site) -> None:
    """Each write is once not heard of by the server, and once done without an answer; nothing is made twice."""
    await workers.cluster.add_nodes("a", 1)
    text = workers.text(expire_seconds=2, reservation_seconds=1, shared_idle_pod_expire_sec=1)
    token = await workers.token(tmp_path, text)
    clients = [workers.client(OWN, LARGE), workers.client(SHARED, 1)]
    beginning = asyncio.gather(*(client.init() for client in clients))

    async def import_all() -> None:
        await beginning
        await asyncio.gather(*(client.load([b"rows"]) for client in clients))

    async def killed(line: Line, later: Sequence[Line] = (), first: Step | None = None) -> None:
        for when in ("before", "after"):
            async with (
                held(workers.proxy, line, when, later) as reached,
                workers.process(tmp_path, text, token) as running,
            ):
                if first is not None and when == "before":
                    await asyncio.wait_for(first(), PATIENCE)
                await workers.cluster.wait_until(reached, f"{when} {line}")
                await kill_leader(running, workers.cluster)

    for number, line in enumerate(BEGINNING):
        await killed(line, later=BEGINNING[number + 1 :])
    for line in ENDING:
        await killed(line, first=import_all if line is ENDING[0] else None)
    async with workers.process(tmp_path, text, token):
        await workers.nothing_left()
    assert workers.refused() == []
    for kind, count in (("/statefulsets", 2), ("/services", 2), ("/configmaps", 1)):
        answers = [seen.status for seen in Write("POST", kind).seen(workers.proxy)]
        assert answers.count(HTTPStatus.CREATED) == count


@asynccontextmanager
async def held(
    proxy: FaultProxy, line: Line, when: str, later: Sequence[Line]
) -> AsyncIterator[Callable[[], Awaitable[bool]]]:
    """The writes of the line are held `before` the server hears of them, or `after` it has done them.

    Those of later lines are held before. Gives a condition: all of the line are there.
    """
    never = asyncio.Event()
    earlier = [len(write.seen(proxy)) for write in line]
    rules = [write.inject(proxy, Hold(before=never) if when == "before" else Hold(after=never)) for write in line]
    rules += [write.inject(proxy, Hold(before=never)) for each in later for write in each]

    async def reached() -> bool:
        seen = [write.seen(proxy)[skipped:] for write, skipped in zip(line, earlier, strict=True)]
        there = [[each for each in found if when == "before" or each.status is not None] for found in seen]
        return all(len(found) >= write.times for found, write in zip(there, line, strict=True))

    yield reached
    for rule in rules:
        proxy.withdraw(rule)
