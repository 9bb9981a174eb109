"""Fixtures: a scripted server and a client of it."""

from collections.abc import AsyncIterator

import pytest

from ebbtide.kube.access import from_url
from ebbtide.kube.client import Client
from tests.ebbtide.kube.wire import Wire


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    async with Wire() as server:
        yield server


@pytest.fixture
async def client(wire: Wire) -> AsyncIterator[Client]:
    access = from_url(wire.url, token="secret")
    async with Client(access, field_manager="ebbtide-test", user_agent="ebbtide/test (tests)") as opened:
        yield opened
