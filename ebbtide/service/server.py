"""The plain HTTP port of a process: metrics, probes, and the pages that a program adds.

Application, runner and socket are apart: a test makes its own application, or serves on port 0.
"""

import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry

from ebbtide.errors import EbbtideError
from ebbtide.service.metrics import exposition
from ebbtide.service.probes import Health, Report

log = structlog.stdlib.get_logger(__name__)

# A probe or a scrape is over in milliseconds; a client that keeps its connection does not hold up the end.
_SHUTDOWN_SECONDS = 2.0


def application(registry: CollectorRegistry, health: Health, routes: Iterable[web.RouteDef] = ()) -> web.Application:
    """`/metrics`, `/healthz`, `/readyz`, and what else the program shows."""

    async def metrics(request: web.Request) -> web.Response:
        body, content_type = exposition(registry, request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def healthz(_request: web.Request) -> web.Response:
        return _answer(health.liveness())

    async def readyz(_request: web.Request) -> web.Response:
        return _answer(health.readiness())

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics), web.get("/healthz", healthz), web.get("/readyz", readyz), *routes])
    return app


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises EbbtideError when the address cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise EbbtideError(f"cannot listen on {host}:{port}: {error}") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise EbbtideError(f"cannot listen on {host}:{port}: {error}") from error
    return listening


@asynccontextmanager
async def serving(app: web.Application, listening: socket.socket) -> AsyncIterator[None]:
    """Serves `app` on the socket inside the block, and closes both at its end."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        site = web.SockSite(runner, listening)
        await site.start()
        log.info("serving", address="{}:{}".format(*listening.getsockname()[:2]))
        yield
    finally:
        await runner.cleanup()
        listening.close()


def _answer(report: Report) -> web.Response:
    return web.Response(text=report.text() + "\n", status=200 if report.good else 503)
