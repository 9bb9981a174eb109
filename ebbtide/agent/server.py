"""Metrics and probes, as every program of ebbtide has them, without a web framework."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Final

import structlog
from prometheus_client import CollectorRegistry

from ebbtide.http1 import Answering, Asked, Response, serve_one
from ebbtide.service.metrics import exposition
from ebbtide.service.probes import Health
from ebbtide.service.probes import Report as Verdict

log = structlog.stdlib.get_logger(__name__)

# A probe or a scrape takes milliseconds.
_WITHIN: Final = 5.0
# More at once than probes and scrapes ever need. Nothing waits in the kernel, which hands over whoever comes: above it
# the connection that has been open longest is ended, so that those who keep theirs open keep no probe out.
MOST_AT_ONCE: Final = 16


@asynccontextmanager
async def serving(listening: socket.socket, registry: CollectorRegistry, health: Health) -> AsyncIterator[None]:
    """Serves `/metrics`, `/healthz` and `/readyz` on the socket inside the block, and closes it at its end."""
    connections = _Connections(partial(_answer, registry, health))
    server = await asyncio.start_server(connections.begin, sock=listening, backlog=MOST_AT_ONCE)
    try:
        log.info("serving", address="{}:{}".format(*listening.getsockname()[:2]))
        yield
    finally:
        server.close()
        await connections.end()


class _Connections:
    """Those that are open, in the order in which they came."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._ended = False

    def begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Takes one. No coroutine, since asyncio complains of the task that it would make of it when that is cancelled
        (`StreamReaderProtocol`, Python 3.11)."""
        if self._ended:
            writer.transport.abort()
            return
        if len(self._open) >= MOST_AT_ONCE:
            first = next(iter(self._open))
            self._open.pop(first).transport.abort()
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._open[task] = writer
        task.add_done_callback(lambda done: self._open.pop(done, None))

    async def end(self) -> None:
        """Breaks all of them off, and takes no more."""
        self._ended = True
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve_one(reader, writer, self._answering, within=_WITHIN)
        except Exception:  # one question that finds a defect is no reason to answer no other
            log.exception("question not answered")
        finally:
            writer.transport.abort()


async def _answer(registry: CollectorRegistry, health: Health, asked: Asked) -> Response:
    if asked.method not in ("GET", "HEAD"):
        return Response(HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "GET"}, b"")
    match asked.path:
        case "/metrics":
            body, content_type = exposition(registry, asked.headers.get("accept", ""))
            return Response(HTTPStatus.OK, {"Content-Type": content_type}, body)
        case "/healthz":
            return _verdict(health.liveness())
        case "/readyz":
            return _verdict(health.readiness())
    return Response(HTTPStatus.NOT_FOUND, {}, b"there are /metrics, /healthz and /readyz\n")


def _verdict(verdict: Verdict) -> Response:
    status = HTTPStatus.OK if verdict.good else HTTPStatus.SERVICE_UNAVAILABLE
    return Response(status, {}, f"{verdict.text()}\n".encode())
