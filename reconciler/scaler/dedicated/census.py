"""Which sets have their Service: listed now and then rather than watched, since only a mishap takes one away."""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from ebbtide.kube.errors import KubeError
from reconciler.engine.verdict import words
from reconciler.scaler.dedicated.act import Act
from reconciler.scaler.dedicated.basis import Basis

log = structlog.stdlib.get_logger(__name__)

_EVERY: Final = 60.0
_AFTER_A_FAILURE: Final = 5.0


class Census:
    """`missing` is told the name of each set that has none. `taken` says whether there was a first one in this term."""

    def __init__(self, basis: Basis, act: Act, missing: Callable[[str], None]) -> None:
        self.name = "dedicated workers: services"
        self.taken = False
        self._basis = basis
        self._act = act
        self._missing = missing

    async def run(self) -> None:
        """Until cancelled."""
        self.taken = False
        while True:
            pause = _EVERY if await self._take() else _AFTER_A_FAILURE
            await asyncio.sleep(pause)

    async def _take(self) -> bool:
        # What is made while the list is on its way is not in it, and known to be there all the same.
        before = {worker.set.uid for worker in self._basis.snapshot.workers()}
        try:
            served = await self._act.services_now()
        except KubeError as error:
            log.warning("services of workers cannot be listed", error=words(error))
            return False
        self.taken = not self._basis.snapshot.unknown
        for worker in self._basis.snapshot.workers():
            life = self._basis.lives.of(worker, self._basis.now)
            if worker.set.uid in before:
                life.service = worker.set.uid in served
            if not life.service:
                self._missing(worker.set.name)
        return self.taken
