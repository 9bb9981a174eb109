"""The label by which the disruption budget knows busy pods: there before a task is promised, off when the pod is empty.

One at a time: a label that is taken off while a promise is made would come off after it.
"""

import asyncio
from collections.abc import Callable, Iterable

from ebbtide.kube.errors import Conflict, NotFound
from reconciler.engine.together import together
from reconciler.scaler.pods import WorkerPod
from reconciler.scaler.shared.act import Act


class Marks:
    """Sets and takes off the label."""

    def __init__(self, act: Act) -> None:
        self._act = act
        self._one = asyncio.Lock()

    async def busy(self, pods: Iterable[WorkerPod]) -> frozenset[int]:
        """Marks those that are not yet; the ordinals of pods that are gone, or going. Raises KubeError."""
        async with self._one:
            unmarked = [pod for pod in pods if not pod.busy]
            marked = await together(map(self._mark, unmarked))
        return frozenset(pod.ordinal for pod, done in zip(unmarked, marked, strict=True) if not done)

    async def idle(self, pod: WorkerPod, empty: Callable[[], bool]) -> None:
        """Takes the mark off a pod that is `empty` still. Raises KubeError."""
        async with self._one:
            if empty():
                try:
                    await self._act.unmark(pod)
                except (Conflict, NotFound):
                    return  # it has changed since; the next look has the newer version

    async def _mark(self, pod: WorkerPod) -> bool:
        try:
            return await self._act.mark(pod)
        except (Conflict, NotFound):
            return False
