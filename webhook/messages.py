"""What goes over a connection of HTTP/1.1: heads of requests, as far as they matter, and replies as they are sent."""

from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Final, NamedTuple

JSON: Final = b"application/json"
_TEXT: Final = b"text/plain; charset=utf-8"
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_STATUS_LINES: Final = {status: f"{status.value} {status.phrase}".encode() for status in HTTPStatus}


class Head:
    """What comes before the body, as far as it matters. `length` is None where it is not said."""

    __slots__ = ("content_type", "expects", "length", "method", "since", "target")

    def __init__(self) -> None:
        self.method = b""
        self.target = b""
        self.content_type = b""
        self.length: int | None = None
        self.expects = False
        # By `perf_counter`, when it was complete.
        self.since = 0.0

    def tell(self, name: bytes, value: bytes) -> None:
        """A header of it."""
        match name.lower():
            case b"content-type":
                self.content_type = value.partition(b";")[0].strip().lower()
            case b"content-length":
                self.length = int(value)
            case b"expect":
                self.expects = value.lower() == b"100-continue"


class Reply(NamedTuple):
    """An answer. `fields` are further header lines, each with its end; the `last` one ends the connection."""

    status: HTTPStatus
    body: bytes
    content_type: bytes = _TEXT
    fields: bytes = b""
    last: bool = False


def written(reply: Reply, now: int, *, bare: bool, last: bool) -> bytes:
    """A reply at that second; a `bare` one, to a HEAD, without its body. The `last` one says so."""
    fields = reply.fields + b"Connection: close\r\n" if last else reply.fields
    return b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\nServer: ebbtide\r\nDate: %b\r\n%b\r\n%b" % (
        _STATUS_LINES[reply.status],
        reply.content_type,
        len(reply.body),
        _date(now),
        fields,
        b"" if bare else reply.body,
    )


@lru_cache(maxsize=2)
def _date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()
