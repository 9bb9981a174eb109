"""The port of the webhook: connections over TLS, with whatever pair is current, until the last answer is out.

Connections are accepted here and not by the loop's own server, which is bound to one context for life: this way a
new pair counts from the next handshake on, connections that are open go on, and none is lost between two listeners.

There are so many connections and no more. For one more the one that has been idle longest ends, which to an API server
is no loss; while all are at work the one more waits, and the next answer ends its connection.
"""

import asyncio
import math
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import Final

import structlog

from webhook.budget import Budget
from webhook.connection import Connection, Handler

log = structlog.stdlib.get_logger(__name__)

_HANDSHAKE_WITHIN: Final = 10.0
_GOODBYE_WITHIN: Final = 5.0
# No connection can be accepted while there are no file descriptors, say; asyncio's own servers wait as long.
_AFTER_FAILURE: Final = 1.0
# Of what is not read yet the kernel keeps as much for each connection, and counts it as memory of the pod; left to
# itself it grows to megabytes. It lets 100 MB/s through where an answer takes 2 ms to come.
_KERNEL_KEEPS: Final = 256 * 1024
# So many bodies of the largest size are held at once. They are read one after the other, by one processor.
_LARGEST_AT_ONCE: Final = 8
# As many more may wait, each with what it had sent before it had to. More would not have their turn in time.
_MOST_WAITING: Final = 64
# Connections without a request that are kept beside those that have one: of each API server 25 for each of three
# registrations at most (client-go, `idleConnsPerHost`), so that three of them find all of theirs again.
_IDLE: Final = 256
# Who has been idle for less may be about to ask; also how often those who are idle are looked at anew.
_ABOUT_TO_ASK: Final = 1.0


class Connections:
    """All that are open; called, it makes another one. `now` is the wall clock.

    Those with requests are to be `most_at_once`. At most half of these wait for room, so that small ones get through.
    """

    def __init__(self, handler: Handler, most_at_once: int, keep_alive: float, now: Callable[[], float]) -> None:
        self.crowded = False
        self._handler = handler
        self._budget = Budget(_LARGEST_AT_ONCE * handler.largest, min(_MOST_WAITING, most_at_once // 2))
        self._most = most_at_once + _IDLE
        self._keep_alive = keep_alive
        self._now = now
        self._open = set[Connection]()
        self._handshakes: dict[socket.socket, float] = {}
        self._fewer = asyncio.Event()

    def __call__(self) -> Connection:
        return Connection(self._handler, self, self._budget, self._keep_alive, self._now)

    def begun(self, connection: Connection) -> None:
        self._open.add(connection)

    def over(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._fewer.set()

    def shaking_hands(self, accepted: socket.socket) -> None:
        """This one counts too, until it has shaken hands."""
        self._handshakes[accepted] = asyncio.get_running_loop().time()

    def has_shaken_hands(self, accepted: socket.socket) -> None:
        del self._handshakes[accepted]
        self._fewer.set()

    async def room(self) -> None:
        """Returns when there may be one more."""
        while len(self._open) + len(self._handshakes) >= self._most:
            self._fewer.clear()
            self.crowded = not self._end_longest_idle()
            with suppress(TimeoutError):
                async with asyncio.timeout(_ABOUT_TO_ASK):
                    await self._fewer.wait()
        self.crowded = False

    def _end_longest_idle(self) -> bool:
        """Whether there was one: an open one, or one whose handshake takes its time."""
        candidates: list[tuple[float, Callable[[], None]]] = [
            (since, each.abort) for each in self._open if (since := each.idle_since) is not None
        ]
        candidates += [(since, partial(_hang_up, each)) for each, since in self._handshakes.items()]
        since, end = min(candidates, key=itemgetter(0), default=(math.inf, None))
        if end is None or since > asyncio.get_running_loop().time() - _ABOUT_TO_ASK:
            return False
        end()
        return True

    async def close(self, within: float) -> None:
        """Closes what has no request under way now, and in `within` seconds whatever is left."""
        for connection in tuple(self._open):
            connection.close_if_quiet()
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while self._open:
                    self._fewer.clear()
                    await self._fewer.wait()
        for connection in tuple(self._open):
            connection.abort()


def _hang_up(accepted: socket.socket) -> None:
    """Fails its handshake."""
    with suppress(OSError):
        accepted.shutdown(socket.SHUT_RDWR)


class Serving:
    """Serves on a listening socket. Nothing is accepted before the first `present`."""

    def __init__(self, connections: Connections, listening: socket.socket) -> None:
        self._connections = connections
        self._socket = listening
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _KERNEL_KEEPS)  # each that is accepted inherits it
        self._context: ssl.SSLContext | None = None
        self._presented = asyncio.Event()

    def present(self, context: ssl.SSLContext) -> None:
        """From now on handshakes are made with this context."""
        self._context = context
        self._presented.set()

    @property
    def presented(self) -> bool:
        """Whether anybody can have got further than a handshake."""
        return self._presented.is_set()

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
                    await self._connections.room()
                    self._connections.shaking_hands(accepted)
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
        finally:
            self._connections.has_shaken_hands(accepted)

    async def close(self, within: float) -> None:
        """Ends idle connections now, the others after their answer, and in `within` seconds whatever is left."""
        self._socket.close()
        await self._connections.close(within)
