"""What every controller is built from, and what it must offer in return."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import aiohttp
from prometheus_client import CollectorRegistry

from certs.consult import Consult, here
from ebbtide.clock import Clock
from ebbtide.config import Settings
from ebbtide.kube.client import Client
from ebbtide.kube.store import Store
from ebbtide.model import NodeFacts
from ebbtide.service.connection import StoreAges
from reconciler.engine.shared import Shared

Connect = Callable[[], aiohttp.BaseConnector]


def sockets() -> aiohttp.BaseConnector:
    """Real connections, each for one request: a thousand kept open for one question every few seconds cost more."""
    return aiohttp.TCPConnector(limit=0, force_close=True)


@dataclass(frozen=True, slots=True)
class Context:
    """Handed to `controllers.build` once per process.

    `client` refuses to write (NotLeading) whenever this process does not lead, and always in a dry run. `nodes` is
    kept up to date by the program, leading or not, and complete before any controller runs; what is `shared` is run
    while this process leads. `ages` is told of every further watch. `namespace` is where the product lives, `identity`
    this process's name in the election, `deployment` owns its Lease and certificates. `connect` makes the way to
    everything but the API server: workers, and other replicas. `consult` answers what is asked about certificates.
    """

    settings: Settings
    client: Client
    nodes: Store[NodeFacts]
    shared: Shared
    ages: StoreAges
    registry: CollectorRegistry
    clock: Clock
    namespace: str
    identity: str
    deployment: str
    dry_run: bool
    connect: Connect = sockets
    consult: Consult = here


class Runnable(Protocol):
    """One controller, built once and run once per term of leading; `reconciler.engine.controller.Controller` is one."""

    @property
    def name(self) -> str: ...

    async def run(self) -> None:
        """Works until `drain` (then returns) or cancellation. Starts from the world as it is, every time."""
        ...

    def drain(self) -> None:
        """Begins nothing new, finishes what is under way; the program ends."""
        ...

    def longest(self) -> float:
        """Seconds for which the oldest piece of work under way has been running."""
        ...
