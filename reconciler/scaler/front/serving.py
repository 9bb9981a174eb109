"""Connections of the front: how large and how slow a request may be, and how connections end.

A request is taken when its head is there, which has a time and a size; an answer has a time to be read in. In between a
request may wait for minutes, and there may be thousands of those: they cost a task each and nothing else.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import structlog
from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from reconciler.scaler.front.files import most_connections
from reconciler.scaler.front.query import parameter_at

log = structlog.stdlib.get_logger(__name__)

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

# A real request line has two hundred characters.
LONGEST_LINE: Final = 8190
# From the first byte of a request to the end of its head, and of an answer that the client does not read.
HEAD_WITHIN: Final = 10.0
READ_WITHIN: Final = 30.0
_LOOK_EVERY: Final = 1.0
# Idle connections are kept longer than clients keep theirs (Go: 90 s), so that it is they who end them.
KEEP_ALIVE: Final = 180.0
# How long what follows an answer to an unread request is still taken, so that the answer is not lost to a reset.
_LINGERING: Final = 5.0
# Ten thousand clients may come in the same second. The kernel cuts this to what it allows (net.core.somaxconn).
_BACKLOG: Final = 4096
_NONSENSE: Final = "the request cannot be handled: it is no HTTP"


class Connection(web.RequestHandler):
    """One connection. A handler calls `taken` at its start and `over` at its end."""

    __slots__ = ("_begun", "_coming_since", "_full_since", "_taken", "gone")

    def __init__(self, manager: "Connections", *, loop: asyncio.AbstractEventLoop, **options: Any) -> None:
        super().__init__(manager, loop=loop, **options)
        self._begun = b""
        self._coming_since: float | None = None
        self._full_since: float | None = None
        self._taken = False
        self.gone: asyncio.Future[None] | None = None

    def taken(self) -> None:
        """The head of a request is there, and its handler has begun."""
        self._coming_since, self._begun, self._taken = None, b"", True

    def over(self) -> None:
        """The handler is through."""
        self._taken = False

    def data_received(self, data: bytes) -> None:
        if self._coming_since is None and not self._taken:
            self._coming_since, self._begun = self._loop.time(), data
        super().data_received(data)

    def pause_writing(self) -> None:
        self._full_since = self._loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._full_since = None
        super().resume_writing()

    def connection_lost(self, exc: BaseException | None) -> None:
        if self.gone is not None and not self.gone.done():
            self.gone.set_result(None)
        super().connection_lost(exc)

    def look(self, now: float) -> None:
        """Ends it where the client takes too long."""
        if self._coming_since is not None and now - self._coming_since > HEAD_WITHIN:
            self.force_close()
        elif self._full_since is not None and now - self._full_since > READ_WITHIN and self.transport is not None:
            self.transport.abort()

    def handle_error(
        self,
        request: web.BaseRequest,  # noqa: ARG002 - the library's signature
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - it would quote the request
    ) -> web.StreamResponse:
        """What is no HTTP, or too much of it; handlers of ours raise nothing."""
        if status >= 500:
            log.error("request failed", error=type(exc).__name__)
            status = 500
        text = self._too_long() if isinstance(exc, LineTooLong) else _NONSENSE
        response = _Lingering(self, status, text + "\n")
        response.force_close()
        return response

    def _too_long(self) -> str:
        line, ended, _ = self._begun[:LONGEST_LINE].partition(b"\n")
        # Where the first line is there as a whole it is a header that is too long.
        name = "a header" if ended else parameter_at(line.decode(errors="replace"))
        return f"{name or 'the request line'} is too long: a line may have {LONGEST_LINE} bytes"


class _Lingering(web.Response):
    """Is followed by a while in which what still comes is taken and thrown away."""

    def __init__(self, connection: Connection, status: int, text: str) -> None:
        super().__init__(status=status, text=text, headers={"Server": "ebbtide"})
        self._connection = connection

    async def write_eof(self, data: bytes = b"") -> None:
        await super().write_eof(data)
        connection = self._connection
        connection.gone = asyncio.get_running_loop().create_future()
        connection.close()
        await asyncio.wait([connection.gone], timeout=_LINGERING)


class Connections(web.Server):
    """All connections, of which there are `most`: who comes then is sent away without a word, to come again.

    A handler is cancelled when its client hangs up.
    """

    def __init__(self, handler: Handler, most: int) -> None:
        super().__init__(handler, handler_cancellation=True)
        self.most = most
        self._loop = asyncio.get_running_loop()
        self._open = 0

    def __call__(self) -> Connection:
        return Connection(
            self,
            loop=self._loop,
            keepalive_timeout=KEEP_ALIVE,
            access_log=None,
            auto_decompress=False,
            max_line_size=LONGEST_LINE,
            max_field_size=LONGEST_LINE,
            lingering_time=_LINGERING,
            logger=log,
        )

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._open += 1
        if self._open > self.most:
            transport.abort()

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._open -= 1

    async def look(self) -> None:
        """Looks after slow clients until it is cancelled."""
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            now = self._loop.time()
            for connection in self.connections:
                if isinstance(connection, Connection):
                    connection.look(now)

    def close_idle(self) -> None:
        """Closes what has no request under way, and the others after their answer."""
        for connection in self.connections:
            connection.close()


@asynccontextmanager
async def accepting(connections: Connections, listening: socket.socket | None, within: float) -> AsyncIterator[None]:
    """Accepts connections inside the block; at its end their answers have `within` seconds to get out.

    Without a socket they have to be brought by somebody else, who calls `connections` for each.
    """
    server = None if listening is None else await _server(connections, listening)
    try:
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(connections.look(), name="front: slow clients")
            yield
            looking.cancel()
    finally:
        if server is not None:
            server.close()
        connections.close_idle()
        await connections.shutdown(within)


async def _server(connections: Connections, listening: socket.socket) -> asyncio.Server:
    connections.most = most_connections(connections.most)
    server = await asyncio.get_running_loop().create_server(connections, sock=listening, backlog=_BACKLOG)
    log.info("serving load data", address="{}:{}".format(*listening.getsockname()[:2]))
    return server
