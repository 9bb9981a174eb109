"""Asks the metadata service again and again, and hands on what it says.

A service that is not there, is slow or talks nonsense is asked on, with growing pauses: an instance may be set up.
The two questions do not wait for each other's troubles.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from ebbtide.agent.imds import Metadata, MetadataError
from ebbtide.kube.backoff import Backoff, jittered
from ebbtide.notices import Kind, Notice

log = structlog.stdlib.get_logger(__name__)

# Two minutes are all that an interruption leaves: a service that comes back is heard well within them.
_LONGEST_PAUSE: Final = 20.0


class Watch:
    """`tell` is given every notice at every turn, new or not: it is who knows what has been told."""

    def __init__(self, metadata: Metadata, interval: float, tell: Callable[[Notice], None]) -> None:
        self._metadata = metadata
        self._interval = interval
        self._tell = tell
        self._pauses = Backoff(interval, max(interval, _LONGEST_PAUSE))
        self._problems: dict[Kind, str] = dict.fromkeys(Kind, "not asked yet")
        self._turned_at = float("-inf")

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._turn()
            self._turned_at = asyncio.get_running_loop().time()
            await asyncio.sleep(self._pause())

    def problem(self) -> str | None:
        """Why nothing is heard, None while the service answers."""
        return next((problem for problem in self._problems.values() if problem), None)

    def silence(self) -> float:
        """Seconds since the last turn ended; 0 before the first."""
        now = asyncio.get_running_loop().time()
        return 0.0 if self._turned_at == float("-inf") else now - self._turned_at

    def _pause(self) -> float:
        if self.problem() is not None:
            return self._pauses.next()
        self._pauses.reset()
        # Agents that were started together do not go on asking together.
        return 0.7 * self._interval + jittered(0.4 * self._interval)

    async def _turn(self) -> None:
        for kind in Kind:
            try:
                notice = await self._metadata.ask(kind)
            except MetadataError as error:
                self._note(kind, str(error))
            else:
                self._note(kind, "")
                if notice is not None:
                    self._tell(notice)

    def _note(self, kind: Kind, problem: str) -> None:
        """Logs what changes, not every repetition."""
        before, self._problems[kind] = self._problems[kind], problem
        if problem and problem != before:
            log.warning("metadata service does not answer, asking on", about=kind.value, problem=problem)
        elif before and not problem:
            log.info("metadata service answers", about=kind.value, endpoint=self._metadata.endpoint)
