"""Puts the front together from what the program offers, as a part of the process."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import aiohttp
import structlog
from prometheus_client import CollectorRegistry

from ebbtide.config.scaler import WorkerScaler
from ebbtide.kube.errors import KubeError
from reconciler.scaler.contract import MOST_AT_ONCE, Desk
from reconciler.scaler.front.app import Front
from reconciler.scaler.front.dispatch import Dispatch
from reconciler.scaler.front.follower import Leadership
from reconciler.scaler.front.forward import Forward
from reconciler.scaler.front.query import Rules
from reconciler.scaler.front.report import Report
from reconciler.scaler.front.serving import Connections, accepting

log = structlog.stdlib.get_logger(__name__)

# Another replica takes a lease that was released within a little more than two of its attempts.
_SUCCESSOR_WITHIN: Final = 6.0
_LOOK_EVERY: Final = 0.5
# Clients come again every three seconds: so long it takes until the last of them has passed by, and somewhat longer
# until it is certain that there is none.
_LAST_CALLS: Final = 4.0
_NOBODY_FOR: Final = 10.0
_LAST_ANSWERS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a front stands on. `look` reads the lease once, for a process that has ceased to stand for it."""

    desk: Desk
    leadership: Leadership
    look: Callable[[], Awaitable[None]]
    connect: Callable[[], aiohttp.BaseConnector]
    registry: CollectorRegistry


class Service:
    """The front as a part of the process: `run` serves until `stop`, which it survives by some seconds.

    `leave` is to be called when the process begins to end, `stop` after the election: clients that wait, or come again
    to this very address, are then sent to the next leader rather than left with an address at which nobody will be.
    """

    def __init__(self, rules: WorkerScaler, around: Surroundings, most_at_once: int = MOST_AT_ONCE) -> None:
        self._leadership, self._look = around.leadership, around.look
        forward = Forward(around.connect)
        self._dispatch = Dispatch(around.desk, around.leadership, forward, rules.start_timeout)
        report = Report(around.registry)
        self._front = Front(self._dispatch, Rules(rules.cluster_id, rules.max_size), report, most_at_once)
        self.connections = Connections(self._front, 2 * most_at_once)
        self._stopping = asyncio.Event()

    async def run(self, listening: socket.socket | None) -> None:
        """Serves on the socket, and closes it in the end; without one, what is brought to `connections`."""
        if not self._leadership.own:
            log.warning("other replicas cannot send clients here: set [worker-scaler] advertise-url, or POD_IP")
        async with self._dispatch.running(), accepting(self.connections, listening, _LAST_ANSWERS):
            await self._stopping.wait()
            await self._hand_over()

    def leave(self) -> None:
        """The lead is about to be given up."""
        self._front.leave()
        self._dispatch.leave()

    def stop(self) -> None:
        self._stopping.set()

    async def _hand_over(self) -> None:
        self.leave()
        if self._front.quiet(_NOBODY_FOR):
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_SUCCESSOR_WITHIN):
                await self._successor()
        self._dispatch.let_go()
        if self._leadership.leader():
            await asyncio.sleep(_LAST_CALLS)

    async def _successor(self) -> None:
        while not self._leadership.leader():
            with suppress(KubeError):
                await self._look()
            await asyncio.sleep(_LOOK_EVERY)
