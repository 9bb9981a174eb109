"""A double of a worker: what a real one answers to each request, and the moods that real ones have.

It is an HTTP handler. `listening` puts it on a socket, `accept` is what a memory network wants; both at once will do.

    async with Worker().listening("127.0.0.7", 19500) as worker:
        worker.begin("1-170-139-0")
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final, Self

import orjson
from aiohttp import web

from ebbtide.sim.wire import FOR_EVER
from reconciler.scaler.task import TaskId, TaskPrefix, TaskState, write_states

PATH: Final = "/load_data"
CLUSTER: Final = 7
# The sum of what a client has sent, in the units that it counts itself.
_COUNTERS: Final = 5


@dataclass(frozen=True)
class Taken:
    """A request as it arrived."""

    method: str
    query: Mapping[str, str]


class Worker:
    """One worker process of one cluster. Its tasks stay listed when they have ended unless it `collects`.

    Moods, to be set at any time: `delay` seconds pass before each answer; `silent` never answers; `full` takes no
    further task (503); `refusing` is a status that everything is answered with; `mute` is a body that the list is
    answered with instead of the tasks. `taken` are all requests so far.
    """

    def __init__(self, cluster: int = CLUSTER, *, collects: bool = False) -> None:
        self.cluster = cluster
        self.collects = collects
        self.delay = 0.0
        self.silent = False
        self.full = False
        self.refusing = 0
        self.mute: bytes | None = None
        self.taken: list[Taken] = []
        self.tasks: dict[TaskId, TaskState] = {}
        self._server: web.Server | None = None

    # --- what happens to it ------------------------------------------------------------------------------------

    def begin(self, *tasks: str) -> None:
        """Tasks that it runs, as if clients had begun them."""
        for task in tasks:
            self.tasks[TaskId.parse(task)] = TaskState(TaskId.parse(task), progress=(0,) * _COUNTERS)

    def progress(self, task: str) -> None:
        """Something has moved."""
        state = self.tasks[TaskId.parse(task)]
        self.tasks[state.task] = replace(state, progress=tuple(count + 1 for count in state.progress))

    def finish(self, *tasks: str) -> None:
        for task in tasks:
            self._end(TaskId.parse(task), canceled=False)

    def cancel(self, *tasks: str) -> None:
        for task in tasks:
            self._end(TaskId.parse(task), canceled=True)

    def fail(self, task: str, error: str) -> None:
        """An error, which does not end the task by itself."""
        state = self.tasks[TaskId.parse(task)]
        self.tasks[state.task] = replace(state, error=error)

    def lose(self, *tasks: str) -> None:
        """It does not know them any more."""
        for task in tasks:
            self.tasks.pop(TaskId.parse(task), None)

    def restart(self, *, keeps: bool = False) -> None:
        """Its process begins anew, without its tasks unless it `keeps` them on its disk."""
        if not keeps:
            self.tasks.clear()

    # --- where it is -------------------------------------------------------------------------------------------

    def accept(self) -> asyncio.Protocol:
        """The server's end of a new connection."""
        if self._server is None:
            # Measured by the loop's time, in which rounding may have the end of a connection come again and again.
            self._server = web.Server(self, handler_cancellation=True, keepalive_timeout=FOR_EVER, access_log=None)
        return self._server()

    @asynccontextmanager
    async def listening(self, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[Self]:
        """On a real socket; `self.port` is the port. All connections break in the end."""
        runner = web.ServerRunner(web.Server(self, handler_cancellation=True, access_log=None), shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
            self.port = int(runner.addresses[0][1])
            yield self
        finally:
            await runner.cleanup()

    async def close(self) -> None:
        """Ends what `accept` has begun."""
        if self._server is not None:
            await self._server.shutdown(0.1)

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
        if request.path != PATH:
            return _no("no such path", 404)
        if query.get("cluster_id") != str(self.cluster):
            return _no("cluster id mismatch", 400)
        return self._answer(request.method, query)

    def _answer(self, method: str, query: Mapping[str, str]) -> web.Response:
        if method == "DELETE" and "task_id_prefix" in query:
            return self._delete_all(query["task_id_prefix"])
        if method == "GET" and "task_id" not in query:
            return self._list()
        try:
            task = TaskId.parse(query.get("task_id", ""))
        except ValueError:
            return _no("bad task id", 400)
        match method:
            case "GET":
                return self._state(task)
            case "DELETE":
                return self._delete(task)
            case "PUT":
                return self._write(task)
            case "POST":
                return self._post(task, query)
        return _no("method not allowed", 405)

    def _list(self) -> web.Response:
        return _json(self.mute if self.mute is not None else orjson.dumps(write_states(list(self.tasks.values()))))

    def _state(self, task: TaskId) -> web.Response:
        state = self.tasks.get(task)
        return _no("task not found", 404) if state is None else _json(orjson.dumps(write_states([state])[0]))

    def _delete(self, task: TaskId) -> web.Response:
        if task not in self.tasks:
            return _no("task not found", 404)
        self._end(task, canceled=True)
        return web.Response()

    def _delete_all(self, prefix: str) -> web.Response:
        within = TaskPrefix.parse(prefix)
        for task in [task for task in self.tasks if task.within(within)]:
            self._end(task, canceled=True)
        return web.Response()

    def _write(self, task: TaskId) -> web.Response:
        return self._work(task) or self._state(task)

    def _post(self, task: TaskId, query: Mapping[str, str]) -> web.Response:
        if query.get("flush") == "true":
            return self._work(task) or self._state(task)
        if query.get("build") == "true":
            refusal = self._work(task)
            if refusal is None:
                self._end(task, canceled=False)
            return refusal or web.Response()
        return self._init(task)

    def _init(self, task: TaskId) -> web.Response:
        if task in self.tasks:
            return _no("task exists", 400)
        if self.full:
            return _no("no room", 503)
        self.begin(str(task))
        return web.Response()

    def _work(self, task: TaskId) -> web.Response | None:
        """A sign of life of a task; what is said when that is not possible."""
        state = self.tasks.get(task)
        if state is None:
            return _no("task not found", 404)
        if not state.running:
            return _no("task is over", 400)
        self.progress(str(task))
        return None

    def _end(self, task: TaskId, *, canceled: bool) -> None:
        state = self.tasks[task]
        self.tasks[task] = replace(state, canceled=canceled or state.canceled, finished=not canceled or state.finished)
        if self.collects:
            del self.tasks[task]


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


def _no(words: str, status: int) -> web.Response:
    return web.Response(status=status, text=words)
