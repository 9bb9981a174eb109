"""HTTP/1.1 in as little memory as it takes: one request per connection, each way.

For `ebbtide agent`, which stands on every node of a cluster, and of whose memory aiohttp would be half. The syntax is
llhttp's affair (httptools); here are time limits, sizes and connections. Nothing is kept alive: the agent asks about
once a second.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import urlencode, urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, HttpResponseParser

from ebbtide.connecting import address, words_of

_CHUNK: Final = 1 << 16
# Far above what any server here sends, far below what hurts. So much of a message may come one after the other without
# anything of its body: a head, and no less the trailers after the last chunk.
_LARGEST_HEAD: Final = 1 << 16


class HttpError(Exception):
    """There was no answer, or none that makes sense. The words say which, with host and port at the most."""


@dataclass(frozen=True, slots=True)
class Request:
    """`url` without user and fragment. `context` is the TLS context of an https URL."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    context: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """A complete answer; header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def exchange(request: Request, *, within: float, largest: int) -> Response:
    """Sends one request on a connection of its own.

    `within` seconds cover all of it, `largest` is the most bytes of body that are read. Raises HttpError.
    """
    parts = urlsplit(request.url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(within):
            reader, writer = await asyncio.open_connection(
                parts.hostname, port, ssl=request.context if parts.scheme == "https" else None
            )
            try:
                writer.write(_head(request, parts.netloc, parts.path) + request.body)
                return await _response(reader, largest)
            finally:
                # Not a wait for the other end's good-bye: the answer is there, or will not be.
                writer.transport.abort()
    except TimeoutError:
        raise HttpError(f"no answer within {within:g} s") from None
    except (OSError, ValueError) as error:
        raise HttpError(words_of(error, address(parts.hostname or "", port))) from error


def _head(request: Request, host: str, path: str) -> bytes:
    """Raises ValueError for what would not stay on its line."""
    target = (path or "/") + (f"?{urlencode(request.params)}" if request.params else "")
    fields = {"Host": host, **request.headers, "Connection": "close"}
    if request.body or request.method not in ("GET", "HEAD"):
        fields["Content-Length"] = str(len(request.body))
    lines = [f"{request.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a line break in a header")
    return "\r\n".join((*lines, "", "")).encode("latin-1")


class _Message:
    """What a parser has told of a message so far."""

    def __init__(self, largest: int) -> None:
        self.target = b""
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.begun = self.complete = False
        self._largest = largest

    def on_url(self, part: bytes) -> None:
        self.target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.begun = True

    def on_body(self, chunk: bytes) -> None:
        # What is too much is not kept; `over` then ends the reading.
        if len(self.body) <= self._largest:
            self.body += chunk

    def on_message_complete(self) -> None:
        self.complete = True

    @property
    def over(self) -> bool:
        return len(self.body) > self._largest

    @property
    def ends_with_connection(self) -> bool:
        """No length was given: the end of the connection is the end of the body (RFC 9112 §6.3)."""
        return self.begun and not self.headers.keys() & {"content-length", "transfer-encoding"}


class _Parser(Protocol):
    def feed_data(self, data: bytes) -> Any: ...


async def _read(reader: asyncio.StreamReader, parser: _Parser, message: _Message) -> None:
    """Reads until the message, or the connection, ends. Raises HttpError."""
    barren = 0
    while not message.complete:
        data = await reader.read(_CHUNK)
        if not data:
            return
        size = len(message.body)
        try:
            parser.feed_data(data)
        except HttpParserUpgrade:
            raise HttpError("another protocol than HTTP/1.1") from None
        except HttpParserError as error:
            raise HttpError(f"no HTTP: {error}") from error
        barren = 0 if len(message.body) != size else barren + len(data)
        if barren > _LARGEST_HEAD:
            raise HttpError("endless headers")
        if message.over:
            raise HttpError("a longer body than is read")


async def _response(reader: asyncio.StreamReader, largest: int) -> Response:
    message = _Message(largest)
    parser = HttpResponseParser(message)
    await _read(reader, parser, message)
    if not message.complete and not message.ends_with_connection:
        raise HttpError("the connection ended before the answer did")
    return Response(parser.get_status_code(), message.headers, bytes(message.body))


# --- the other way ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came in; `path` without its query."""

    method: str
    path: str
    headers: Mapping[str, str]


Answering = Callable[[Asked], Awaitable[Response]]


async def serve_one(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answering: Answering, *, within: float
) -> None:
    """Answers the one request of a connection, and closes it. `within` seconds cover reading and writing."""
    try:
        async with asyncio.timeout(within):
            writer.write(_reply(await _answer(reader, answering)))
            await writer.drain()
            writer.close()
            await writer.wait_closed()
    except (TimeoutError, OSError):
        # Nobody is there any more, or somebody who is too slow to be worth a connection.
        writer.transport.abort()


async def _answer(reader: asyncio.StreamReader, answering: Answering) -> Response:
    message = _Message(largest=0)
    parser = HttpRequestParser(message)
    with contextlib.suppress(HttpError):
        await _read(reader, parser, message)
    if not message.complete:
        return Response(400, {}, b"the request cannot be handled\n")
    method = parser.get_method().decode("latin-1")
    path = urlsplit(message.target.decode("latin-1")).path
    return await answering(Asked(method, path, message.headers))


def _reply(response: Response) -> bytes:
    fields = {
        "Content-Type": "text/plain; charset=utf-8",
        **response.headers,
        "Content-Length": str(len(response.body)),
        "Connection": "close",
    }
    lines = [f"HTTP/1.1 {response.status} -", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1") + response.body
