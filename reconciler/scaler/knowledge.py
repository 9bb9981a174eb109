"""What the three placements stand on: the workers' objects, what workers say, and the ways to them."""

from dataclasses import dataclass
from typing import Self

from ebbtide.clock import Clock
from ebbtide.config.scaler import WorkerScaler
from reconciler.engine.context import Connect
from reconciler.scaler.contract import Unavailable
from reconciler.scaler.pods import WorkerPod
from reconciler.scaler.resolving import Names, Resolve, by_dns
from reconciler.scaler.status.ask import Workers
from reconciler.scaler.status.book import Book, StatusUnknown
from reconciler.scaler.status.clusters import Clusters
from reconciler.scaler.stores import Stores
from reconciler.scaler.task import TaskId


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Made once per process; its stores and the way to workers are in order while this process leads."""

    stores: Stores
    book: Book
    clusters: Clusters
    workers: Workers
    names: Names
    clock: Clock

    @classmethod
    def of(
        cls, settings: WorkerScaler, stores: Stores, connect: Connect, clock: Clock, resolve: Resolve = by_dns
    ) -> Self:
        """`connect` makes the connections to workers, `resolve` asks the cluster's DNS for a name."""
        workers = Workers(settings, connect)
        return cls(
            stores=stores,
            book=Book(stores, clock, workers.ask),
            clusters=Clusters(settings.cluster_id, stores),
            workers=workers,
            names=Names(stores.pods, resolve, used=settings.worker_address == "dns"),
            clock=clock,
        )

    async def cancel(self, pod: WorkerPod, cluster: int, task: TaskId) -> bool:
        """Tells the pod's worker that the task is cancelled; False for one that it has never heard of.

        Raises Unavailable when it does not answer.
        """
        try:
            return await self.workers.cancel(pod, cluster, task)
        except StatusUnknown as unknown:
            raise Unavailable(str(unknown), code="StatusUnknown") from unknown
