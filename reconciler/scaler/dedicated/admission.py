"""The limit on dedicated workers: what the API has, and what is being created and not seen there yet.

Nothing is counted that is not a set, or about to be one, so a start that failed takes no place; and whoever has a set
is never asked.
"""

from typing import Final

from ebbtide.vocabulary import POOL_DEDICATED
from reconciler.scaler.contract import Unavailable
from reconciler.scaler.pods import WorkerSet
from reconciler.scaler.stores import Stores

_RETRY_AFTER: Final = 10


class Admission:
    """Decides and counts without giving up control in between, so that no two get the same place."""

    def __init__(self, stores: Stores, most: int) -> None:
        self._stores = stores
        self._most = most
        self._under_way: set[str] = set()
        stores.sets.subscribe(self._set_changed)

    def begin(self) -> None:
        """A new term: what this process was doing in an earlier one has come to an end, or stands in the API."""
        self._under_way.clear()

    def admit(self, name: str) -> None:
        """Takes a place for the set of that name, which does not exist. Raises Unavailable when there is none left."""
        others = {one.name for one in self._stores.sets.values() if one.pool == POOL_DEDICATED} | self._under_way
        if len(others - {name}) >= self._most:
            words = f"all {self._most} dedicated workers are in use (worker-count-limit)"
            raise Unavailable(words, code="LimitReached", retry_after=_RETRY_AFTER)
        self._under_way.add(name)

    def give_back(self, name: str) -> None:
        """No such set was created, or it has gone before it was seen."""
        self._under_way.discard(name)

    def pending(self, name: str) -> bool:
        """Whether a set of that name was asked for, and the copy of the API does not show it."""
        return name in self._under_way

    def _set_changed(self, _old: WorkerSet | None, new: WorkerSet | None) -> None:
        if new is not None:
            self._under_way.discard(new.name)
