"""The plain HTTP port of a process: metrics, probes, and the pages that a program adds.

Application, runner and socket are apart: a test makes its own application, or serves on port 0.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry

from ebbtide.service.metrics import exposition
from ebbtide.service.probes import Health, Report

log = structlog.stdlib.get_logger(__name__)

# Not what it is made with, of which version.
SERVER: Final = "ebbtide"
# A probe or a scrape is over in milliseconds; a client that keeps its connection does not hold up the end.
_SHUTDOWN_SECONDS: Final = 2.0


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


@asynccontextmanager
async def serving(app: web.Application, listening: socket.socket) -> AsyncIterator[None]:
    """Serves `app` on the socket inside the block, and closes both at its end."""
    app.on_response_prepare.append(_sign)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    loop = asyncio.get_running_loop()
    assert runner.server is not None  # it was set up
    quiet: dict[str, Any] = {"access_log": None}
    server = await loop.create_server(partial(_Connection, runner.server, loop=loop, **quiet), sock=listening)
    try:
        log.info("serving", address="{}:{}".format(*listening.getsockname()[:2]))
        yield
    finally:
        server.close()
        await runner.cleanup()


class _Connection(web.RequestHandler):
    """Signs what aiohttp says by itself, too: that a request is no HTTP, that a handler failed."""

    __slots__ = ()

    def handle_error(self, *arguments: Any, **named: Any) -> web.StreamResponse:
        response = super().handle_error(*arguments, **named)
        response.headers["Server"] = SERVER
        return response


async def _sign(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = SERVER


def _answer(report: Report) -> web.Response:
    return web.Response(text=report.text() + "\n", status=200 if report.good else 503)
