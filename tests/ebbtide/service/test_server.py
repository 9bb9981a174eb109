"""The plain HTTP port, over real sockets on the loopback address."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import Counter

from ebbtide.service.listening import bind
from ebbtide.service.metrics import new_registry
from ebbtide.service.probes import Health
from ebbtide.service.server import application, serving

LOOPBACK = "127.0.0.1"


@asynccontextmanager
async def client_of(app: web.Application) -> AsyncIterator[aiohttp.ClientSession]:
    listening = bind(LOOPBACK, 0)
    async with (
        serving(app, listening),
        aiohttp.ClientSession(f"http://{LOOPBACK}:{listening.getsockname()[1]}") as session,
    ):
        yield session


async def test_probes_answer_200_or_503_with_the_reason() -> None:
    health, reasons = Health(), ["the list is not complete"]
    health.ready_while("nodes", lambda: reasons[0] if reasons else None)
    async with client_of(application(new_registry("test"), health)) as client:
        async with client.get("/readyz") as answer:
            assert (answer.status, await answer.text()) == (503, "nodes: the list is not complete\n")
        async with client.get("/healthz") as answer:
            assert (answer.status, await answer.text()) == (200, "ok\n")
        reasons.clear()
        async with client.get("/readyz") as answer:
            assert answer.status == 200
        health.died("nodes", "bug")
        async with client.get("/healthz") as answer:
            assert (answer.status, await answer.text()) == (503, "nodes: bug\n")


async def test_metrics_are_those_of_the_registry_that_was_handed_in() -> None:
    registry = new_registry("test")
    Counter("turns", "Turns.", registry=registry).inc(3)
    async with client_of(application(registry, Health())) as client, client.get("/metrics") as answer:
        text = await answer.text()
        assert answer.headers["Content-Type"].startswith("text/plain")
    assert "turns_total 3.0" in text
    assert 'ebbtide_build_info{program="test"' in text
    assert "process_resident_memory_bytes" in text


async def test_metrics_come_as_open_metrics_to_those_who_prefer_it() -> None:
    wish = {"Accept": "application/openmetrics-text; version=1.0.0"}
    async with (
        client_of(application(new_registry("test"), Health())) as client,
        client.get("/metrics", headers=wish) as answer,
    ):
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        assert (await answer.text()).endswith("# EOF\n")


async def test_a_program_can_add_its_own_pages() -> None:
    async def state(_request: web.Request) -> web.Response:
        return web.json_response({"cells": []})

    app = application(new_registry("test"), Health(), [web.get("/api/v1/state", state)])
    async with client_of(app) as client, client.get("/api/v1/state") as answer:
        assert await answer.json() == {"cells": []}


async def test_what_is_not_served_is_not_found() -> None:
    async with (
        client_of(application(new_registry("test"), Health())) as client,
        client.get("/debug") as answer,
    ):
        assert answer.status == 404


@pytest.mark.parametrize("request_line", ["GET /readyz", "GET /nowhere", "GET /broken", "\x16\x03 what is this"])
async def test_no_answer_says_what_it_is_made_with(request_line: str) -> None:
    """Not the framework's own either, to what is no HTTP or makes a handler fail."""

    async def broken(_request: web.Request) -> web.Response:
        raise ZeroDivisionError

    app = application(new_registry("test"), Health(), [web.get("/broken", broken)])
    with bind(LOOPBACK, 0) as listening:
        async with serving(app, listening):
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            writer.write(f"{request_line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode("latin-1"))
            head, _, _ = (await reader.read()).partition(b"\r\n\r\n")
            writer.close()
            await writer.wait_closed()
    signed = [line for line in head.splitlines() if line.lower().startswith(b"server:")]
    assert signed == [b"Server: ebbtide"]


def test_two_registries_in_one_process_do_not_know_each_other() -> None:
    first, second = new_registry("a"), new_registry("b")
    Counter("turns", "Turns.", registry=first)
    Counter("turns", "Turns.", registry=second)
    assert first.get_sample_value("turns_total") == 0
