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

from ebbtide.http1 import Asked, Response, serve_one
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
    answering = partial(_answer, registry, health)

    # In the order in which they came.
    connections: dict[asyncio.StreamWriter, None] = {}

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(connections) >= MOST_AT_ONCE:
            _end(connections)
        connections[writer] = None
        try:
            await serve_one(reader, writer, answering, within=_WITHIN)
        finally:
            connections.pop(writer, None)

    server = await asyncio.start_server(connected, sock=listening, backlog=MOST_AT_ONCE)
    async with server:
        log.info("serving", address="{}:{}".format(*listening.getsockname()[:2]))
        yield


def _end(connections: dict[asyncio.StreamWriter, None]) -> None:
    """Ends the first of them at once."""
    first = next(iter(connections))
    del connections[first]
    first.transport.abort()


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
