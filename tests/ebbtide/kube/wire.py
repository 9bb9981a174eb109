"""A server that answers by script, and keeps what it was asked."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import orjson
from aiohttp import web

Reply = Callable[[web.Request, "Wire"], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    at: float
    peer: str

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


@dataclass
class Wire:
    """Gives each request the next reply of `script`, the last one again when there are no more."""

    script: list[Reply] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    tls: ssl.SSLContext | None = None
    url: str = ""
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=1 << 26)
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self.tls)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"{'https' if self.tls else 'http'}://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.released.set()
        await self._runner.cleanup()

    def then(self, *replies: Reply) -> None:
        self.script += replies

    async def asked(self, count: int) -> None:
        """Waits until that many requests have arrived."""
        await until(lambda: len(self.seen) >= count)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        now = asyncio.get_running_loop().time()
        self.seen.append(
            Seen(request.method, request.path, dict(request.query), request.headers, body, now, _peer(request))
        )
        reply = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return await reply(request, self)


def _peer(request: web.Request) -> str:
    """The common name of the client's certificate, empty without one."""
    certificate = request.get_extra_info("peercert") or {}
    return next((value for ((key, value),) in certificate.get("subject", ()) if key == "commonName"), "")


async def until(condition: Callable[[], bool], within: float = 120.0) -> None:
    """Waits for a condition, which it looks at less and less often; fails the test after `within` loop seconds."""
    pause = 0.001
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(pause)
            pause = min(2 * pause, 5.0)


def says(content: Any, status: int = 200, **headers: str) -> Reply:
    """A complete answer: JSON, or text and bytes as they are."""
    body = content if isinstance(content, bytes) else orjson.dumps(content)
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def reply(_: web.Request, __: Wire) -> web.StreamResponse:
        return web.Response(status=status, body=body, headers=named, content_type="application/json")

    return reply


def status(code: int, reason: str = "", message: str = "", *, causes: Iterable[str] = (), after: int = 0) -> Any:
    """A Status object as the API server makes it."""
    details: dict[str, Any] = {"causes": [{"reason": cause, "message": "so it is"} for cause in causes]}
    if after:
        details["retryAfterSeconds"] = after
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


def refuses(code: int, reason: str = "", message: str = "", **details: Any) -> Reply:
    """The answer to a refused request; `header` is the Retry-After header."""
    header = details.pop("header", None)
    content = status(code, reason, message, **details)
    return says(content, code, **({"Retry_After": header} if header else {}))


def streams(*parts: Any, end: str = "close") -> Reply:
    """A watch: events, or bytes as they are. Then it closes, is `cut`, or stays open and silent (`hold`)."""

    async def reply(request: web.Request, wire: Wire) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b"")  # headers leave at once, as the API server flushes them
        for part in parts:
            await response.write(part if isinstance(part, bytes) else orjson.dumps(part) + b"\n")
        if end == "hold":
            await wire.released.wait()
        if end == "cut":
            assert request.transport is not None
            request.transport.abort()
        return response

    return reply


async def hangs_up(request: web.Request, _: Wire) -> web.StreamResponse:
    """Ends the connection instead of an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def event(kind: str, obj: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": obj}


def bookmark(version: int, *, initial_end: bool = False) -> dict[str, Any]:
    annotations = {"k8s.io/initial-events-end": "true"} if initial_end else {}
    return event(
        "BOOKMARK", {"kind": "Node", "metadata": {"resourceVersion": str(version), "annotations": annotations}}
    )


def node(name: str, version: int, *, uid: str = "", note: str = "") -> dict[str, Any]:
    """A node-like object; `note` is what the projection reads."""
    metadata = {
        "name": name,
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        "annotations": {"note": note},
    }
    return {"kind": "Node", "apiVersion": "v1", "metadata": metadata}


def listing(version: int, *objects: Mapping[str, Any], token: str = "") -> dict[str, Any]:
    metadata = {"resourceVersion": str(version), **({"continue": token} if token else {})}
    return {"kind": "NodeList", "apiVersion": "v1", "metadata": metadata, "items": list(objects)}
