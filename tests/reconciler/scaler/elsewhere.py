"""A placement that does as a test says, in the place of dedicated workers or the shared pool."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from reconciler.scaler.contract import Arrival, Phase, Place, Target, TaskRecord, Unavailable
from reconciler.scaler.task import TaskId


class Elsewhere:
    """Places every task at an address of its own as soon as `open` is set; `trouble` is raised instead.

    `placed` are the arrivals that it was asked to place, `cancelled` the tasks (and whether to remove) it was told of,
    `most_at_once` how many of these at the same time; each takes a moment.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.discovered = ""
        self.open = asyncio.Event()
        self.open.set()
        self.trouble: Exception | None = None
        self.deaf = False
        self.placed: list[Arrival] = []
        self.cancelled: list[tuple[TaskId, bool]] = []
        self.asked_for: list[TaskId] = []
        self.places: dict[TaskId, Place] = {}
        self.most_at_once = 0
        self._under_way = 0

    def find(self, task: TaskId) -> Place | None:
        return self.places.get(task)

    def wanted(self, task: TaskId) -> None:
        self.asked_for.append(task)

    def records(self) -> Iterable[TaskRecord]:
        for place in self.places.values():
            yield TaskRecord(place.task, place.cluster, self.target, "pod", Phase.RUNNING)

    def knows(self, task: TaskId, cluster: int = 7, *, ready: bool = True) -> None:
        """Placed before."""
        self.places[task] = Place(task, cluster, self.target, f"http://{self.target}-{task}:19500", ready)

    async def place(self, arrival: Arrival) -> Place:
        self.placed.append(arrival)
        await self.open.wait()
        if self.trouble is not None:
            raise self.trouble
        if arrival.task not in self.places:
            self.knows(arrival.task, arrival.cluster)
        self.places[arrival.task] = replace(self.places[arrival.task], ready=True)
        return self.places[arrival.task]

    async def cancel(self, task: TaskId, *, remove: bool) -> bool:
        self.cancelled.append((task, remove))
        self._under_way += 1
        self.most_at_once = max(self.most_at_once, self._under_way)
        await asyncio.sleep(0.01)
        self._under_way -= 1
        if self.deaf:
            raise Unavailable(f"the worker of {task} does not answer")
        if remove and self.target is Target.DEDICATED:
            return self.places.pop(task, None) is not None
        return task in self.places
