"""A client that costs little: requests made up beforehand, on connections that are kept.

It speaks as much HTTP/1.1 as the answers that are measured need, and takes one status only. It measures by a clock of
its own: that of a uvloop has milliseconds only.
"""

import asyncio
import itertools
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Final, Generic, TypeVar, cast

T = TypeVar("T")

_HOST: Final = "127.0.0.1"
_LENGTH: Final = b"content-length:"
_END: Final = b"\r\n\r\n"
# How much longer than planned a run may take.
_PATIENCE: Final = 60.0


class AnswerError(Exception):
    """An answer that is none."""


class Connection(asyncio.Protocol):
    """One request at a time, each to be answered with the `good` status.

    `answered` is called with the body of each answer, `broken` when there are no more.
    """

    def __init__(self, good: int) -> None:
        self._good = f"HTTP/1.1 {good} ".encode()
        self.answered: Callable[[bytes], None] = _ignored
        self.broken: Callable[[Exception], None] = _ignored
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by descent

    def connection_lost(self, exc: Exception | None) -> None:
        self.broken(exc or AnswerError("the connection was closed"))

    def send(self, request: bytes) -> None:
        assert self._transport is not None
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        end = received.find(_END)
        if end < 0:
            return
        begun = end + len(_END)
        length = _length(bytes(received[:begun]).lower())
        if length is None or not received.startswith(self._good):
            self.broken(AnswerError(received[:500].decode(errors="replace")))
        elif len(received) >= begun + length:
            body = bytes(received[begun:])
            received.clear()
            self.answered(body)

    def close(self) -> None:
        self.broken = _ignored
        if self._transport is not None:
            self._transport.abort()


@dataclass(frozen=True)
class Target:
    """A server of 127.0.0.1, whom to trust for it (None: no TLS), what is asked of it, and how it is to answer."""

    port: int
    trust: ssl.SSLContext | None
    path: str = "/mutate"
    method: str = "POST"
    good: int = 200

    def request(self, body: bytes) -> bytes:
        """The bytes of a request."""
        head = f"{self.method} {self.path} HTTP/1.1\r\nHost: {_HOST}\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    @asynccontextmanager
    async def connections(self, count: int) -> AsyncIterator[list[Connection]]:
        """Open ones. Raises OSError."""
        loop = asyncio.get_running_loop()
        opened: list[Connection] = []
        try:
            for _ in range(count):
                name = None if self.trust is None else _HOST
                _, made = await loop.create_connection(
                    lambda: Connection(self.good), _HOST, self.port, ssl=self.trust, server_hostname=name
                )
                opened.append(made)
            yield opened
        finally:
            for each in opened:
                each.close()


async def one(target: Target, body: bytes) -> bytes:
    """The body of the answer to one request. Raises OSError, AnswerError, TimeoutError."""
    async with target.connections(1) as (connection,):
        over = _Over[bytes]()
        connection.answered, connection.broken = over.done, over.failed
        connection.send(target.request(body))
        return await over.within(10.0)


async def saturate(target: Target, bodies: Sequence[bytes], seconds: float, width: int) -> tuple[int, float]:
    """Each of `width` connections asks again as soon as it has an answer; how many it got, and in how many seconds.

    It asks for one body after the other, over and over. Raises OSError, AnswerError, TimeoutError.
    """
    requests = itertools.cycle([target.request(body) for body in bodies])
    async with target.connections(width) as opened:
        over = _Over[None]()
        begun, count, asking = perf_counter(), 0, width

        def answered(connection: Connection, _body: bytes) -> None:
            nonlocal count, asking
            count += 1
            if perf_counter() - begun < seconds:
                connection.send(next(requests))
                return
            asking -= 1
            if not asking:
                over.done(None)

        for each in opened:
            each.answered, each.broken = partial(answered, each), over.failed
            each.send(next(requests))
        await over.within(seconds + _PATIENCE)
        return count, perf_counter() - begun


async def paced(target: Target, body: bytes, seconds: float, rate: float, width: int) -> list[float]:
    """`rate` requests per second, evenly; the seconds that each took, with the wait for a free connection.

    Raises OSError, AnswerError, TimeoutError.
    """
    async with target.connections(width) as opened:
        arrivals = _Arrivals(target.request(body), opened, int(seconds * rate))
        return await arrivals.run(rate, seconds + _PATIENCE)


class _Over(Generic[T]):
    """How a run ends: the first end counts."""

    def __init__(self) -> None:
        self._result: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def done(self, result: T) -> None:
        if not self._result.done():
            self._result.set_result(result)

    def failed(self, error: Exception) -> None:
        if not self._result.done():
            self._result.set_exception(error)

    async def within(self, seconds: float) -> T:
        async with asyncio.timeout(seconds):
            return await self._result


class _Arrivals:
    """Requests that come when they are due, whether there is a free connection or not."""

    def __init__(self, request: bytes, connections: list[Connection], count: int) -> None:
        self._request = request
        self._count = count
        self._free = deque(connections)
        self._waiting = deque[float]()
        self._took: list[float] = []
        self._over = _Over[list[float]]()
        for each in connections:
            each.broken = self._over.failed

    async def run(self, rate: float, within: float) -> list[float]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for number in range(self._count):
            loop.call_at(begun + number / rate, self._arrive)
        return await self._over.within(within)

    def _arrive(self) -> None:
        if self._free:
            self._send(self._free.popleft(), perf_counter())
        else:
            self._waiting.append(perf_counter())

    def _send(self, connection: Connection, since: float) -> None:
        connection.answered = partial(self._answered, connection, since)
        connection.send(self._request)

    def _answered(self, connection: Connection, since: float, _body: bytes) -> None:
        self._took.append(perf_counter() - since)
        if self._waiting:
            self._send(connection, self._waiting.popleft())
        else:
            self._free.append(connection)
        if len(self._took) == self._count:
            self._over.done(self._took)


def _ignored(_what: object) -> None:
    """Nobody is interested."""


def _length(head: bytes) -> int | None:
    """Of the body; None where the head does not say: nothing that is measured here answers in chunks."""
    at = head.find(_LENGTH)
    return None if at < 0 else int(head[at + len(_LENGTH) : head.index(b"\r", at)])
