"""What the front may say. Pure.

Clients repeat a request upon 500, 503 and 408 only; any other error ends an import of hours. So there is one answer for
whatever passes (503, with the seconds after which to come again), one for what never will (400), and nothing that a
proxy or a rate limiter would say.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from reconciler.scaler.front.query import PATH

# As often as clients come by themselves.
SOON: Final = 3
_TEXT: Final = "text/plain; charset=utf-8"
_JSON: Final = "application/json"


class Status(IntEnum):
    """All there are."""

    OK = 200
    FOUND = 302
    BAD = 400
    NOT_FOUND = 404
    TOO_SLOW = 408
    FAULT = 500
    LATER = 503


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer; `headers` beside those of every answer."""

    status: Status
    body: bytes = b""
    content_type: str = ""
    headers: tuple[tuple[str, str], ...] = ()


DONE: Final = Answer(Status.OK)


def moved(address: str) -> Answer:
    """To `<scheme>://<host>:<port>`. The client cuts off exactly PATH, and builds all its later URLs from the rest."""
    return Answer(Status.FOUND, headers=(("Location", address + PATH),))


def listed(body: bytes) -> Answer:
    """A JSON document."""
    return Answer(Status.OK, body, _JSON)


def later(why: str, seconds: int = SOON) -> Answer:
    """Not now."""
    return Answer(Status.LATER, _words(why), _TEXT, (("Retry-After", str(max(1, seconds))),))


def refused(why: str) -> Answer:
    """Never."""
    return Answer(Status.BAD, _words(why), _TEXT)


def not_found(why: str) -> Answer:
    """No such task, or no such thing at a front."""
    return Answer(Status.NOT_FOUND, _words(why), _TEXT)


def too_slow(why: str) -> Answer:
    """The client may send it anew."""
    return Answer(Status.TOO_SLOW, _words(why), _TEXT)


def fault() -> Answer:
    """Our own; what it was is in the log only."""
    return Answer(Status.FAULT, _words("internal fault"), _TEXT)


def _words(text: str) -> bytes:
    return f"{text}\n".encode(errors="backslashreplace")
