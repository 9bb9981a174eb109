"""The embedded cluster as one thing: storage, server, network, faults and the controllers that always run.

    async with Cluster(seed=7) as cluster:
        cluster.create(objects.node("a", zone="z1"))
        client = Client(cluster.access(), ...)

It lives on the running event loop: on a `time.SimulatedLoop` its wall clock follows the loop's time.
"""

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from aiohttp import web

from ebbtide.clock import Clock, SystemClock
from ebbtide.kube.access import Access
from ebbtide.sim import kinds
from ebbtide.sim.api import ApiServer
from ebbtide.sim.budgets import BudgetStatus
from ebbtide.sim.collector import Collector
from ebbtide.sim.faults import Faults
from ebbtide.sim.storage import Storage, Write
from ebbtide.sim.stored import Object
from ebbtide.sim.time import SimulatedClock, SimulatedLoop
from ebbtide.sim.wire import FOR_EVER, Wire

# Nothing looks this name up: the connector of `access` leads into memory whatever the URL says.
SERVER: Final = "https://cluster.embedded:6443"
_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_WITH_STATUS: Final = Write(keep_status=True)


class Cluster:
    """An async context manager. `seed` decides UIDs, generated names, random faults and the length of watches.

    Attributes: `clock`, `storage` (for actors and tests that look behind the server), `api`, `wire` (the network),
    `faults`.
    """

    def __init__(self, *, seed: int = 0, clock: Clock | None = None, window: int = 10_000) -> None:
        self.clock = clock or _clock(asyncio.get_running_loop())
        self.storage = Storage(self.clock, seed=seed, window=window)
        self.faults = Faults(seed)
        self.api = ApiServer(self.storage, self.faults, seed=seed)
        self._server = web.Server(
            self.api.handle, handler_cancellation=True, keepalive_timeout=FOR_EVER, access_log=None
        )
        self.wire = Wire(self._server)
        self._runners: list[web.ServerRunner] = []
        for namespace in _NAMESPACES:
            self.storage.create(kinds.NAMESPACES, {"metadata": {"name": namespace}})
        self._controllers = (Collector(self.storage), BudgetStatus(self.storage))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def access(self, user_agent: str = "") -> Access:
        """How a client reaches this cluster, through memory."""

        async def headers() -> Mapping[str, str]:
            return {"User-Agent": user_agent} if user_agent else {}

        return Access(
            server=SERVER,
            connector=self.wire.connector,
            headers=headers,
            namespace="default",
            identity="embedded cluster",
        )

    async def serve(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """Listens on a real socket too, until the cluster is closed; returns the URL. Port 0 is any free one."""
        runner = web.ServerRunner(self._server)
        await runner.setup()
        self._runners.append(runner)
        site = web.TCPSite(runner, host, port)
        await site.start()
        bound_host, bound_port = runner.addresses[0][:2]
        return f"http://{bound_host}:{bound_port}"

    def create(self, *bodies: Object) -> list[Object]:
        """Puts objects there as they are, with their status; the kind is that of each body. Raises Refusals."""
        return [self.storage.create(_kind(body), body, _WITH_STATUS) for body in bodies]

    async def close(self) -> None:
        """Stops the controllers, breaks all connections and waits for the requests to end."""
        for controller in self._controllers:
            controller.close()
        self.wire.refusing = True
        self.wire.reset()
        for runner in self._runners:
            await runner.cleanup()
        await self._server.shutdown(1.0)


def _clock(loop: asyncio.AbstractEventLoop) -> Clock:
    return SimulatedClock(loop) if isinstance(loop, SimulatedLoop) else SystemClock()


def _kind(body: Object) -> kinds.Kind:
    kind = kinds.kind_of(body.get("apiVersion", ""), body.get("kind", ""))
    if kind is None:
        raise ValueError(f"the embedded cluster does not serve {body.get('apiVersion')} {body.get('kind')}")
    return kind
