"""Feeds the changes of a store to a queue."""

from collections.abc import Callable, Hashable, Iterable
from typing import Protocol, TypeVar

from reconciler.engine.queue import WorkQueue

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
S_co = TypeVar("S_co", covariant=True)


class Source(Protocol[S_co]):
    """What a store offers for this: it tells (old, new), None for what is not there, and holds what it told."""

    def subscribe(self, handler: Callable[[S_co | None, S_co | None], None], /) -> object: ...

    def values(self) -> Iterable[S_co]: ...


def connect(store: Source[T], keys: Callable[[T | None, T | None], Iterable[K]], queue: WorkQueue[K]) -> None:
    """Adds `keys(old, new)` to the queue whenever an object of the store appears, changes or goes.

    What the store holds already is treated as having just appeared, so the order of connecting and filling is free.
    """

    def changed(old: T | None, new: T | None) -> None:
        for key in keys(old, new):
            queue.add(key)

    store.subscribe(changed)
    for value in tuple(store.values()):
        changed(None, value)
