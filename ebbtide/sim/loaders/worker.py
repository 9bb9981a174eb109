"""One worker process: what a real one answers to each request of the load-data protocol.

It is an HTTP handler; `accept` is what a memory network wants of it.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import orjson
from aiohttp import web

from ebbtide.sim.loaders.tasks import TaskEntry, TaskNumber, numbers
from ebbtide.sim.wire import FOR_EVER

PATH: Final = "/load_data"
CLUSTER: Final = 7


class LoadWorker:
    """A worker of one cluster. `tasks` are those that it knows, by the numbers of their ids.

    Tasks that have ended stay listed until its own collection takes them, `collect_after` seconds later; None: never.
    """

    def __init__(self, cluster: int = CLUSTER, *, collect_after: float | None = None) -> None:
        self.cluster = cluster
        self.collect_after = collect_after
        self.tasks: dict[tuple[int, int, int, int], TaskEntry] = {}
        self._server: web.Server | None = None

    @property
    def running(self) -> int:
        """How many of its tasks have not ended."""
        return sum(entry.running for entry in self.tasks.values())

    # --- what happens to it ------------------------------------------------------------------------------------

    def begin(self, *tasks: str) -> None:
        """Tasks that it runs, as if clients had begun them."""
        for task in tasks:
            number = TaskNumber.parse(task)
            self.tasks[number] = TaskEntry(number)

    def progress(self, task: str) -> None:
        """Something has moved."""
        entry = self.tasks[TaskNumber.parse(task)]
        self.tasks[entry.task] = replace(entry, counts=tuple(count + 1 for count in entry.counts))

    def finish(self, *tasks: str) -> None:
        for task in tasks:
            self._end(TaskNumber.parse(task), canceled=False)

    def cancel(self, *tasks: str) -> None:
        for task in tasks:
            self._end(TaskNumber.parse(task), canceled=True)

    # --- where it is -------------------------------------------------------------------------------------------

    def accept(self) -> asyncio.Protocol:
        """The server's end of a new connection."""
        if self._server is None:
            # Measured by the loop's time, in which rounding may have the end of a connection come again and again.
            self._server = web.Server(self, handler_cancellation=True, keepalive_timeout=FOR_EVER, access_log=None)
        return self._server()

    async def close(self) -> None:
        """Ends what `accept` has begun."""
        if self._server is not None:
            await self._server.shutdown(0.1)

    # --- what it answers ---------------------------------------------------------------------------------------

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        await request.read()
        return self.answer(request)

    def answer(self, request: web.BaseRequest) -> web.Response:
        """To a request that has arrived as a whole."""
        query = dict(request.query)
        self._collect()
        if request.path != PATH:
            return _no("no such path", 404)
        if query.get("cluster_id") != str(self.cluster):
            return _no("cluster id mismatch", 400)
        try:
            return self._answer(request.method, query)
        except ValueError:
            return _no("bad task id", 400)

    def _answer(self, method: str, query: Mapping[str, str]) -> web.Response:
        """Raises ValueError for a bad id."""
        if method == "DELETE" and "task_id_prefix" in query:
            return self._delete_all(query["task_id_prefix"])
        if method == "GET" and "task_id" not in query:
            return _json([entry.document() for entry in self.tasks.values()])
        task = TaskNumber.parse(query.get("task_id", ""))
        match method:
            case "GET":
                return self._state(task)
            case "DELETE":
                return self._delete(task)
            case "PUT":
                return self._work(task) or self._state(task)
            case "POST":
                return self._post(task, query)
        return _no("method not allowed", 405)

    def _state(self, task: TaskNumber) -> web.Response:
        entry = self.tasks.get(task)
        return _no("task not found", 404) if entry is None else _json(entry.document())

    def _delete(self, task: TaskNumber) -> web.Response:
        if task not in self.tasks:
            return _no("task not found", 404)
        self._end(task, canceled=True)
        return web.Response()

    def _delete_all(self, prefix: str) -> web.Response:
        beginning = numbers(prefix)
        for entry in list(self.tasks.values()):
            if entry.task[: len(beginning)] == beginning:
                self._end(entry.task, canceled=True)
        return web.Response()

    def _post(self, task: TaskNumber, query: Mapping[str, str]) -> web.Response:
        if query.get("flush") == "true":
            return self._work(task) or self._state(task)
        if query.get("build") == "true":
            refusal = self._work(task)
            if refusal is None:
                self._end(task, canceled=False)
            return refusal or web.Response()
        return self.init(task)

    def init(self, task: TaskNumber) -> web.Response:
        """A client wants to begin a task here."""
        if task in self.tasks:
            return _no("task exists", 400)
        self.begin(str(task))
        return web.Response()

    def _work(self, task: TaskNumber) -> web.Response | None:
        """A sign of life of a task; what is said when that is not possible."""
        entry = self.tasks.get(task)
        if entry is None:
            return _no("task not found", 404)
        if not entry.running:
            return _no("task is over", 400)
        self.progress(str(task))
        return None

    def _end(self, task: TaskNumber, *, canceled: bool) -> None:
        entry = self.tasks[task]
        ended_at = asyncio.get_running_loop().time() if entry.ended_at is None else entry.ended_at
        self.tasks[task] = replace(
            entry,
            canceled=canceled or entry.canceled,
            finished=not canceled or entry.finished,
            ended_at=ended_at,
        )
        self._collect()

    def _collect(self) -> None:
        if self.collect_after is None:
            return
        until = asyncio.get_running_loop().time() - self.collect_after
        for entry in list(self.tasks.values()):
            if entry.ended_at is not None and entry.ended_at <= until:
                del self.tasks[entry.task]


def _json(document: Any) -> web.Response:
    return web.Response(body=orjson.dumps(document), content_type="application/json")


def _no(words: str, status: int) -> web.Response:
    return web.Response(status=status, text=words)
