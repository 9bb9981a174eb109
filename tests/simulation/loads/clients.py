"""What clients do, one random deed at a time: they import, die and are started anew; others ask, cancel and go astray.

Each method returns what happened in words, "" when there is no place for it now.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Final

import aiohttp

from ebbtide.sim.loaders.floor import PORT
from tests.doubles.client import ImportFailedError
from tests.simulation.loads.course import Course
from tests.simulation.loads.imports import CLUSTER, ENTRANCE, Entrance, Import, runs

MOST_IMPORTS: Final = 14
_SIZES: Final = (0, 1 << 20, 1 << 20, 1 << 30, 3 << 30, 12 << 30)


class Clients:
    """All of them."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._entrance = Entrance(course.stage, Random(course.rng.random()))
        self.imports: list[Import] = []

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in self.imports))

    def begin(self) -> str:
        number = len(self.imports)
        if number >= MOST_IMPORTS:
            return ""
        task, size = (
            f"{number % 3 + 1}-170-{number}-{self._course.rng.choice([0, -1])}",
            self._course.rng.choice(_SIZES),
        )
        self.imports.append(Import(self._course.laws, self._entrance, Random(self._course.rng.random()), task, size))
        return f"import of {task}, {size} bytes"

    def _some(self, holds: Callable[[Import], object] = lambda _: True) -> Import | None:
        found = [each for each in self.imports if holds(each)]
        return self._course.rng.choice(found) if found else None

    async def restart(self) -> str:
        found = self._some(lambda each: not each.done)
        if found is None:
            return ""
        await found.restart()
        return f"the client of {found.task} is started anew"

    async def abandon(self) -> str:
        found = self._some(lambda each: not each.done)
        if found is None:
            return ""
        await found.abandon()
        return f"the client of {found.task} dies"

    def ask_again(self) -> str:
        """Another process asks for a task that runs: both kinds of requests that lead to it, once or for a while."""
        found = self._some(lambda each: self._course.laws.running_at(each.task))
        if found is None:
            return ""
        times = self._course.rng.choice([1, 60])

        async def ask() -> None:
            async with found.client() as client:
                client.tries, client.pause = 1, 0.3
                for request in (*[client.exists] * times, client.init):
                    client.base = client.front
                    # What is wrong with an answer is heard by the laws.
                    with suppress(ImportFailedError):
                        await request()
                    await asyncio.sleep(0.3)

        self._course.aside(ask())
        return f"another asks {times} times for {found.task}"

    def cancel(self) -> str:
        found = self._some()
        if found is None:
            return ""
        self._course.laws.cancelled.add(found.task)
        self._course.aside(self._once(ENTRANCE, "DELETE", task_id=found.task))
        return f"{found.task} is cancelled"

    def cancel_all(self) -> str:
        prefix = str(self._course.rng.randint(1, 4))
        self._course.laws.cancelled.update(each.task for each in self.imports if each.task.startswith(f"{prefix}-"))
        self._course.aside(self._once(ENTRANCE, "DELETE", task_id_prefix=prefix))
        return f"all of keyspace {prefix} are cancelled"

    def stray(self) -> str:
        """What belongs to a worker comes to a front, or a list is wanted."""
        running = [replica.name for replica in self._course.stage.replicas if runs(replica)]
        found = self._some()
        if found is None:
            return ""
        host = self._course.rng.choice([ENTRANCE, *running])
        method, more = self._course.rng.choice(
            [
                ("PUT", {"writer_id": "1", "chunk_id": "1"}),
                ("POST", {"writer_id": "1", "flush": "true"}),
                ("POST", {"build": "true"}),
                ("GET", {}),
            ]
        )
        query = more if method == "GET" else {"task_id": found.task, **more}
        self._course.aside(self._once(host, method, **query))
        return f"{method} {more} at {host}"

    async def _once(self, host: str, method: str, **query: str) -> None:
        """One request, which nobody repeats."""
        timeout = aiohttp.ClientTimeout(total=100.0)
        async with aiohttp.ClientSession(
            connector=self._entrance.connector(), trace_configs=[self._course.laws.ear()], timeout=timeout
        ) as session:
            url = f"http://{host}:{PORT}/load_data"
            try:
                await session.request(method, url, params={"cluster_id": str(CLUSTER), **query}, allow_redirects=False)
            except (aiohttp.ClientError, OSError):
                return
