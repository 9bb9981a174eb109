"""Fixtures: one server of queues for the session, and credentials that lead nowhere else."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from tests.reconciler.signals.sqs import CREDENTIALS, moto


@pytest.fixture(scope="session")
def queues() -> Iterator[str]:
    """The URL of the server; its queues are its tests' own."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        url = runner.run(stack.enter_async_context(moto()))
        yield url
        runner.run(stack.aclose())


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
