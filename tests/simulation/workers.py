"""A stage with workers: pods that the cluster really starts, a worker double in each, clients, and one network.

def test_something() -> None:
    async def story(site: Site) -> None:
        site.stage.start()
        async with site.client(task, 3 << 30) as client:
            await client.run()

    play_import(story)
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
from structlog.testing import capture_logs

from ebbtide import vocabulary
from ebbtide.config import Settings
from ebbtide.sim import objects
from ebbtide.sim.actors.ensemble import living
from ebbtide.sim.actors.kubelet import Timings
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.kinds import PERSISTENT_VOLUME_CLAIMS, SERVICES, STATEFUL_SETS
from ebbtide.sim.loaders.floor import PORT, Floor
from ebbtide.sim.stored import Object
from ebbtide.sim.time import simulate
from tests.doubles.client import Client
from tests.doubles.worker import CLUSTER, Worker
from tests.reconciler.scaler.templates import first_container, template
from tests.simulation.stage import Stage

NAMESPACE: Final = "tidb-serverless"
TEMPLATE: Final = "tikv-api"
TIMINGS: Final = Timings(joining=20.0, starting=2.0, warming=3.0, stopping=2.0)
_SMALL: Final = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": None}


class Site:
    """The stage, its floor, and what is left on the cluster. `front` is where clients begin."""

    def __init__(self, stage: Stage, floor: Floor[Worker], front: str) -> None:
        self.stage = stage
        self.floor = floor
        self.front = front
        for number in range(6):
            stage.cluster.create(large(objects.node(f"n{number}", zone=f"z{number % 3}")))
        stage.cluster.create(objects.namespace(NAMESPACE), template(first_container(resources=_SMALL)))

    @asynccontextmanager
    async def client(self, task: str, size: int) -> AsyncIterator[Client]:
        """A client that imports one engine."""
        async with aiohttp.ClientSession(connector=self.floor.network.connector()) as session:
            yield Client(session, self.front, task, CLUSTER, size)

    def worker(self, pod: str) -> Worker:
        return self.floor.workers[pod]

    def leftovers(self) -> list[str]:
        """Sets and Services that somebody has made for workers, and volumes of theirs."""
        made = (*self._of(STATEFUL_SETS), *self._of(SERVICES), *self._of(PERSISTENT_VOLUME_CLAIMS))
        return [name for name in made if not name.endswith(TEMPLATE) and not name.startswith(f"data-{TEMPLATE}-")]

    def sets(self) -> list[str]:
        """Names of dedicated workers' sets."""
        pool = vocabulary.POOL_LABEL
        found = self.stage.storage.scan(STATEFUL_SETS, NAMESPACE)
        return [each.name for each in found if each.body["metadata"].get("labels", {}).get(pool) == "dedicated"]

    def _of(self, kind: Any) -> Iterator[str]:
        return (stored.name for stored in self.stage.storage.scan(kind, NAMESPACE))


def large(node: Object) -> Object:
    """The node with room for many workers."""
    room = {"cpu": "64", "memory": "256Gi"}
    return objects.changed(node, {"status": {"capacity": room, "allocatable": room}})


def settings(*, election: dict[str, float] | None = None, **scaler: Any) -> Settings:
    """The default configuration with the worker scaler, some keys changed; workers are known by their addresses."""
    keys = {"run": True, "cluster_id": CLUSTER, "worker_address": "pod-ip", **scaler}
    return Settings.model_validate(
        {
            "worker-scaler": {key.replace("_", "-"): value for key, value in keys.items()},
            "leader-election": {key.replace("_", "-"): value for key, value in (election or {}).items()},
            "certs": {"mode": "files"},
        }
    )


Story = Callable[[Site], Coroutine[Any, Any, None]]


def play_import(
    story: Story,
    *,
    seed: int = 0,
    new: Callable[[str], Worker] | None = None,
    front: str = f"http://one:{PORT}",
    **scaler: Any,
) -> None:
    """Plays a story on simulated time; fails for any error that the program logs, unless it ended by it."""

    async def main() -> None:
        async with Cluster(seed=seed) as cluster:
            floor = Floor(cluster.storage, NAMESPACE, new or (lambda _name: Worker()))
            try:
                stage = Stage(cluster, settings(**scaler), None, floor.network)
                async with living(cluster.storage, timings=TIMINGS, seed=seed), stage:
                    await story(Site(stage, floor, front))
            finally:
                await floor.close()

    with capture_logs() as logs:
        simulate(main())
    assert not [entry for entry in logs if entry["log_level"] in ("error", "critical")]
