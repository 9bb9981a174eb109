"""The port of the webhook: connections over TLS, with whatever pair is current, until the last answer is out.

Connections are accepted here and not by the loop's own server, which is bound to one context for life: this way a
new pair counts from the next handshake on, connections that are open go on, and none is lost between two listeners.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog
from aiohttp import web

log = structlog.stdlib.get_logger(__name__)

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

# From the first byte of a request to the last of its body. What is looked at twice a second is found in time.
REQUEST_WITHIN: Final = 10.0
_LOOK_EVERY: Final = 0.5
# How long what follows an answer to an unread body is still taken, so that the answer is not lost to a reset.
_LINGERING: Final = 5.0
_HANDSHAKE_WITHIN: Final = 10.0
_GOODBYE_WITHIN: Final = 5.0
# No connection can be accepted while there are no file descriptors, say; asyncio's own servers wait as long.
_AFTER_FAILURE: Final = 1.0


class Connection(web.RequestHandler):
    """One connection, which knows since when a request has been coming in."""

    __slots__ = ("_watched_by", "coming_since", "too_slow")

    def __init__(self, manager: "Connections", *, loop: asyncio.AbstractEventLoop, **options: Any) -> None:
        super().__init__(manager, loop=loop, **options)
        self._watched_by = manager
        self.coming_since: float | None = None
        self.too_slow = False

    def data_received(self, data: bytes) -> None:
        if self.coming_since is None:
            self.coming_since = self._loop.time()
            self._watched_by.watch()
        super().data_received(data)

    def end_slow(self) -> None:
        """Closes it in the middle of a request."""
        self.too_slow = True
        self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,  # noqa: ARG002 - the library's signature
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - it would quote the request
    ) -> web.StreamResponse:
        """What is no HTTP, and what a handler raised."""
        if status >= 500:
            log.error("request failed", error=type(exc).__name__)
        response = web.Response(status=status, text="the request cannot be handled\n")
        response.force_close()
        return response


class Connections(web.Server):
    """All connections, of all listeners."""

    def __init__(self, handler: Handler, keep_alive: float) -> None:
        super().__init__(handler)
        self._loop = asyncio.get_running_loop()
        self._keep_alive = keep_alive
        self._look: asyncio.TimerHandle | None = None

    def __call__(self) -> Connection:
        return Connection(
            self,
            loop=self._loop,
            keepalive_timeout=self._keep_alive,
            access_log=None,
            auto_decompress=False,
            lingering_time=_LINGERING,
            logger=log,
        )

    def watch(self) -> None:
        """A request is coming in somewhere: looks after it, as long as there is one."""
        if self._look is None:
            self._look = self._loop.call_later(_LOOK_EVERY, self._end_slow)

    def _end_slow(self) -> None:
        self._look = None
        now, slow = self._loop.time(), 0
        for connection in self.connections:
            if isinstance(connection, Connection) and connection.coming_since is not None:
                self.watch()
                if now - connection.coming_since > REQUEST_WITHIN - 2 * _LOOK_EVERY:
                    connection.end_slow()
                    slow += 1
        if slow:
            log.info("slow requests ended", connections=slow)

    def close_idle(self) -> None:
        """Closes what has no request under way, and the others after their answer."""
        for connection in self.connections:
            connection.close()


class Serving:
    """Serves `handler` on a listening socket. Nothing is accepted before the first `present`."""

    def __init__(self, handler: Handler, listening: socket.socket, keep_alive: float) -> None:
        self._connections = Connections(handler, keep_alive)
        self._socket = listening
        self._socket.setblocking(False)
        self._context: ssl.SSLContext | None = None
        self._presented = asyncio.Event()

    def present(self, context: ssl.SSLContext) -> None:
        """From now on handshakes are made with this context."""
        self._context = context
        self._presented.set()

    async def accept(self) -> None:
        """Takes connections until it is cancelled."""
        loop = asyncio.get_running_loop()
        await self._presented.wait()
        async with asyncio.TaskGroup() as handshakes:
            while True:
                try:
                    accepted, _ = await loop.sock_accept(self._socket)
                except OSError as error:
                    log.warning("no connection can be accepted", problem=str(error))
                    await asyncio.sleep(_AFTER_FAILURE)
                else:
                    handshakes.create_task(self._connect(accepted))

    async def _connect(self, accepted: socket.socket) -> None:
        """A handshake. One that fails is the client's affair."""
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._connections,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=_HANDSHAKE_WITHIN,
                ssl_shutdown_timeout=_GOODBYE_WITHIN,
            )
        except OSError as error:
            log.debug("no handshake", problem=str(error))

    async def close(self, within: float) -> None:
        """Ends idle connections now, the others after their answer, and in `within` seconds whatever is left."""
        self._socket.close()
        self._connections.close_idle()
        await self._connections.shutdown(within)
