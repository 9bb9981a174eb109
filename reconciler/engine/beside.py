"""Work that goes on beside other work: watches, the event recorder, the drain. It lasts as long as what it serves."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Protocol

from ebbtide.errors import EbbtideError


class Beside(Protocol):
    """Something that runs until it is cancelled; it may be run again afterwards."""

    @property
    def name(self) -> str: ...

    async def run(self) -> None: ...


class BesideEndedError(EbbtideError):
    """Something that was to run beside other work ended although that goes on."""


@asynccontextmanager
async def running(parts: Iterable[Beside]) -> AsyncIterator[None]:
    """Runs the parts for as long as the block lasts, then cancels them and waits until they are gone.

    A part that fails, or just ends, cancels the block: nothing goes on with half of what it needs. Raises an
    ExceptionGroup of what the block and the parts raised; BesideEndedError for a part that just ended.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_run(part), name=part.name) for part in parts]
        yield
        for task in tasks:
            task.cancel()


async def _run(part: Beside) -> None:
    await part.run()
    raise BesideEndedError(f"{part.name} ended although nobody had stopped it")
