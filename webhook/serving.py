"""The port of the webhook: connections over TLS, with whatever pair is current, until the last answer is out.

A new pair takes a new listener on the same socket: connections that are open go on, those that wait are not lost, and
none is made with a context that changes under it.
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


class Connection(web.RequestHandler):
    """One connection, which knows since when a request has been coming in."""

    __slots__ = ("coming_since", "too_slow")

    def __init__(self, manager: web.Server, *, loop: asyncio.AbstractEventLoop, **options: Any) -> None:
        super().__init__(manager, loop=loop, **options)
        self.coming_since: float | None = None
        self.too_slow = False

    def data_received(self, data: bytes) -> None:
        if self.coming_since is None:
            self.coming_since = self._loop.time()
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

    def close_slow(self, now: float) -> int:
        """Closes what takes too long over a request; returns how many."""
        slow = [each for each in self.connections if isinstance(each, Connection) and _is_slow(each, now)]
        for connection in slow:
            connection.end_slow()
        return len(slow)

    def close_idle(self) -> None:
        """Closes what has no request under way, and the others after their answer."""
        for connection in self.connections:
            connection.close()


def _is_slow(connection: Connection, now: float) -> bool:
    since = connection.coming_since
    return since is not None and now - since > REQUEST_WITHIN - 2 * _LOOK_EVERY


class Serving:
    """Serves `handler` on a listening socket. Nothing is accepted before the first `present`."""

    def __init__(self, handler: Handler, listening: socket.socket, keep_alive: float) -> None:
        self._connections = Connections(handler, keep_alive)
        self._socket = listening
        self._listener: asyncio.Server | None = None

    async def present(self, context: ssl.SSLContext) -> None:
        """From now on handshakes are made with this context."""
        before = self._listener
        self._listener = await asyncio.get_running_loop().create_server(
            self._connections,
            sock=self._socket.dup(),
            ssl=context,
            ssl_handshake_timeout=_HANDSHAKE_WITHIN,
            ssl_shutdown_timeout=_GOODBYE_WITHIN,
        )
        if before is not None:
            before.close()

    async def watch_over(self) -> None:
        """Ends slow requests, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            slow = self._connections.close_slow(loop.time())
            if slow:
                log.info("slow requests ended", connections=slow)

    def refuse(self) -> None:
        """Accepts no more connections; those that are there go on."""
        if self._listener is not None:
            self._listener.close()
        self._socket.close()

    async def close(self, within: float) -> None:
        """Ends idle connections now, the others after their answer, and in `within` seconds whatever is left."""
        self._connections.close_idle()
        await self._connections.shutdown(within)
