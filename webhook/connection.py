"""One connection of HTTP/1.1: requests in, one after the other, each answered as soon as its body is complete.

For a handler that waits for nothing there need be no task, no queue and no stream per request, which is what the
servers of frameworks spend most of their time on. The syntax is llhttp's affair (httptools, as in uvicorn).

    quiet      → a request's first byte comes → coming
    coming     → its head is complete         → taken, or refused
    taken      → its body is complete         → answered: quiet again, or ended
    refused    → what still comes of it is thrown away, so that the answer is not lost to a reset → ended

The body of one that is taken is not read on while there is no room for it, unless it is small or has come already.
"""

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from http import HTTPStatus
from time import perf_counter
from typing import Final, Protocol, cast

import structlog
from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpRequestParser

from webhook.budget import Budget, Claim
from webhook.messages import CONTINUE, Head, Reply, written

log = structlog.stdlib.get_logger(__name__)

# From the first byte of a request to the last of its body, in seconds; as long may it wait for room, too.
REQUEST_WITHIN: Final = 10.0
# How long what follows an answer to an unread body is still taken.
_LINGERING: Final = 5.0
# Bodies of up to so many bytes need no room to be found: most reviews have a tenth of it.
_SMALL: Final = 64 * 1024
# Bytes that bring nothing of a body (a head, the trailers of one in chunks); the API server's heads have 300.
_LARGEST_HEAD: Final = 32 * 1024
_NONSENSE: Final = Reply(HTTPStatus.BAD_REQUEST, b"the request cannot be handled\n", last=True)
_TOO_SLOW: Final = Reply(HTTPStatus.REQUEST_TIMEOUT, b"the request came too slowly\n", last=True)
_FAULT: Final = Reply(HTTPStatus.INTERNAL_SERVER_ERROR, b"internal fault\n", last=True)


class Lost(Enum):
    """Why a request that was taken cannot be answered as it should."""

    TOO_LARGE = auto()
    TOO_SLOW = auto()
    NO_ROOM = auto()
    BROKEN_OFF = auto()


class Handler(Protocol):
    """Answers without waiting. After a `begin` without a reply comes either `answer` or `abandon`, once."""

    @property
    def largest(self) -> int:
        """The longest body that is taken, in bytes."""
        ...

    def begin(self, head: Head) -> Reply | None:
        """Takes a request (None) of which the head is there, or says what to reply without reading the body."""
        ...

    def answer(self, head: Head, body: bytes) -> Reply:
        """The reply to a request that is complete."""
        ...

    def abandon(self, lost: Lost) -> Reply:
        """The reply to one that was taken and will not be complete, for who can still read it."""
        ...


class Register(Protocol):
    """Whoever wants to know which connections there are. While it is `crowded` somebody waits for one to end."""

    @property
    def crowded(self) -> bool: ...

    def begun(self, connection: "Connection") -> None: ...

    def over(self, connection: "Connection") -> None: ...


class Connection(asyncio.Protocol):
    """A connection that is kept for `keep_alive` seconds without a request; `now` is the wall clock.

    Room for large bodies is found in `budget`.

    What begins with `on_` is called by the parser.
    """

    def __init__(
        self, handler: Handler, register: Register, budget: Budget, keep_alive: float, now: Callable[[], float]
    ) -> None:
        self._handler = handler
        self._register = register
        self._budget = budget
        self._keep_alive = keep_alive
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._parser: HttpRequestParser | None = HttpRequestParser(self)
        self._head: Head | None = None
        self._taken = False
        self._ended = False
        self._hurried = False
        self._unread = False
        self._claim: Claim | None = None
        self._chunks: list[bytes] = []
        self._size = 0
        self._barren = 0

    # --- the transport's side -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by descent
        self._within = self._keep_alive
        self._due = self._loop.time() + self._within
        self._timer = self._loop.call_at(self._due, self._look)
        self._register.begun(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the library's signature
        self._timer.cancel()
        self._parser = None  # which knows this object, as this object knew it
        if self._taken:
            self._lose(Lost.BROKEN_OFF)
        self._register.over(self)

    def pause_writing(self) -> None:
        """Who does not read answers is not asked for more requests."""
        self._unread = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._unread = False
        self._read_on()

    def data_received(self, data: bytes) -> None:
        if self._parser is None:
            return
        size = self._size
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._malformed(error)
            return
        if self._head is not None:
            self._half_received(0 if self._size != size else len(data))

    def close_if_quiet(self) -> None:
        """Closes it, unless a request is under way: that one is answered first."""
        if self._head is None:
            self._transport.close()

    @property
    def idle_since(self) -> float | None:
        """By the loop's time, since when it is without a request that is taken; None while it has one."""
        return None if self._taken else self._due - self._within

    def abort(self) -> None:
        self._transport.abort()

    # --- the parser's side --------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._head = Head()
        self._size = self._barren = 0

    def on_url(self, part: bytes) -> None:
        if self._head is not None:
            self._head.target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head is not None and not self._taken:
            self._head.tell(name, value)

    def on_headers_complete(self) -> None:
        head, parser = self._head, self._parser
        if head is None or parser is None or self._ended:
            return
        head.method, head.since = parser.get_method(), perf_counter()
        if parser.should_upgrade():
            self._end(_NONSENSE)
            return
        refusal = self._handler.begin(head)
        if refusal is not None:
            self._end(refusal)
            return
        self._taken = True
        if head.expects:
            self._transport.write(CONTINUE)

    def on_body(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if not self._taken:
            return
        if self._size > self._handler.largest:
            self._end(self._lose(Lost.TOO_LARGE))
        else:
            self._chunks.append(chunk)

    def on_message_complete(self) -> None:
        head, self._head = self._head, None
        if self._taken and head is not None and self._parser is not None:
            body = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
            self._taken, self._chunks = False, []
            reply = self._handler.answer(head, body)
            self._ended = reply.last or self._register.crowded or not self._parser.should_keep_alive()
            self._write(reply, head)
            if self._claim is not None:
                self._give_back(self._claim)
        if self._ended:
            self._transport.close()
        else:
            self._be_quiet()

    # --- both ---------------------------------------------------------------------------------------------------------

    def _be_quiet(self) -> None:
        """Waits for the next request, as long as one is kept. To move the timer only back costs nothing."""
        self._due = self._loop.time() + self._keep_alive
        if self._hurried:
            self._hurried = False
            self._wait(self._keep_alive)

    def _half_received(self, barren: int) -> None:
        """A request is coming in, with bytes that brought nothing of its body."""
        self._barren = self._barren + barren if barren else 0
        if self._barren > _LARGEST_HEAD:
            self._malformed(None)
        elif not self._hurried and not self._ended:
            self._hurried = True
            self._wait(REQUEST_WITHIN)
        if self._taken and self._claim is None:
            self._find_room()

    def _find_room(self) -> None:
        """For the whole of a body that is large, or turns out to be."""
        length = None if self._head is None else self._head.length
        if (self._size if length is None else length) <= _SMALL:
            return
        self._claim = self._budget.claim(self._handler.largest if length is None else length, self._granted)
        if self._claim is None:
            self._end(self._lose(Lost.NO_ROOM))
        elif not self._claim.held:
            self._transport.pause_reading()

    def _granted(self) -> None:
        """The wait was not its fault: it has all of its time from now on."""
        self._wait(REQUEST_WITHIN)
        self._read_on()

    def _give_back(self, claim: Claim) -> None:
        self._claim = None
        self._budget.release(claim)
        if not claim.held:
            self._read_on()

    def _read_on(self) -> None:
        if not self._unread and (self._claim is None or self._claim.held):
            self._transport.resume_reading()

    def _wait(self, within: float) -> None:
        self._within = within
        self._due = self._loop.time() + within
        self._timer.cancel()
        self._timer = self._loop.call_at(self._due, self._look)

    def _look(self) -> None:
        """Something may have taken too long; what was due may have come, and something else is due later."""
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._look)
        elif self._claim is not None and not self._claim.held:
            self._end(self._lose(Lost.NO_ROOM))
        else:
            if self._head is not None and not self._ended:
                log.debug("slow request ended")
                self._end(self._lose(Lost.TOO_SLOW) if self._taken else _TOO_SLOW)
            self._transport.close()

    def _malformed(self, error: Exception | None) -> None:
        """What comes is no HTTP, or nothing that is spoken here; or a handler is at fault."""
        reply = _NONSENSE
        if isinstance(error, HttpParserCallbackError):
            log.error("request failed", error=type(error.__context__).__name__)
            reply = _FAULT
        if self._taken:
            reply = self._lose(Lost.BROKEN_OFF)
        if not self._ended:
            self._end(reply)
        self._parser = None

    def _lose(self, lost: Lost) -> Reply:
        self._taken, self._chunks = False, []
        if self._claim is not None:
            self._give_back(self._claim)
        return self._handler.abandon(lost)

    def _end(self, reply: Reply) -> None:
        """Answers before all has been read: it cannot be told where the next request would begin."""
        self._ended = True
        self._write(reply, self._head)
        self._wait(_LINGERING)

    def _write(self, reply: Reply, head: Head | None) -> None:
        bare = head is not None and head.method == b"HEAD"
        self._transport.write(written(reply, int(self._now()), bare=bare, last=self._ended))
