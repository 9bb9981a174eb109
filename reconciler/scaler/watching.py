"""Watches the workers' pods, and does not believe at once that all of them are gone.

A list that is suddenly empty looks like the end of every worker. It is taken for true only when it was empty a few
times, some time apart; until then what there is counts as unknown.
"""

import asyncio
from typing import Final, Never

import structlog

from ebbtide.kube.reflector import Reflector
from ebbtide.kube.store import Store
from reconciler.scaler.pods import WorkerPod

log = structlog.stdlib.get_logger(__name__)

LOOKS: Final = 3
LOOK_AGAIN_AFTER: Final = 15.0


class PodWatch:
    """Keeps `store` as its reflector does; while `doubtful` the store is not to be believed."""

    def __init__(self, reflector: Reflector[WorkerPod], store: Store[WorkerPod]) -> None:
        self.name = reflector.name
        self.doubtful = False
        self._reflector = reflector
        self._store = store
        self._present: set[str] = set()
        self._doubt = asyncio.Event()
        store.subscribe(self._changed)

    async def run(self) -> Never:
        """Ends only by cancellation, or by what the reflector raises."""
        looks = 1
        while True:
            self._store.expect_list()
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self._reflector.run(), name=self.name)
                looks = await self._until_doubtful(looks)
                watching.cancel()

    async def _until_doubtful(self, looks: int) -> int:
        """Returns when the pods are to be listed anew, with the number of lists in a row that were empty."""
        await self._store.wait_synced()
        if self.doubtful and looks >= LOOKS:
            log.warning("no pod is left in the namespace of the workers", lists=looks)
            self.doubtful = False
        if not self.doubtful:
            looks = 0
            await self._doubt.wait()
        self._doubt.clear()
        await asyncio.sleep(LOOK_AGAIN_AFTER)
        return looks + 1

    def _changed(self, old: WorkerPod | None, new: WorkerPod | None) -> None:
        """Told first of all: whoever else is told of pods that are gone knows whether to believe it."""
        if new is not None:
            self._present.add(new.key)
            self.doubtful = False
        elif old is not None:
            if not len(self._store) and len(self._present) > 1 and not self.doubtful:
                self.doubtful = True
                self._doubt.set()
                log.warning("all pods of the workers seem to be gone at once", pods=len(self._present))
            self._present.discard(old.key)
