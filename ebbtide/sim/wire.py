"""A network without sockets: aiohttp's client and server protocols, joined by two queues of bytes.

Everything above the socket is the real thing: HTTP parser, connection pool, chunked streams, flow control, and what a
client feels when a connection breaks. Nothing leaves the event loop, so that a run on simulated time is reproducible.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Iterable
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest
from aiohttp.tracing import Trace

# As asyncio's socket transports: how many bytes the other side may leave unread before the writer is told to wait.
HIGH_WATER: Final = 64 * 1024
# Seconds that idle connections stay: the pool measures them on the machine's clock, not on the loop's.
FOR_EVER: Final = 3.2e9

Accept = Callable[[], asyncio.Protocol]


class MemoryTransport(asyncio.Transport):
    """One end of a connection. What is written here is received by `peer`."""

    peer: "MemoryTransport"

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: asyncio.Protocol, forget: Callable[[], None]) -> None:
        super().__init__({"peername": ("memory", 0), "sockname": ("memory", 0)})
        self._loop = loop
        self._protocol = protocol
        self._forget = forget
        self._received: list[bytes] = []
        self.unread = 0
        self._delivery: asyncio.Handle | None = None
        self._reading = True
        self._peer_waits = False
        self._ended = False
        self._closing = False

    # --- what a protocol calls -------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closing and data:
            self.peer.receive(bytes(data))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self.peer.end()
            self._lose(None)

    def abort(self) -> None:
        """Breaks the connection: the other side sees a reset, and what it has not read yet is lost."""
        if not self._closing:
            self.peer.reset()
            self._lose(None)

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._schedule()

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def get_write_buffer_size(self) -> int:
        return self.peer.unread

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    # --- what the other end does -----------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        self._received.append(data)
        self.unread += len(data)
        if self.unread > HIGH_WATER and not self._peer_waits:
            self._peer_waits = True
            self.peer.get_protocol().pause_writing()
        self._schedule()

    def end(self) -> None:
        """No more data will come; what is there is still delivered."""
        self._ended = True
        self._schedule()

    def reset(self) -> None:
        if not self._closing:
            self._lose(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def _schedule(self) -> None:
        if self._delivery is None and not self._closing:
            self._delivery = self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._delivery = None
        if self._closing or not self._reading:
            return
        data, self._received, self.unread = b"".join(self._received), [], 0
        if data:
            self._protocol.data_received(data)
        if self._peer_waits:
            self._peer_waits = False
            if not self.peer.is_closing():
                self.peer.get_protocol().resume_writing()
        if self._ended and not self._received and not self._closing:
            self._protocol.eof_received()
            self._lose(None)

    def _lose(self, cause: Exception | None) -> None:
        self._closing = True
        self._received.clear()
        if self._delivery is not None:
            self._delivery.cancel()
        self._forget()
        self._loop.call_soon(self._protocol.connection_lost, cause)


class Wire:
    """The network in front of one server.

    `refusing` makes it look as if nothing listened there; `accepted` counts the connections that were made.
    """

    def __init__(self, accept: Accept) -> None:
        self._accept = accept
        self._open: dict[int, MemoryTransport] = {}
        self.accepted = 0
        self.refusing = False

    def connector(self) -> aiohttp.BaseConnector:
        """A new pool of connections to the server."""
        return _MemoryConnector(lambda _host, _port: self)

    def connect(self, client: asyncio.Protocol) -> None:
        """Joins the protocol with a new one of the server. Raises ConnectionRefusedError."""
        if self.refusing:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        self.accepted += 1
        number, loop, server = self.accepted, asyncio.get_running_loop(), self._accept()
        near = MemoryTransport(loop, client, lambda: None)
        far = MemoryTransport(loop, server, lambda: self._forget(number))
        near.peer, far.peer = far, near
        self._open[number] = far
        server.connection_made(far)
        client.connection_made(near)

    def reset(self) -> None:
        """Breaks every open connection, as a server does that is killed."""
        for transport in list(self._open.values()):
            transport.abort()

    def _forget(self, number: int) -> None:
        self._open.pop(number, None)


class Network:
    """Many servers, each at a host and port; where none listens, connections are refused.

    `resolve` gives the host that a name leads to, as a DNS would, and "" for a name that leads nowhere.
    """

    def __init__(self, resolve: Callable[[str], str] = str) -> None:
        self._resolve = resolve
        self._wires: dict[tuple[str, int], Wire] = {}

    def listen(self, host: str, port: int, accept: Accept) -> Wire:
        """A server from now on; another that was there before loses its place, and its connections."""
        self.leave(host, port)
        wire = self._wires[host, port] = Wire(accept)
        return wire

    def leave(self, host: str, port: int) -> None:
        """Nobody listens there any more; open connections break."""
        wire = self._wires.pop((host, port), None)
        if wire is not None:
            wire.refusing = True
            wire.reset()

    def connector(self) -> aiohttp.BaseConnector:
        """A new pool of connections to everything there."""
        return _MemoryConnector(self.find)

    def find(self, host: str, port: int) -> Wire:
        """Raises OSError as sockets do: gaierror for a name that leads nowhere, ConnectionRefusedError."""
        address = self._resolve(host)
        if not address:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        wire = self._wires.get((address, port))
        if wire is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        return wire


class _MemoryConnector(aiohttp.BaseConnector):
    def __init__(self, find: Callable[[str, int], Wire]) -> None:
        super().__init__(limit=0, keepalive_timeout=FOR_EVER)
        self._find = find

    async def _create_connection(
        self, req: ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        del traces, timeout
        protocol = self._factory()
        key = req.connection_key
        try:
            self._find(key.host or "", key.port or 0).connect(protocol)
        except OSError as refused:
            raise aiohttp.ClientConnectorError(req.connection_key, refused) from refused
        return protocol
