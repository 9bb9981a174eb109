"""From a coroutine to a process: signals in, orderly end out."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import structlog

from ebbtide.errors import EbbtideError
from ebbtide.service.supervisor import GRACE

log = structlog.stdlib.get_logger(__name__)

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
# After the grace period and this many seconds the process goes even if something ignores its cancellation.
_SPARE: Final = 8.0


def execute(
    program: Callable[[asyncio.Event], Awaitable[None]],
    *,
    grace: float = GRACE,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    """Runs `program` with an event that SIGTERM or SIGINT sets; a second signal ends the process at once.

    `grace` is what its supervisor has for the orderly end, in seconds; a little later the process goes in any case.
    """
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(_run(program, grace))


async def _run(program: Callable[[asyncio.Event], Awaitable[None]], grace: float) -> None:
    stopping = asyncio.Event()
    with _signals_set(stopping, grace):
        await program(stopping)


@contextmanager
def _signals_set(stopping: asyncio.Event, grace: float) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    earlier: list[signal.Signals] = []

    def received(number: signal.Signals) -> None:
        if earlier:
            _leave(128 + number)
        earlier.append(number)
        log.info("signal received", signal=number.name)
        stopping.set()
        loop.call_later(grace + _SPARE, _leave, EbbtideError.exit_code)

    for number in _SIGNALS:
        loop.add_signal_handler(number, received, number)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


def _leave(code: int) -> None:
    """Ends the process without unwinding: nothing in it may hold it up."""
    sys.stderr.flush()
    os._exit(code)
