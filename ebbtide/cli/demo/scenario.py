"""What a scenario is, and what its script can do to the world."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from ebbtide.cli.demo.load.tables import Table
from ebbtide.cli.demo.promises import Promise
from ebbtide.config.scaler import WorkerScaler

SPOT: Final = "spot"
RISKY, SAFE = "us-east-1a", "us-east-1b"


class World(Protocol):
    """What a script can do."""

    async def at(self, seconds: float) -> None:
        """Waits until that time."""
        ...

    def signal(self, *nodes: str) -> None:
        """A rebalance recommendation arrives: the termination handler taints and cordons the nodes."""
        ...

    def withdraw(self, *nodes: str) -> None:
        """The alarm was false: the termination handler takes taint and cordon off."""
        ...

    async def take(self, *nodes: str) -> None:
        """The two-minute notice arrives; when it has run out the instances are gone, and the zone has no more."""
        ...

    def scale(self, deployment: str, replicas: int) -> None:
        """Somebody changes the number of replicas."""
        ...

    def load(self, *tables: Table) -> None:
        """Clients begin to load tables. Only where the worker scaler runs."""
        ...

    def restart(self, table: str) -> None:
        """The client that loads the table is killed and started anew."""
        ...


@dataclass(frozen=True, slots=True)
class Scenario:
    """`patience` is `max-rebalance-signal-time` in seconds; `limit` the bound for the whole play.

    With a `scaler` the world is one of workers and clients that load data; without one, a database. The play ends
    when the script is over and everything `awaited` has come true. `kept` is looked at then.
    """

    name: str
    summary: str
    promise: str
    script: Callable[[World], Awaitable[None]]
    awaited: tuple[Promise, ...]
    kept: tuple[Promise, ...]
    patience: float = 300.0
    limit: float = 560.0
    scaler: WorkerScaler | None = None
