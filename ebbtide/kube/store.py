"""A small frozen copy of every object of a kind, kept up to date by a reflector.

The copy never goes back in time. Events can be repeated, arrive after a newer list, or be overtaken by the answer to
an own write; resourceVersions of one kind are ordered numbers (KEP-5504), so each can be told from what is known:

    an object that is there       what is newer than the copy counts, whatever its UID, for changes and deletions alike
    an object that is not there   an ADDED no newer than the last event seen is a repetition of what has since ended
    a complete list               what it lacks is gone, except what is newer than the list itself
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import structlog

from ebbtide.kube.stream import DELETED


class Versioned(Protocol):
    """What a store needs of a projection; see `ebbtide.model`. Its `==` says whether anything that counts changed."""

    @property
    def key(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> int: ...


T = TypeVar("T", bound=Versioned)
Handler = Callable[[T | None, T | None], None]
Project = Callable[[Mapping[str, Any]], T]

_log = structlog.get_logger(__name__)


class World(Generic[T]):
    """Projections by key: a complete kind, or what has come of a list so far."""

    def __init__(self, project: Project[T]) -> None:
        self._project = project
        self.objects: dict[str, T] = {}

    def read(self, raw: Mapping[str, Any]) -> T | None:
        """The projection of an object; None, with a warning, for one that cannot be read."""
        try:
            return self._project(raw)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            metadata = raw.get("metadata")
            name = metadata.get("name") if isinstance(metadata, Mapping) else None
            _log.warning("object left out: it cannot be read", name=name, error=repr(error))
            return None

    def apply(self, kind: str, raw: Mapping[str, Any], seen: int = 0) -> tuple[T | None, T | None]:
        """Takes an event, or with ADDED an object of a list; `seen` is the version of the last event.

        Returns what was there before and after, twice the same when the event says nothing new.
        """
        found = self.read(raw)
        if found is None:
            return None, None
        known = self.objects.get(found.key)
        if kind == DELETED:
            return self._end(known, found)
        if found.resource_version <= (seen if known is None else known.resource_version):
            return known, known
        self.objects[found.key] = found
        return known, found

    def _end(self, known: T | None, last: T) -> tuple[T | None, T | None]:
        if known is None or last.resource_version < known.resource_version:
            return known, known
        del self.objects[known.key]
        return known, None


class Store(Generic[T]):
    """What is known of a kind. Not `synced` before a list is complete.

    `project` makes the projection of a raw object, `shape` names the fields that it reads (None: any). Handlers are
    called with (old, new), None for absent, and only when the two differ; they must not block, and what they raise ends
    the reflector.
    """

    def __init__(self, project: Project[T], shape: object = None) -> None:
        self.shape = shape
        self._project = project
        self._world = World(project)
        self._version = 0
        self._handlers: list[Handler[T]] = []
        self._synced = asyncio.Event()
        self._streams = 0
        self._followed = False
        self.last_contact = float("-inf")

    def get(self, key: str) -> T | None:
        return self._world.objects.get(key)

    def values(self) -> Iterable[T]:
        """All projections, as they are now; safe against changes meanwhile."""
        return tuple(self._world.objects.values())

    def __len__(self) -> int:
        return len(self._world.objects)

    @property
    def synced(self) -> bool:
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    def expect_list(self) -> None:
        """Not synced again until the next list is complete: nobody has followed the server for a while."""
        self._synced.clear()

    @property
    def version(self) -> int:
        """The resourceVersion up to which every event is in the store; 0 before the first list."""
        return self._version

    def subscribe(self, handler: Handler[T]) -> None:
        """Calls `handler` for every later change; what is already here is not repeated."""
        self._handlers.append(handler)

    def touch(self) -> None:
        """The server was heard of just now."""
        self.last_contact = asyncio.get_running_loop().time()

    def follow(self) -> None:
        """From now on a stream tells of every change, what happened before it soon after."""
        self._streams += 1
        self._followed = True

    def unfollow(self) -> None:
        """The stream has ended."""
        self._followed = False

    @property
    def stream(self) -> int | None:
        """The number of the stream that tells of changes now, None without one.

        As long as it stays the same, what a read has found since it began can only change by what the stream tells.
        """
        return self._streams if self._followed else None

    def age(self) -> float:
        """Seconds since the server was last heard of: how old this copy may be."""
        return asyncio.get_running_loop().time() - self.last_contact

    def observe(self, raw: Mapping[str, Any]) -> None:
        """Takes the object that an own write returned, ahead of its event: newer and of the same UID, or not at all."""
        found = self._world.read(raw)
        known = None if found is None else self.get(found.key)
        if found is None or known is None or known.uid != found.uid:
            return
        if found.resource_version > known.resource_version:
            self._world.objects[found.key] = found
            self._tell(known, found)

    def gather(self) -> World[T]:
        """An empty world for a new list; `swap` puts it in place."""
        return World(self._project)

    def swap(self, world: World[T], version: int) -> None:
        """Puts a complete list of that resourceVersion in the place of what is here, and tells the differences.

        A consistent list is never older than an event that came before it, unless the cluster's storage was restored
        from a backup; then the list alone is true.
        """
        before = self._world.objects
        if version >= self._version:
            for key, known in before.items():
                listed = world.objects.get(key)
                if known.resource_version > (version if listed is None else listed.resource_version):
                    world.objects[key] = known
        self._world, self._version = world, version
        self._synced.set()
        self._tell_differences(before, world.objects)

    def apply(self, kind: str, raw: Mapping[str, Any]) -> None:
        """Takes an event of a watch that follows the list."""
        seen = self._version
        self.advance(int(raw["metadata"]["resourceVersion"]))
        self._tell(*self._world.apply(kind, raw, seen))

    def advance(self, version: int) -> None:
        """Takes a bookmark."""
        self._version = max(self._version, version)

    def _tell_differences(self, before: Mapping[str, T], after: Mapping[str, T]) -> None:
        for key, known in before.items():
            if key not in after:
                self._tell(known, None)
        for key, found in tuple(after.items()):
            self._tell(before.get(key), found)

    def _tell(self, old: T | None, new: T | None) -> None:
        if old != new:
            for handler in self._handlers:
                handler(old, new)
