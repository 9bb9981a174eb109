"""The clients of a history: each imports one task; whoever runs it starts it anew when it has failed or is stuck."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from ebbtide.sim.loaders.floor import PORT
from ebbtide.sim.wire import Network, Wire
from tests.doubles.client import Client, ImportFailedError
from tests.simulation.loads.laws import Laws
from tests.simulation.stage import Replica, Stage

CLUSTER: Final = 7
ENTRANCE: Final = "load-data"
# Seconds after which a user notices that the address at which an import asks is no more, and begins it anew.
_NOTICED: Final = 20.0
_HANGS_UP: Final = aiohttp.ClientTimeout(total=150.0)


class Entrance(Network):
    """The network as clients see it: one name leads to any of the replicas that run, the others as they do."""

    def __init__(self, stage: Stage, rng: Random) -> None:
        super().__init__()
        self._stage = stage
        self._rng = rng

    def find(self, host: str, port: int) -> Wire:
        """Raises OSError."""
        return self._stage.network.find(self._any() if host == ENTRANCE else host, port)

    def _any(self) -> str:
        running = sorted({replica.name for replica in self._stage.replicas if runs(replica)})
        if not running:
            raise ConnectionRefusedError("no replica is ready")
        return self._rng.choice(running)


def runs(replica: Replica) -> bool:
    return not replica.killed and not replica.task.done()


class Import:
    """One task and its client, which has one life at a time."""

    def __init__(self, laws: Laws, entrance: Entrance, rng: Random, task: str, size: int) -> None:
        self.task = task
        self.size = size
        self.abandoned = False
        self._laws = laws
        self._entrance = entrance
        self._rng = rng
        self._client: Client | None = None
        self._life = asyncio.ensure_future(self._live(known=False))
        self._watch = asyncio.ensure_future(self._watched())

    @property
    def done(self) -> bool:
        return self._life.done()

    async def restart(self) -> None:
        """The program that imports is started anew."""
        if not self.done and not self.abandoned:
            await _ended(self._life)
            self._life = asyncio.ensure_future(self._live(known=True))

    async def abandon(self) -> None:
        """It dies, and nobody starts it again."""
        self.abandoned = True
        await _ended(self._life)

    async def close(self) -> None:
        await _ended(self._watch)
        await _ended(self._life)
        if not self._life.cancelled() and (error := self._life.exception()) is not None:
            raise error

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """One more process that is concerned with this task."""
        connector = self._entrance.connector()
        async with aiohttp.ClientSession(
            connector=connector, trace_configs=[self._laws.ear()], timeout=_HANGS_UP
        ) as session:
            yield Client(session, f"http://{ENTRANCE}:{PORT}", self.task, CLUSTER, self.size)

    async def _live(self, *, known: bool) -> None:
        while self.task not in self._laws.cancelled:
            async with self.client() as client:
                self._client = client
                try:
                    await self._import(client, known=known)
                except ImportFailedError as error:
                    if self.task not in self._laws.cancelled and self._laws.running_at(self.task):
                        self._laws.break_(f"answers: {self.task} runs, and its client at {client.base} ends: {error}")
                    known = False
                    await asyncio.sleep(self._rng.uniform(1.0, 10.0))
                else:
                    return

    async def _import(self, client: Client, *, known: bool) -> None:
        """Raises ImportFailedError."""
        if known:
            await client.restart()
        else:
            await client.init()
        for chunk in range(self._rng.randint(1, 4)):
            await client.write(1, chunk, b"rows")
            await asyncio.sleep(self._rng.uniform(0.0, 25.0))
        await client.flush(1)
        await client.build()
        await client.finished()

    async def _watched(self) -> None:
        """Somebody looks after it: one that asks at an address that is gone for good is begun anew."""
        gone = 0.0
        while True:
            await asyncio.sleep(5.0)
            gone = 0.0 if self.done or self._leads_somewhere() else gone + 5.0
            if gone >= _NOTICED:
                await self.restart()

    def _leads_somewhere(self) -> bool:
        asks_at = "" if self._client is None else self._client.base
        try:
            self._entrance.find(urlsplit(asks_at).hostname or ENTRANCE, PORT)
        except OSError:
            return False
        return True


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await task
