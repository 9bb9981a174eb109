"""The port of the webhook: connections over TLS, with whatever pair is current, until the last answer is out.

Connections are accepted here and not by the loop's own server, which is bound to one context for life: this way a
new pair counts from the next handshake on, connections that are open go on, and none is lost between two listeners.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from webhook.connection import Connection, Handler

log = structlog.stdlib.get_logger(__name__)

_HANDSHAKE_WITHIN: Final = 10.0
_GOODBYE_WITHIN: Final = 5.0
# No connection can be accepted while there are no file descriptors, say; asyncio's own servers wait as long.
_AFTER_FAILURE: Final = 1.0


class Connections:
    """All that are open; called, it makes another one. `now` is the wall clock."""

    def __init__(self, handler: Handler, keep_alive: float, now: Callable[[], float]) -> None:
        self._handler = handler
        self._keep_alive = keep_alive
        self._now = now
        self._open = set[Connection]()
        self._none = asyncio.Event()
        self._none.set()

    def __call__(self) -> Connection:
        return Connection(self._handler, self, self._keep_alive, self._now)

    def begun(self, connection: Connection) -> None:
        self._open.add(connection)
        self._none.clear()

    def over(self, connection: Connection) -> None:
        self._open.discard(connection)
        if not self._open:
            self._none.set()

    async def close(self, within: float) -> None:
        """Closes what has no request under way now, and in `within` seconds whatever is left."""
        for connection in tuple(self._open):
            connection.close_if_quiet()
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._none.wait()
        for connection in tuple(self._open):
            connection.abort()


class Serving:
    """Serves on a listening socket. Nothing is accepted before the first `present`."""

    def __init__(self, connections: Connections, listening: socket.socket) -> None:
        self._connections = connections
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
        await self._connections.close(within)
