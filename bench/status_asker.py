"""Asks a thousand workers for their tasks as the leader does, or as plainly as can be, and tells how that went.

`python -m bench.status_asker API-SERVER PORT bare|rounds SECONDS` prints one line of JSON for its first round, and one
for what the last answers were like during the seconds after it. Workers listen on that port of their pods' addresses.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import aiohttp
from prometheus_client import CollectorRegistry

from bench.resources import cpu_seconds, peak_mb, resident_mb
from ebbtide.clock import SystemClock
from ebbtide.config.scaler import WorkerScaler
from ebbtide.kube.access import from_url
from ebbtide.kube.client import Client
from ebbtide.service.connection import StoreAges
from reconciler.engine.beside import running
from reconciler.engine.context import sockets
from reconciler.scaler.pods import WorkerPod
from reconciler.scaler.report import StatusReport
from reconciler.scaler.status.ask import Workers
from reconciler.scaler.status.book import Book
from reconciler.scaler.status.clusters import Clusters
from reconciler.scaler.status.rounds import AT_ONCE, Rounds
from reconciler.scaler.stores import Stores
from reconciler.scaler.task import read_states

CLUSTER = 7
_LOOK_EVERY = 0.01


def tell(**figures: Any) -> None:
    print(json.dumps(figures), flush=True)


async def until(holds: Callable[[], bool]) -> None:
    """Looks a hundred times a second."""
    loop = asyncio.get_running_loop()
    reached = loop.create_future()

    def look() -> None:
        if holds():
            reached.set_result(None)
        else:
            loop.call_later(_LOOK_EVERY, look)

    look()
    await reached


def heard(book: Book, pods: list[WorkerPod]) -> bool:
    """Whether every worker has answered, or has not."""
    return all(book.last(pod.uid) or book.failing_since(pod.uid) is not None for pod in pods)


async def rounds(settings: WorkerScaler, stores: Stores, seconds: float) -> None:
    """The product's own way."""
    clock, pid, registry = SystemClock(), os.getpid(), CollectorRegistry()
    workers = Workers(settings, sockets)
    book = Book(stores, clock, workers.ask)
    asking = Rounds(settings, stores, book, Clusters(settings.cluster_id, stores), StatusReport(registry))
    pods = list(stores.pods.values())
    begun, idle, used = clock.monotonic(), resident_mb(pid), cpu_seconds(pid)
    async with running((workers, asking)):
        await until(lambda: heard(book, pods))
        tell(took=clock.monotonic() - begun, cpu=cpu_seconds(pid) - used, above_idle=peak_mb(pid) - idle)
        used, end, oldest, answers = cpu_seconds(pid), clock.monotonic() + seconds, 0.0, []
        while clock.monotonic() < end:
            answers = [answer for pod in pods if (answer := book.last(pod.uid)) is not None]
            oldest = max(oldest, *(clock.monotonic() - answer.at for answer in answers))
            await asyncio.sleep(0.1)
        cpu = (cpu_seconds(pid) - used) / seconds
        tell(oldest=oldest, answered=len(answers), cpu=cpu, above_idle=peak_mb(pid) - idle)


async def bare(settings: WorkerScaler, stores: Stores) -> None:
    """One round with nothing but a client: as many at once, the same deadline."""
    clock, pid = SystemClock(), os.getpid()
    pods, free = list(stores.pods.values()), asyncio.Semaphore(AT_ONCE)
    timeout = aiohttp.ClientTimeout(total=settings.status_timeout)
    begun, idle, used = clock.monotonic(), resident_mb(pid), cpu_seconds(pid)

    async def ask(session: aiohttp.ClientSession, pod: WorkerPod) -> bool:
        url = f"http://{pod.ip}:{settings.worker_port}/load_data?cluster_id={CLUSTER}"
        async with free:
            try:
                async with session.get(url) as answer:
                    return bool(read_states(await answer.read()))
            except (TimeoutError, aiohttp.ClientError):
                return False

    async with aiohttp.ClientSession(connector=sockets(), timeout=timeout) as session:
        answered = sum(await asyncio.gather(*(ask(session, pod) for pod in pods)))
    took = clock.monotonic() - begun
    tell(took=took, cpu=cpu_seconds(pid) - used, above_idle=peak_mb(pid) - idle, answered=answered)


async def main(server: str, port: str, how: str, seconds: str) -> None:
    settings = WorkerScaler.model_validate({"run": True, "cluster-id": CLUSTER, "worker-port": int(port)})
    async with Client(from_url(server), field_manager="bench", user_agent="bench") as client:
        stores = Stores(client, settings.namespace, StoreAges(CollectorRegistry()))
        async with running(stores.watches):
            await until(lambda: not stores.unknown)
            if how == "bare":
                await bare(settings, stores)
            else:
                await rounds(settings, stores, float(seconds))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
