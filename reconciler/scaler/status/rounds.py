"""Asks every worker for its tasks, each again a refresh interval after its last answer.

Workers that do not answer are asked beside the others, in places of their own, so that a hundred of them which keep
every question waiting until its deadline do not make the answers of the rest old. While what pods there are is in
doubt nobody is asked.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from ebbtide import vocabulary
from ebbtide.config.scaler import WorkerScaler
from reconciler.engine.controller import Again, Controller
from reconciler.scaler.pods import WorkerPod
from reconciler.scaler.report import StatusReport
from reconciler.scaler.status.book import Book, StatusUnknown
from reconciler.scaler.status.clusters import Clusters
from reconciler.scaler.stores import Stores

# Questions under way: of a thousand workers fifty may keep theirs waiting, and more than as many are asked meanwhile.
AT_ONCE: Final = 128
_UNTIL_KNOWN: Final = 0.5
_HURRY_EVERY: Final = 1.0


class Rounds:
    """A controller whose keys are pods."""

    def __init__(
        self, settings: WorkerScaler, stores: Stores, book: Book, clusters: Clusters, report: StatusReport
    ) -> None:
        self.name = "worker-status"
        self._settings = settings
        self._stores = stores
        self._book = book
        self._clusters = clusters
        self._report = report
        self._hurried = float("-inf")
        self._answering: Controller[str] = Controller(
            self.name, self._ask_answering, workers=AT_ONCE, everything=self._everything
        )
        self._silent: Controller[str] = Controller(f"{self.name}-silent", self._ask_silent, workers=AT_ONCE)
        stores.pods.subscribe(self._pod_changed)

    async def run(self) -> None:
        """Asks until drained or cancelled; starts without knowing anything, since others may have led."""
        self._book.begin()
        self._clusters.begin()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._answering.run(), name=self.name)
            group.create_task(self._silent.run(), name=f"{self.name}: silent ones")

    def drain(self) -> None:
        self._answering.drain()
        self._silent.drain()

    def longest(self) -> float:
        return max(self._answering.longest(), self._silent.longest())

    def hurry(self) -> None:
        """Asks all of them now: there is another cluster to ask for. Once in a second, whoever makes up clusters."""
        self._clusters.look_anew()
        now = asyncio.get_running_loop().time()
        if self._hurried > now:
            return  # the next one is still to come, and will be for every cluster that is known by then
        self._hurried = max(now, self._hurried + _HURRY_EVERY)
        for key in self._everything():
            self._answering.queue.add_after(key, self._hurried - now)

    def _everything(self) -> Iterable[str]:
        return [pod.key for pod in self._stores.pods.values() if self._concerns(pod)]

    def _concerns(self, pod: WorkerPod) -> bool:
        ours = pod.pool in (vocabulary.POOL_DEDICATED, vocabulary.POOL_SHARED)
        return bool(ours or pod.set_name == self._settings.template_sts_name) and bool(pod.ip and pod.started)

    def _pod_changed(self, old: WorkerPod | None, new: WorkerPod | None) -> None:
        """One that has just begun, or become ready, is asked at once."""
        if new is None or not self._concerns(new):
            return
        before = None if old is None else (old.uid, old.ip, old.started, old.ready)
        if before != (new.uid, new.ip, new.started, new.ready):
            self._answering.queue.add(new.key)

    async def _ask_answering(self, key: str) -> Again | None:
        pod = self._stores.pods.get(key)
        if pod is None or not self._concerns(pod):
            return None
        if self._stores.unknown:
            return Again(_UNTIL_KNOWN)
        if self._book.failing_since(pod.uid) is not None:
            self._silent.queue.add(key)
            return None
        await self._ask(pod)
        return Again(self._settings.refresh_interval)

    async def _ask_silent(self, key: str) -> Again | None:
        pod = self._stores.pods.get(key)
        if pod is None or not self._concerns(pod):
            return None
        if self._stores.unknown or not await self._ask(pod):
            return Again(self._settings.refresh_interval)
        self._answering.queue.add_after(key, self._settings.refresh_interval)
        return None

    async def _ask(self, pod: WorkerPod) -> bool:
        clusters = self._clusters.of(pod)
        if not clusters:
            return True
        failing = self._book.failing_since(pod.uid) is not None
        try:
            await self._book.ask_now(pod, clusters)
        except StatusUnknown as unknown:
            self._report.unknown(pod, str(unknown), again=failing)
            return False
        return True
