"""The changes of the cluster in order, as far back as the window reaches: what watches resume from and pages read.

A version below what was forgotten cannot be answered any more; the caller turns that into 410.
"""

from collections.abc import Mapping

from ebbtide.sim.kinds import Kind
from ebbtide.sim.stored import ADDED, Event, Key, Stored


class Compacted(Exception):  # noqa: N818 - a fact about the history, named as etcd names it
    """The history does not reach back to the version asked for; `oldest` is the first that it can answer."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"history starts at {oldest}")
        self.oldest = oldest


class History:
    """Events by kind. `window` is the least number of events kept of each kind."""

    def __init__(self, window: int) -> None:
        self.latest = 1
        self._window = window
        self._events: dict[Kind, list[Event]] = {}
        self._forgotten: dict[Kind, int] = {}
        self._compacted = 0

    def append(self, event: Event) -> None:
        self.latest = event.version
        events = self._events.setdefault(event.kind, [])
        events.append(event)
        if len(events) > 2 * self._window:
            self._forgotten[event.kind] = events[-self._window - 1].version
            del events[: -self._window]

    def compact(self) -> None:
        """Forgets every event up to now."""
        self._compacted = self.latest
        self._events.clear()

    def oldest(self, kind: Kind) -> int:
        """The first version from which all later events of the kind are known."""
        return max(self._compacted, self._forgotten.get(kind, 0))

    def since(self, kind: Kind, version: int) -> list[Event]:
        """The events after that version, oldest first; raises Compacted."""
        if version < self.oldest(kind):
            raise Compacted(self.oldest(kind))
        events = self._events.get(kind, [])
        start = len(events)
        while start and events[start - 1].version > version:
            start -= 1
        return events[start:]

    def rewound(self, kind: Kind, live: Mapping[Key, Stored], version: int) -> dict[Key, Stored]:
        """All objects of the kind as they were at that version; raises Compacted."""
        objects = dict(live)
        for event in reversed(self.since(kind, version)):
            if event.type == ADDED:
                objects.pop(event.stored.key, None)
            elif event.before is not None:
                objects[event.before.key] = event.before
        return objects
