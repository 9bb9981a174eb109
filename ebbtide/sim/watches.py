"""WATCH: one stream of events, resumed at a version, with bookmarks, until its time is over.

Follows k8s.io/apiserver `pkg/storage/cacher`: an object that a change takes out of the selector is DELETED with its
former content and the new version, one that a change takes in is ADDED.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Self

import orjson

from ebbtide.sim.history import Compacted
from ebbtide.sim.kinds import Kind
from ebbtide.sim.listeners import Listener
from ebbtide.sim.lists import Query, refuse_options, require_reached
from ebbtide.sim.refusals import Expired, Refusal
from ebbtide.sim.routes import Target
from ebbtide.sim.selectors import selected
from ebbtide.sim.storage import Storage
from ebbtide.sim.stored import ADDED, DELETED, Event, Stored

BOOKMARK_PERIOD: Final = 60.0
# The last bookmark comes this long before the end of the stream (k8s.io/apiserver `bookmarkTimer`).
_BOOKMARK_BEFORE_END: Final = 2.0
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

# A loop calls timers that are due within its clock's resolution: waiting for the rest would be no wait at all.
_ROUNDING: Final = 1e-6


class Watch:
    """The events of one request, as lines of JSON; a context manager that takes notes while it is entered.

    Entering raises Invalid, TooLate, BadRequest; a version that is too old is an ERROR event instead.
    """

    def __init__(self, storage: Storage, target: Target, query: Query) -> None:
        self._storage = storage
        self._kind = target.kind
        self._namespace = target.namespace
        self._query = query
        self._test = selected(target.kind, query.label_selector, query.field_selector)
        self._lines: list[bytes] = []
        self._wake = asyncio.Event()
        self._failed = False
        self._listener: Listener | None = None

    def __enter__(self) -> Self:
        _check(self._query)
        self._start()
        self._listener = self._storage.listen(self._offer, self._kind)
        return self

    def __exit__(self, *_: object) -> None:
        if self._listener is not None:
            self._listener.close()

    async def batches(self, seconds: float) -> AsyncIterator[list[bytes]]:
        """The lines that have come together, for that many seconds of the loop's time."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        next_bookmark = _next_bookmark(loop.time(), end)
        while True:
            if self._lines:
                lines, self._lines = self._lines, []
                yield lines
                continue
            now = loop.time() + _ROUNDING
            if self._failed or now >= end:
                return
            if now >= next_bookmark:
                next_bookmark = _next_bookmark(now, end)
                if self._query.allow_bookmarks:
                    yield [bookmark(self._kind, self._storage.version)]
                    continue
            await self._wait(min(end, next_bookmark))

    async def _wait(self, until: float) -> None:
        self._wake.clear()
        timer = asyncio.get_running_loop().call_at(until, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    # --- where it starts -------------------------------------------------------------------------------------

    def _start(self) -> None:
        query, version = self._query, int(self._query.resource_version or 0)
        require_reached(self._storage, version)
        if query.send_initial_events or (query.send_initial_events is None and version == 0):
            self._send_all()
        elif version:
            self._resume(version)

    def _send_all(self) -> None:
        for stored in self._storage.scan(self._kind, self._namespace or None):
            if self._test is None or self._test(stored):
                self._lines.append(line(ADDED, stored.data))
        if self._query.send_initial_events and self._query.allow_bookmarks:
            self._lines.append(bookmark(self._kind, self._storage.version, initial_events_end=True))

    def _resume(self, version: int) -> None:
        try:
            for event in self._storage.history.since(self._kind, version):
                self._offer(event)
        except Compacted as compacted:
            self.fail(Expired(f"too old resource version: {version} ({compacted.oldest})"))

    def fail(self, refusal: Refusal) -> None:
        """Ends the stream with an ERROR event."""
        self._lines.append(line("ERROR", orjson.dumps(refusal.status())))
        self._failed = True
        self._wake.set()

    # --- what comes in ---------------------------------------------------------------------------------------

    def _offer(self, event: Event) -> None:
        if self._failed or (self._namespace and event.stored.namespace != self._namespace):
            return
        shown = event.type, event.stored
        if self._test is not None:
            shown_or_none = _filtered(event, self._test)
            if shown_or_none is None:
                return
            shown = shown_or_none
        self._lines.append(line(shown[0], shown[1].data))
        self._wake.set()


def line(type_: str, data: bytes) -> bytes:
    """One event as it goes over the wire."""
    return b'{"type":"' + type_.encode() + b'","object":' + data + b"}\n"


def bookmark(kind: Kind, version: int, *, initial_events_end: bool = False) -> bytes:
    """An object that says only how far the stream has come."""
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if initial_events_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    return line("BOOKMARK", orjson.dumps({**kind.type_meta, "metadata": metadata}))


def _next_bookmark(now: float, end: float) -> float:
    last = end - _BOOKMARK_BEFORE_END
    return last if now < last < now + BOOKMARK_PERIOD else now + BOOKMARK_PERIOD


def _filtered(event: Event, test: Callable[[Stored], bool]) -> tuple[str, Stored] | None:
    now = event.type != DELETED and test(event.stored)
    before = event.before is not None and test(event.before)
    if now:
        return (event.type if before else ADDED), event.stored
    if before and event.before is not None:
        return DELETED, event.before.at_version(event.version)
    return None


def _check(query: Query) -> None:
    match, initial = query.resource_version_match, query.send_initial_events
    if initial is not None and match != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise refuse_options("resourceVersionMatch", text)
    if match and initial is None:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise refuse_options("resourceVersionMatch", text)
