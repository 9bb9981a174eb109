"""Thousands of messages for a real reconciler: a process of its own, an embedded cluster, a server of queues.

moto looks at every message of a queue in every request: its queue is kept filled, and never deep. One that is deep from
the start is a simpler one.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.resources import resident_mb
from bench.setting import running
from ebbtide.kube.client import Client
from ebbtide.kube.resources import NODES
from ebbtide.model import CellLabels, node_facts
from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.kinds import NODES as KIND_OF_NODES
from ebbtide.sim.stored import Object
from ebbtide.vocabulary import SIGNAL_TAINT_KEY
from reconciler.signals.envelope import MalformedError, read
from tests.controlplane.program import Process, scrape
from tests.controlplane.world import wait_until
from tests.reconciler.signals.deep import deep_queue
from tests.reconciler.signals.sqs import CREDENTIALS, REGION, QueueOfTest, new_queue, one_by_one, rebalance

# One of so many messages is garbage.
GARBAGE_EVERY = 100
# So many messages are in the queue at most while it is filled.
_DEEP = 200
_PORTION = 50
# How often poison is handed out before the queue puts it aside.
_RECEIPTS = 3
# Seconds after which the deep queue hands out what was not deleted.
_COMES_AGAIN = 5.0
_WITHIN = 1800.0


@dataclass(frozen=True)
class Outcome:
    """`seconds` until the last valid message was told; `untold` are nodes without their signal, `told_twice` with two.

    `dead` is what the queue has put aside. `memory` is the reconciler's, in MB, from before the burst on.
    """

    seconds: float
    untold: int
    told_twice: int
    dead: int
    memory: tuple[float, ...]


@dataclass(frozen=True)
class DeepOutcome:
    """`too_early` are messages that were deleted while their node had no signal; the others as in `Outcome`. `memory`
    has a number per hundred messages, or about."""

    untold: int
    told_twice: int
    too_early: int
    dead: int
    memory: tuple[float, ...]


def bodies(count: int, instances: int | None = None) -> list[str]:
    """Messages for so many instances (one each without a number), but for those that are garbage."""
    return [_garbage(at) if at % GARBAGE_EVERY == 0 else rebalance(_instance(at, instances)) for at in range(count)]


def _instance(at: int, instances: int | None = None) -> str:
    return f"i-{at % instances if instances else at:017x}"


def _garbage(at: int) -> str:
    kinds = ("not even JSON", "{}", json.dumps({"detail-type": "EC2 Instance Rebalance Recommendation"}), "[1]")
    return kinds[at // GARBAGE_EVERY % len(kinds)]


async def burst(server: str, count: int, folder: Path) -> Outcome:
    """All of it, until every message is gone from the queue, one way or the other."""
    async with (
        one_by_one(server) as way,
        Cluster(seed=1) as cluster,
        new_queue(way, visibility=10, redrive_after=_RECEIPTS) as queue,
    ):
        valid = [at for at in range(count) if at % GARBAGE_EVERY]
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ebbtide-system"}})
        cluster.create(*(_node(at) for at in valid))
        async with _reconciler(await cluster.serve(), queue.url, folder) as (process, url):
            loop = asyncio.get_running_loop()
            memory = [resident_mb(process.process.pid)]
            begun = loop.time()
            await fill(queue, bodies(count), lambda: memory.append(resident_mb(process.process.pid)))
            await wait_until(partial(_stored, url, len(valid)), "all valid messages are told", seconds=_WITHIN)
            seconds = loop.time() - begun
            await queue.emptied()
            memory.append(resident_mb(process.process.pid))
        assert queue.dead is not None
        untold, twice = await _nodes(cluster, len(valid))
        return Outcome(seconds, untold, twice, await queue.dead.depth(), tuple(memory))


async def deep_burst(count: int, folder: Path, instances: int | None = None) -> DeepOutcome:
    """All messages are there before the first one is read, until every one is gone, one way or the other.

    They are about so many instances; without a number each is about one of its own.
    """
    valid = sorted({at % (instances or count) for at in range(count) if at % GARBAGE_EVERY})
    names = {_instance(at): f"n{at}" for at in valid}
    early: list[str] = []
    async with Cluster(seed=1) as cluster:

        def deleting(body: str) -> None:
            node = cluster.storage.get(KIND_OF_NODES, names[_told(body)])
            if all(taint["key"] != SIGNAL_TAINT_KEY for taint in node["spec"].get("taints") or ()):
                early.append(body)

        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ebbtide-system"}})
        cluster.create(*(_node(at) for at in valid))
        async with deep_queue(deleting, visibility=_COMES_AGAIN, redrive_after=_RECEIPTS) as queue:
            queue.put(bodies(count, instances))
            memory: list[float] = []
            async with _reconciler(await cluster.serve(), queue.url, folder) as (process, _):

                async def emptied() -> bool:
                    if queue.deleted // 100 >= len(memory):
                        memory.append(resident_mb(process.process.pid))
                    return not queue.depth()

                await wait_until(emptied, "the queue is empty", seconds=_WITHIN)
                memory.append(resident_mb(process.process.pid))
        untold, twice = await _nodes(cluster, len(valid))
        return DeepOutcome(untold, twice, len(early), len(queue.dead), tuple(memory))


def _told(body: str) -> str:
    """The instance that a message is about. Raises AssertionError for garbage: that is never deleted by its reader."""
    try:
        told = read(body)
    except MalformedError as error:
        raise AssertionError(f"garbage is deleted: {body}") from error
    assert told is not None, body
    return told.instance


async def fill(queue: QueueOfTest, messages: list[str], look: Callable[[], None]) -> None:
    """Sends them in portions, each when the queue is not deep; looks at something after each."""

    async def shallow() -> bool:
        return await queue.depth() < _DEEP

    for at in range(0, len(messages), _PORTION):
        await wait_until(shallow, "the queue is read", seconds=_WITHIN)
        await queue.send(*messages[at : at + _PORTION])
        look()


async def _stored(url: str, count: int) -> bool:
    return (await scrape(url)).value("signals_messages_total", result="stored") == count


async def _nodes(cluster: Cluster, count: int) -> tuple[int, int]:
    told = twice = 0
    async with Client(cluster.access(), field_manager="tests", user_agent="tests") as client:
        async for raw in client.list(NODES):
            taints = [taint for taint in node_facts(raw, CellLabels()).taints if taint.key == SIGNAL_TAINT_KEY]
            told += bool(taints)
            twice += len(taints) > 1
    return count - told, twice


def _node(at: int) -> Object:
    return objects.changed(objects.node(f"n{at}"), {"spec": {"providerID": f"aws:///a/{_instance(at)}"}})


@asynccontextmanager
async def _reconciler(server: str, queue: str, folder: Path) -> AsyncIterator[tuple[Process, str]]:
    """One that reads the queue and does nothing else, and the URL of its metrics."""
    (folder / "ebbtide.toml").write_text(
        f'[node-rebalance]\nrun = false\n[worker-scaler]\nrun = false\n[certs]\nmode = "files"\n'
        f'[signals.sqs]\nqueue-url = "{queue}"\nregion = "{REGION}"\n[observability]\nlisten = "127.0.0.1:0"\n'
    )
    (folder / "kubeconfig").write_text(
        "{apiVersion: v1, kind: Config, current-context: t, contexts: [{name: t, context: {cluster: t, user: t}}],"
        f' clusters: [{{name: t, cluster: {{server: "{server}"}}}}], users: [{{name: t, user: {{token: x}}}}]}}'
    )
    flags = ("--config", str(folder / "ebbtide.toml"), "--kubeconfig", str(folder / "kubeconfig"))
    async with running("-m", "reconciler", *flags, "--log-format", "json", **CREDENTIALS) as process:
        url = await process.serving()

        async def reads() -> bool:
            return (await scrape(url)).value("ebbtide_leader") == 1

        await wait_until(reads, "the reconciler leads", seconds=_WITHIN)
        yield process, url
