"""The front as the reconciler serves it, in front of a desk that has its tasks in a dictionary.

`python -m bench.front_server PORT TASKS` serves until it is killed: the first half of the tasks have a place, the
others wait for one that never comes. What a desk costs is measured where it is at work.
"""

import asyncio
import sys
from collections.abc import Iterable
from dataclasses import dataclass

import aiohttp
from prometheus_client import CollectorRegistry

from ebbtide.config.scaler import WorkerScaler
from ebbtide.service.log import configure
from ebbtide.service.server import bind
from reconciler.scaler.front.wiring import Service, Surroundings
from reconciler.scaler.pool import Arrival, Phase, Place, Target, TaskRecord
from reconciler.scaler.task import TaskId

CLUSTER = 7
LOOPBACK = "127.0.0.1"


def task(number: int) -> TaskId:
    return TaskId(1, 1701753296955293956, number, 0)


class Desk:
    """A dictionary."""

    def __init__(self, tasks: int) -> None:
        self._places = {task(number): self._place(number) for number in range(tasks // 2)}

    @staticmethod
    def _place(number: int) -> Place:
        pod = f"ldw-shared-{number % 64}"
        return Place(
            task(number), CLUSTER, Target.SHARED, f"http://{pod}.ldw-shared.tidb-serverless.svc.cluster.local:19500"
        )

    def unknown(self, cluster: int = 0) -> str:  # noqa: ARG002 - the protocol's signature
        return ""

    def find(self, task: TaskId, cluster: int) -> Place | None:
        place = self._places.get(task)
        return place if place is not None and place.cluster == cluster else None

    def records(self, cluster: int) -> Iterable[TaskRecord]:
        for place in self._places.values():
            yield TaskRecord(place.task, cluster, place.target, "ldw-shared-0", Phase.RUNNING)

    async def place(self, arrival: Arrival) -> Place:
        found = self._places.get(arrival.task)
        if found is None:
            await asyncio.get_running_loop().create_future()
        assert found is not None
        return found

    async def cancel(self, task: TaskId, cluster: int) -> bool:
        return self.find(task, cluster) is not None

    async def cancel_all(self, prefix: str, cluster: int) -> int:  # noqa: ARG002 - the protocol's signature
        return 0


@dataclass
class Alone:
    """The only replica there is."""

    own: str

    def leads(self) -> bool:
        return True

    def leader(self) -> str:
        return ""

    def trouble(self) -> str:
        return ""

    async def look(self) -> None:
        return None


async def serve(port: int, tasks: int) -> None:
    leadership = Alone(f"http://{LOOPBACK}:{port}")
    around = Surroundings(Desk(tasks), leadership, leadership.look, aiohttp.TCPConnector, CollectorRegistry())
    await Service(WorkerScaler(start_timeout=3600.0), around).run(bind(LOOPBACK, port))


if __name__ == "__main__":
    configure("warning", "json")
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
