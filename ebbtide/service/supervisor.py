"""Runs the parts of a process, and ends all of them when one dies.

A part is meant to run until it is stopped. One that returns or raises before has died: the process is unhealthy from
that moment, says which part and why, stops the others in order and fails. So a process never looks well while a part
of it is gone.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import structlog

from ebbtide.errors import EbbtideError
from ebbtide.service.probes import Health

log = structlog.stdlib.get_logger(__name__)

# Below the 30 seconds that a pod gets between SIGTERM and SIGKILL by default.
GRACE: Final = 20.0
# What a part that was cancelled may still need to unwind.
_UNWINDING: Final = 2.0


class PartDiedError(EbbtideError):
    """A part ended although nobody had stopped it."""


@dataclass(frozen=True, slots=True)
class Part:
    """`run` works until `stop` asks it to return; a part without `stop`, or one that is too slow, is cancelled."""

    name: str
    run: Callable[[], Awaitable[None]]
    stop: Callable[[], None] | None = None


class Supervisor:
    """Starts parts in the order in which they are given, stops them in the opposite one.

    `stopping` begins the orderly stop when it is set, by a signal handler for instance; the supervisor sets it itself
    when a part dies. `grace` seconds are the bound for the whole stop.
    """

    def __init__(self, health: Health, stopping: asyncio.Event, *, grace: float = GRACE) -> None:
        self._health = health
        self._stopping = stopping
        self._grace = grace
        self._failure: EbbtideError | None = None

    async def run(self, *parts: Part) -> None:
        """Returns after an orderly stop.

        Raises the EbbtideError that a part died of, or PartDiedError for a part that died of anything else.
        Cancellation is an orderly stop as well.
        """
        async with asyncio.TaskGroup() as group:
            tasks = [(part, group.create_task(self._watch(part), name=part.name)) for part in parts]
            try:
                await self._stopping.wait()
            finally:
                self._stopping.set()
                await self._stop(tasks)
        if self._failure is not None:
            raise self._failure

    async def _watch(self, part: Part) -> None:
        try:
            await part.run()
        except asyncio.CancelledError:
            if not self._stopping.is_set():
                self._died(part, PartDiedError(f"{part.name} was cancelled from inside"))
            raise
        except Exception as error:  # whatever a part dies of, the others are stopped in order
            known = _in_own_words(error)
            if known is None:
                log.exception("part failed", part=part.name)
            self._died(part, known or PartDiedError(f"{part.name} failed: {error!r}"))
        else:
            if not self._stopping.is_set():
                self._died(part, PartDiedError(f"{part.name} ended although nobody had stopped it"))

    def _died(self, part: Part, error: EbbtideError) -> None:
        log.error("part died", part=part.name, reason=str(error))
        self._health.died(part.name, str(error))
        self._failure = self._failure or error
        self._stopping.set()

    async def _stop(self, tasks: list[tuple[Part, asyncio.Task[None]]]) -> None:
        log.info("stopping", grace=self._grace)
        end = asyncio.get_running_loop().time() + self._grace
        for part, task in reversed(tasks):
            if part.stop is not None and not task.done():
                part.stop()
                left = end - asyncio.get_running_loop().time()
                await asyncio.wait([task], timeout=max(0.0, left))
            if not task.done():
                if part.stop is not None:
                    log.warning("part did not stop in time, cancelling it", part=part.name)
                task.cancel()
                await asyncio.wait([task], timeout=_UNWINDING)
        log.info("stopped")


def _in_own_words(error: Exception) -> EbbtideError | None:
    """The first EbbtideError in what task groups may have wrapped; None when something unforeseen is in there, too."""
    if isinstance(error, ExceptionGroup):
        known = [_in_own_words(part) for part in error.exceptions]
        return known[0] if all(known) else None
    return error if isinstance(error, EbbtideError) else None
