"""What the three placements stand on: the workers' objects, what workers say, and the way to ask them."""

from dataclasses import dataclass

from ebbtide.clock import Clock
from reconciler.scaler.status.ask import Workers
from reconciler.scaler.status.book import Book
from reconciler.scaler.status.clusters import Clusters
from reconciler.scaler.stores import Stores


@dataclass(frozen=True, slots=True)
class Ground:
    """Made once per process; its stores and the way to workers are in order while this process leads."""

    stores: Stores
    book: Book
    clusters: Clusters
    workers: Workers
    clock: Clock
