"""Several processes on one port, for machines with many cores: each is a whole webhook with watches of its own.

They share the listening socket, so that a connection that waits is taken by whoever is free, and none is lost with a
worker. This process only minds them: when one dies it stops the others in order and fails, and its own health port
speaks for all, with the metrics of each under the label `worker`.
"""

import asyncio
import multiprocessing
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing.context import SpawnProcess
from typing import Final

import aiohttp
from aiohttp import web
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from ebbtide.connecting import words_of
from ebbtide.errors import EbbtideError
from ebbtide.service.listening import bind
from ebbtide.service.metrics import exposition
from ebbtide.service.probes import Health
from ebbtide.service.server import serving
from ebbtide.service.supervisor import Part

_LOOPBACK: Final = "127.0.0.1"
_ANSWERED_WITHIN: Final = aiohttp.ClientTimeout(total=2.0)
_WORKER: Final = "worker"


class WorkerEndedError(EbbtideError):
    """A worker ended although nobody had stopped it; the exit code is its own."""

    def __init__(self, number: int, code: int) -> None:
        super().__init__(f"worker {number} ended with {code}")
        self.exit_code = code if code > 0 else EbbtideError.exit_code  # type: ignore[misc] # that of this failure


@dataclass(frozen=True, slots=True)
class Worker:
    """A process, and where it serves its metrics and probes on loopback."""

    process: SpawnProcess
    health: str


class Workers:
    """`count` processes that run `work(admission socket, health socket)`; `health` is this process's own."""

    def __init__(
        self, count: int, work: Callable[[socket.socket, socket.socket], None], admission: socket.socket, health: Health
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._health = health
        self._workers: list[Worker] = []
        self._stopping = False
        self._failure: WorkerEndedError | None = None
        for _ in range(count):
            probes = bind(_LOOPBACK, 0)
            process = context.Process(target=work, args=(admission, probes), daemon=True)
            self._workers.append(Worker(process, "http://{}:{}".format(*probes.getsockname())))

    def parts(self, listening: socket.socket) -> tuple[Part, ...]:
        """In the order of their start; `listening` is the health port of all."""
        return Part("http", partial(self._serve, listening)), Part("workers", self._run, self._stop)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number, worker in enumerate(self._workers):
                await asyncio.to_thread(worker.process.start)
                group.create_task(self._mind(number, worker.process))
        if self._failure is not None:
            raise self._failure

    def _stop(self) -> None:
        self._stopping = True
        for worker in self._workers:
            if worker.process.is_alive():
                worker.process.terminate()

    async def _mind(self, number: int, process: SpawnProcess) -> None:
        """Until it ends; the others are to end with it."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(process.sentinel, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(process.sentinel)
        process.join()
        if self._failure is None and (not self._stopping or process.exitcode):
            self._failure = WorkerEndedError(number, process.exitcode or 0)
            self._stop()

    # --- speaking for all ----------------------------------------------------------------------------------------

    async def _serve(self, listening: socket.socket) -> None:
        app = web.Application()
        app.add_routes([web.get("/metrics", self._metrics)])
        app.add_routes([web.get(path, self._probe) for path in ("/healthz", "/readyz")])
        async with serving(app, listening):
            await asyncio.get_running_loop().create_future()

    async def _metrics(self, request: web.Request) -> web.Response:
        answers = await self._ask("/metrics")
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Merged([text for status, text in answers if status == 200]))
        body, content_type = exposition(registry, request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _probe(self, request: web.Request) -> web.Response:
        """Well when every worker is; otherwise what each says that is not."""
        own = self._health.liveness()
        bad = [] if own.good else [own.text()]
        for number, (status, text) in enumerate(await self._ask(request.path)):
            if status != 200:
                bad += [f"worker {number}: {line}" for line in text.splitlines()]
        return web.Response(text="\n".join(bad or ["ok"]) + "\n", status=503 if bad else 200)

    async def _ask(self, path: str) -> list[tuple[int, str]]:
        async with aiohttp.ClientSession(timeout=_ANSWERED_WITHIN) as session:
            return await asyncio.gather(*(_get(session, worker.health + path) for worker in self._workers))


async def _get(session: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    try:
        async with session.get(url) as answer:
            return answer.status, await answer.text()
    except (aiohttp.ClientError, TimeoutError) as error:
        return 503, f"no answer: {words_of(error)}"


class _Merged(Collector):
    """The expositions of several processes as one."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = list(texts)

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for number, text in enumerate(self._texts):
            for found in text_string_to_metric_families(text):
                family = families.setdefault(found.name, Metric(found.name, found.documentation, found.type))
                for sample in found.samples:
                    family.add_sample(sample.name, {**sample.labels, _WORKER: str(number)}, sample.value)
        yield from families.values()


def on_parents_end(stop: Callable[[], None]) -> None:
    """In a worker: calls `stop` when the process that minds it is gone; and signals of its terminal are not for it."""
    os.setpgrp()
    parent = multiprocessing.parent_process()
    assert parent is not None
    asyncio.get_running_loop().add_reader(parent.sentinel, stop)
