"""A proxy on loopback between a client and an API server, which misbehaves exactly where a test says.

    async with FaultProxy(server, ca_file=…, certificate=…, key=…) as proxy:
        proxy.inject(Refuse(409), method="PATCH", path="/api/v1/nodes/", times=1)

A rule acts on requests that match its method, path (a regular expression, searched in path and query) and body (bytes
that are somewhere in it). It lets the first `skip` of them pass, then acts `times` times (None: always). Rules are
asked in the order of their injection; the first one that acts has the request. Credentials pass through; what the proxy
answers itself never reaches the server.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson
from aiohttp import web
from yarl import URL

from ebbtide.kube.access import Access, from_url
from tests.controlplane.servers import ControlPlane

# Seconds for what is still under way at the end; 0 would be for ever to aiohttp, and nobody answers what is held.
GOODBYE = 0.1
# Meaningful for one connection only (RFC 9110 §7.6.1), or set anew by the side that sends.
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host"})

_REASONS = {
    HTTPStatus.CONFLICT: "Conflict",
    HTTPStatus.FORBIDDEN: "Forbidden",
    HTTPStatus.GATEWAY_TIMEOUT: "Timeout",
    HTTPStatus.GONE: "Expired",
    HTTPStatus.INTERNAL_SERVER_ERROR: "InternalError",
    HTTPStatus.NOT_FOUND: "NotFound",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailable",
    HTTPStatus.TOO_MANY_REQUESTS: "TooManyRequests",
    HTTPStatus.UNAUTHORIZED: "Unauthorized",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Invalid",
}


@dataclass(frozen=True)
class Refuse:
    """Answer with a Status of that code. `retry_after` in seconds, None sends no header; `cause` goes into details."""

    code: int
    retry_after: int | None = None
    cause: str = ""
    message: str = "refused by the fault proxy"


@dataclass(frozen=True)
class Delay:
    """Wait that many seconds before and after the server is asked."""

    before: float = 0.0
    after: float = 0.0


@dataclass(frozen=True)
class Hold:
    """Keep the request (`before`) or its answer (`after`) back until the event is set."""

    before: asyncio.Event | None = None
    after: asyncio.Event | None = None


@dataclass(frozen=True)
class Drop:
    """Close the connection; the server never hears of the request."""


@dataclass(frozen=True)
class LoseAnswer:
    """Let the server do what was asked, then close the connection instead of answering."""


@dataclass(frozen=True)
class CutStream:
    """Pass that many lines of the answer, then close the connection."""

    after_lines: int = 0


@dataclass(frozen=True)
class FreezeStream:
    """Pass that many lines of the answer, then nothing more, with the connection open."""

    after_lines: int = 0


Fault = Refuse | Delay | Hold | Drop | LoseAnswer | CutStream | FreezeStream


@dataclass(eq=False)
class Rule:
    """One injected fault; `acted` counts how often it has acted."""

    fault: Fault
    method: str
    path: re.Pattern[str]
    skip: int
    times: int | None
    body: bytes = b""
    acted: int = 0

    def takes(self, seen: "Seen") -> bool:
        if self.method not in ("", seen.method) or not self.path.search(seen.path) or self.body not in seen.body:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.times is not None and self.acted >= self.times:
            return False
        self.acted += 1
        return True


@dataclass(eq=False)
class Seen:
    """One request as it arrived. `path` has the query; `time` is loop time; `body` as sent.

    `status` is what the server behind has answered, None as long as it has not, or was never asked; `ended` the loop
    time at which the client had its answer.
    """

    method: str
    path: str
    agent: str
    content_type: str
    body: bytes = field(repr=False)
    time: float
    status: int | None = None
    ended: float = float("inf")


@dataclass(frozen=True)
class _Announced:
    """Requests that a test expects the server to forbid."""

    method: str
    path: re.Pattern[str]

    def names(self, seen: Seen) -> bool:
        return self.method == seen.method and self.path.search(seen.path) is not None


class FaultProxy:
    """Serves on a port of its own, with the same certificate as the server behind it. An async context manager."""

    def __init__(self, server: str, *, ca_file: Path, certificate: Path, key: Path) -> None:
        self._upstream = server
        self._ca_file = ca_file
        self._trust = ssl.create_default_context(cafile=ca_file)
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(certificate, key)
        self._rules: list[Rule] = []
        self._streams: set[asyncio.Transport] = set()
        self._announced: list[_Announced] = []
        self._excused: set[Seen] = set()
        self.requests: list[Seen] = []
        self.url = ""

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._trust, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        app = web.Application(client_max_size=0)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=GOODBYE)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"https://127.0.0.1:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._runner.cleanup()
        await self._session.close()

    def access(self, token: str) -> Access:
        """Access to the server behind, by way of this proxy."""
        return from_url(self.url, token=token, ca_file=self._ca_file)

    def inject(
        self,
        fault: Fault,
        *,
        method: str = "",
        path: str = "",
        body: bytes = b"",
        skip: int = 0,
        times: int | None = None,
    ) -> Rule:
        """Adds a rule, which acts until it is used up or withdrawn."""
        rule = Rule(fault, method, re.compile(path), skip, times, body)
        self._rules.append(rule)
        return rule

    def withdraw(self, rule: Rule) -> None:
        self._rules.remove(rule)

    def matching(self, method: str, path: str, body: bytes = b"") -> list[Seen]:
        """What has arrived so far of that method (empty: any) and path (a regular expression), with `body` in it."""
        pattern = re.compile(path)
        named = [seen for seen in self.requests if method in ("", seen.method) and pattern.search(seen.path)]
        return [seen for seen in named if body in seen.body]

    def most_at_once(self, method: str, path: str) -> int:
        """How many of the matching requests were under way at the same moment, at the most."""
        seen = self.matching(method, path)
        return max((sum(other.time <= each.time < other.ended for other in seen) for each in seen), default=0)

    def cut_streams(self) -> int:
        """Closes the connection of every watch that is open now, and says how many there were."""
        streams = list(self._streams)
        for transport in streams:
            transport.abort()
        return len(streams)

    def expect_forbidden(self, method: str, path: str) -> None:
        """Announces that the server behind forbids such requests (`path` is a regular expression)."""
        self._announced.append(_Announced(method, re.compile(path)))

    @contextmanager
    def roles_unknown(self) -> Iterator[None]:
        """Until this ends the server may forbid what it likes: one that has just started does not know its roles."""
        before = len(self.requests)
        yield
        self._excused.update(self.requests[before:])

    def surprises(self) -> list[str]:
        """What the server behind has forbidden although nobody has announced it, and what was announced in vain."""
        forbidden = [
            seen for seen in self.requests if seen.status == HTTPStatus.FORBIDDEN and seen not in self._excused
        ]
        unannounced = [seen for seen in forbidden if not any(each.names(seen) for each in self._announced)]
        in_vain = [each for each in self._announced if not any(map(each.names, forbidden))]
        return [
            *(f"forbidden to {seen.agent}: {seen.method} {seen.path}" for seen in unannounced),
            *(f"not forbidden: {each.method} {each.path.pattern}" for each in in_vain),
        ]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        seen = self._record(request, body)
        fault = self._fault(seen)
        if isinstance(fault, Refuse):
            return _refusal(fault)
        if isinstance(fault, Drop):
            return _hang_up(request)
        await _pause(fault, "before")
        try:
            return await self._forward(request, seen, fault)
        except aiohttp.ClientError:
            return _hang_up(request)
        finally:
            seen.ended = asyncio.get_running_loop().time()

    def _record(self, request: web.Request, body: bytes) -> Seen:
        agent, content_type = request.headers.get("User-Agent", ""), request.headers.get("Content-Type", "")
        now = asyncio.get_running_loop().time()
        seen = Seen(request.method, request.raw_path, agent, content_type, body, now)
        self.requests.append(seen)
        return seen

    def _fault(self, seen: Seen) -> Fault | None:
        return next((rule.fault for rule in self._rules if rule.takes(seen)), None)

    async def _forward(self, request: web.Request, seen: Seen, fault: Fault | None) -> web.StreamResponse:
        url = URL(self._upstream + request.raw_path, encoded=True)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        headers["Accept-Encoding"] = "identity"  # lines of a stream are counted here
        async with self._session.request(
            request.method, url, data=seen.body or None, headers=headers, allow_redirects=False
        ) as answer:
            seen.status = answer.status
            if isinstance(fault, LoseAnswer):
                await answer.read()
                return _hang_up(request)
            if "watch" in request.query or isinstance(fault, CutStream | FreezeStream):
                return await self._stream(request, answer, fault)
            content = await answer.read()
            await _pause(fault, "after")
            return web.Response(status=answer.status, headers=_headers(answer), body=content)

    async def _stream(
        self, request: web.Request, answer: aiohttp.ClientResponse, fault: Fault | None
    ) -> web.StreamResponse:
        """Passes each piece on as it comes."""
        response = web.StreamResponse(status=answer.status, headers=_headers(answer))
        await response.prepare(request)
        await response.write(b"")  # the headers tell the client that its watch stands, long before there are events
        transport = request.transport
        assert isinstance(transport, asyncio.Transport)
        self._streams.add(transport)
        try:
            async for piece in _pieces(answer, fault):
                await response.write(piece)
            if isinstance(fault, FreezeStream):
                await asyncio.Event().wait()  # until the client goes, which cancels this
            if isinstance(fault, CutStream):
                return _hang_up(request)
        finally:
            self._streams.discard(transport)
        return response


@asynccontextmanager
async def watched(plane: ControlPlane) -> AsyncIterator[FaultProxy]:
    """A way to these servers on which nothing is forbidden but what is announced. What the proxy itself refuses does
    not count. Raises AssertionError at the end."""
    pki = plane.pki
    async with FaultProxy(plane.server, ca_file=pki.ca, certificate=pki.certificate, key=pki.key) as proxy:
        yield proxy
    surprises = proxy.surprises()
    assert not surprises, "; ".join(surprises)


async def _pieces(answer: aiohttp.ClientResponse, fault: Fault | None) -> AsyncIterator[bytes]:
    """The answer as it arrives, ending with the last line that the fault lets through."""
    left = fault.after_lines if isinstance(fault, CutStream | FreezeStream) else None
    if left == 0:
        return
    async for piece in answer.content.iter_any():
        if left is None:
            yield piece
            continue
        lines = piece.splitlines(keepends=True)
        ends = [index for index, line in enumerate(lines, start=1) if line.endswith(b"\n")]
        if len(ends) >= left:
            yield b"".join(lines[: ends[left - 1]])
            return
        left -= len(ends)
        yield piece


async def _pause(fault: Fault | None, when: str) -> None:
    if isinstance(fault, Delay):
        await asyncio.sleep(fault.before if when == "before" else fault.after)
    if isinstance(fault, Hold):
        event = fault.before if when == "before" else fault.after
        if event is not None:
            await event.wait()


def _headers(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {
        name: value
        for name, value in answer.headers.items()
        if name.lower() not in _HOP_BY_HOP and name.lower() != "content-length"
    }


def _hang_up(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()  # after what was written, and without the end that the client waits for
    return web.Response()


def _refusal(fault: Refuse) -> web.Response:
    details: dict[str, Any] = {}
    headers = {}
    if fault.cause:
        details["causes"] = [{"reason": fault.cause, "message": fault.message}]
    if fault.retry_after is not None:
        details["retryAfterSeconds"] = fault.retry_after
        headers["Retry-After"] = str(fault.retry_after)
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": fault.message,
        "reason": _REASONS.get(HTTPStatus(fault.code), ""),
        "details": details,
        "code": fault.code,
    }
    return web.Response(status=fault.code, headers=headers, body=orjson.dumps(status), content_type="application/json")
