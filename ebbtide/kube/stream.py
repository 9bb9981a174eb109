"""Watch streams: from chunks of bytes to events.

A line is as long as its object, which may be megabytes, and chunks end where they like.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from ebbtide.kube.answers import failure_in_stream
from ebbtide.kube.errors import Unreachable
from ebbtide.kube.shaped import ERROR, ReadEvent, event_reader

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"
BOOKMARK: Final = "BOOKMARK"
_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
# etcd refuses requests of 1.5 MiB by default and is seldom allowed more than 10.
_LONGEST_LINE: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One event; `type` is ADDED, MODIFIED, DELETED or BOOKMARK. A deleted object carries the version of its end."""

    type: str
    object: dict[str, Any]

    @property
    def resource_version(self) -> int:
        return int(self.object["metadata"]["resourceVersion"])

    @property
    def ends_initial_events(self) -> bool:
        """Whether this bookmark says that a list streamed by `sendInitialEvents` is complete."""
        if self.type != BOOKMARK:
            return False
        annotations = self.object["metadata"].get("annotations") or {}
        return annotations.get(_INITIAL_EVENTS_END) == "true"


async def lines(what: str, source: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Complete lines without their end; what follows the last line end was cut off and is dropped."""
    pieces: list[bytes] = []
    size = 0
    async with aclosing(source) as chunks:
        async for chunk in chunks:
            *whole, rest = chunk.split(b"\n")
            for line in whole:
                yield b"".join((*pieces, line))
                pieces.clear()
                size = 0
            pieces.append(rest)
            size += len(rest)
            if size > _LONGEST_LINE:
                raise Unreachable(what, f"a line of more than {_LONGEST_LINE >> 20} MiB")


async def events(
    what: str, chunks: AsyncGenerator[bytes, None], shape: object = None
) -> AsyncGenerator[WatchEvent, None]:
    """The events of a stream; with a `shape` (see `ebbtide.shapes`) only those fields of objects that it names.

    Raises the error of an ERROR event (Gone, mostly), Unreachable for what is no event.
    """
    read = event_reader(shape)
    async with aclosing(lines(what, chunks)) as complete:
        async for line in complete:
            if line.strip():
                yield _event(what, line, read)


def _event(what: str, line: bytes, read: ReadEvent) -> WatchEvent:
    try:
        kind, content = read(line)
        if kind != ERROR:
            # Read here, so that nobody else has to ask whether the object has a version.
            int(content["metadata"]["resourceVersion"])
            return WatchEvent(kind, content)
    except (ValueError, KeyError, TypeError) as error:
        raise Unreachable(what, f"not a watch event: {line[:100]!r}") from error
    raise failure_in_stream(what, content if isinstance(content, dict) else {})
