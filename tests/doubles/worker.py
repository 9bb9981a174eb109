"""A double of a worker: the one of the embedded cluster, on a socket where wanted, with the moods that real ones have.

async with Worker().listening("127.0.0.7", 19500) as worker:
    worker.begin("1-170-139-0")
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Self

from aiohttp import web

from ebbtide.sim.loaders.tasks import TaskNumber
from ebbtide.sim.loaders.worker import CLUSTER, PATH, LoadWorker

# Of the loop, from a connection that is accepted to one that the server knows.
_TURNS = 3

__all__ = ["CLUSTER", "PATH", "Taken", "Worker"]


@dataclass(frozen=True)
class Taken:
    """A request as it arrived."""

    method: str
    query: Mapping[str, str]


class Worker(LoadWorker):
    """One worker process of one cluster. Its tasks stay listed when they have ended unless it `collects`.

    Moods, to be set at any time: `delay` seconds pass before each answer; `silent` never answers; `full` takes no
    further task (503); `refusing` is a status that everything is answered with; `mute` is a body that the list is
    answered with instead of the tasks. `taken` are all requests so far.
    """

    def __init__(self, cluster: int = CLUSTER, *, collects: bool = False) -> None:
        super().__init__(cluster)
        self.collects = collects
        self.delay = 0.0
        self.silent = False
        self.full = False
        self.refusing = 0
        self.mute: bytes | None = None
        self.taken: list[Taken] = []

    @property
    def collects(self) -> bool:
        return self.collect_after is not None

    @collects.setter
    def collects(self, collects: bool) -> None:
        self.collect_after = 0.0 if collects else None

    # --- what happens to it ------------------------------------------------------------------------------------

    def fail(self, task: str, error: str) -> None:
        """An error, which does not end the task by itself."""
        entry = self.tasks[TaskNumber.parse(task)]
        self.tasks[entry.task] = replace(entry, error=error)

    def lose(self, *tasks: str) -> None:
        """It does not know them any more."""
        for task in tasks:
            self.tasks.pop(TaskNumber.parse(task), None)

    def restart(self, *, keeps: bool = False) -> None:
        """Its process begins anew, without its tasks unless it `keeps` them on its disk."""
        if not keeps:
            self.tasks.clear()

    # --- where it is -------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def listening(self, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[Self]:
        """On a real socket; `self.port` is the port. All connections break in the end."""
        runner = web.ServerRunner(web.Server(self, handler_cancellation=True, access_log=None), shutdown_timeout=0.1)
        await runner.setup()
        listening = socket.create_server((host, port))
        try:
            await web.SockSite(runner, listening).start()
            self.port = int(runner.addresses[0][1])
            yield self
            # A server that is closed while it takes somebody in loses that connection (CPython gh-109564): first nobody
            # is taken in any more, and whoever has been is made known.
            asyncio.get_running_loop().remove_reader(listening)
            for _ in range(_TURNS):
                await asyncio.sleep(0)
        finally:
            await runner.cleanup()

    # --- what it answers ---------------------------------------------------------------------------------------

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        await request.read()
        query = dict(request.query)
        self.taken.append(Taken(request.method, query))
        if self.silent:
            await asyncio.get_running_loop().create_future()
        if self.delay:
            await asyncio.sleep(self.delay)
        if self.refusing:
            return web.Response(status=self.refusing, text="not now")
        if self.mute is not None and request.method == "GET" and "task_id" not in query:
            return web.Response(body=self.mute, content_type="application/json")
        return self.answer(request)

    def init(self, task: TaskNumber) -> web.Response:
        if self.full and task not in self.tasks:
            return web.Response(status=503, text="no room")
        return super().init(task)
