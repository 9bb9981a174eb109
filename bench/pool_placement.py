"""How many tasks the shared pool gives a place, each stored on the cluster before it is told, and what that costs.

The peer is one bare JSON patch for each task on the same server, a few at once and no two of them for the same object:
what it would cost at least to store each promise by itself. Rounds alternate. The pool has room for all; a worker
double answers at the address of each of its pods.
"""

import argparse
import asyncio
import contextlib
import secrets
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

import structlog
from prometheus_client import CollectorRegistry

from bench.bare import Bare
from bench.figures import Series, heading, milliseconds, ratio, row
from bench.setting import arguments, on_control_plane
from ebbtide import vocabulary
from ebbtide.clock import SystemClock
from ebbtide.config import Settings
from ebbtide.kube.client import Client, Object
from ebbtide.kube.resources import CONFIG_MAPS, PERSISTENT_VOLUMES, STATEFUL_SETS
from reconciler.engine.beside import running
from reconciler.engine.context import sockets
from reconciler.scaler.pool import Arrival
from reconciler.scaler.shared.controller import Shared
from reconciler.scaler.task import TaskId
from tests.controlplane.processes import free_port
from tests.controlplane.world import World, wait_until
from tests.doubles.worker import CLUSTER, Worker
from tests.reconciler.scaler.shared.program import Beside, Surroundings, assemble

COMMAND = "bench.pool_placement"
TEMPLATE, POOL = "tikv-api", "ldw-shared"
# Bare patches under way: more make the server no faster.
WIDTH = 16
_READY_WITHIN = 120.0
_LOOK_EVERY = 0.1
_CLAIMS = ("data", "worker0")


class Pool:
    """The pool under measurement, and what it has sent."""

    def __init__(self, shared: Shared, client: Client) -> None:
        self._shared = shared
        self._client = client
        self._number = 0

    def fresh(self, count: int) -> list[Arrival]:
        """Tasks that nobody knows yet."""
        self._number += count
        numbers = range(self._number - count, self._number)
        return [Arrival(TaskId(1, 170, number, 0), CLUSTER, 0) for number in numbers]

    async def place(self, arrival: Arrival) -> float:
        """Seconds until it has its place."""
        begun = perf_counter()
        place = await self._shared.place(arrival)
        assert place.ready
        return perf_counter() - begun

    async def forget(self, arrivals: Sequence[Arrival]) -> None:
        """Cancels tasks that no worker knows."""
        for arrival in arrivals:
            await self._shared.cancel(arrival.task, remove=False)

    @property
    def writes(self) -> int:
        """Of all kinds, so far; events are told whatever the number of tasks."""
        sent = self._client.sent.items()
        return sum(n for verb, n in sent if verb.verb in ("create", "patch", "update", "delete"))

    async def usable(self, pods: int) -> None:
        async def are() -> bool:
            return not self._shared.discovered and len(self._shared.facts().usable) >= pods

        await wait_until(are, f"{pods} pods are usable", seconds=_READY_WITHIN)


async def measure(world: World, options: argparse.Namespace) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    print(heading(COMMAND, f"{options.pods} pods, {options.rounds} rounds of {options.tasks} tasks"))
    async with pool(world, options.pods) as measured, Bare(world.plane) as bare:
        names = await single_objects(world, 4 * WIDTH)
        await one_round(measured, bare, world.namespace, names, options.tasks)  # opens the connections
        rounds = [await one_round(measured, bare, world.namespace, names, options.tasks) for _ in range(options.rounds)]
        ours = Series("tasks placed per second", tuple(mine for mine, _ in rounds), "/s")
        peer = Series(f"bare patches per second, {WIDTH} at once", tuple(theirs for _, theirs in rounds), "/s")
        print(ours.line(), peer.line(), ratio(ours, peer, "at least 3"), sep="\n")
        await at_pace(measured, 100, options.seconds)
        await at_pace(measured, 200, options.seconds)


async def one_round(
    measured: Pool, bare: Bare, namespace: str, names: Sequence[str], tasks: int
) -> tuple[float, float]:
    """Placements, and bare patches, per second."""
    arrivals = measured.fresh(tasks)
    begun = perf_counter()
    await asyncio.gather(*map(measured.place, arrivals))
    mine = tasks / (perf_counter() - begun)
    await measured.forget(arrivals)
    mark = secrets.token_hex(4)
    patches = [
        bare.patch(
            CONFIG_MAPS.path(namespace, names[number % len(names)]),
            [{"op": "add", "path": f"/data/{mark}-{number}", "value": f'["{arrival.task}",{CLUSTER},0,0]'}],
        )
        for number, arrival in enumerate(arrivals)
    ]
    return mine, tasks / await bare.all(patches, WIDTH)


async def at_pace(measured: Pool, per_second: int, seconds: int) -> None:
    """Tasks that come one by one at that pace: how long each takes, and how many writes there are for each."""
    arrivals, before = measured.fresh(per_second * seconds), measured.writes
    loop = asyncio.get_running_loop()
    begun = loop.time()
    placing: list[asyncio.Task[float]] = []
    for number, arrival in enumerate(arrivals):
        await asyncio.sleep(max(0.0, begun + number / per_second - loop.time()))
        placing.append(asyncio.ensure_future(measured.place(arrival)))
    took = await asyncio.gather(*placing)
    print(milliseconds(f"placement at {per_second}/s  (aim at 100/s: p99 <= 50 ms)", took).line(0.5, 0.99))
    writes = (measured.writes - before) / len(arrivals)
    print(row(f"writes per placed task at {per_second}/s", f"{writes:.2f}", note="  aim at 200/s: at most 0.3"))
    await measured.forget(arrivals)


# --- what it stands on ----------------------------------------------------------------------------------------------


@asynccontextmanager
async def pool(world: World, pods: int) -> AsyncIterator[Pool]:
    """A pool of that many usable pods with room for any number of tasks."""
    await world.add_nodes("a", 2)
    await world.client.create(STATEFUL_SETS, template(world), namespace=world.namespace)
    for pod in range(pods):
        for claim in _CLAIMS:
            await world.client.create(PERSISTENT_VOLUMES, volume(world, f"{claim}-{POOL}-{pod}"))
    port = free_port()
    access = world.access()
    async with Client(access, field_manager=vocabulary.FIELD_MANAGER_RECONCILER, user_agent=COMMAND) as client:
        program = assemble(
            client,
            settings(world.namespace, port, pods),
            Surroundings(sockets, SystemClock(), "bench"),
            CollectorRegistry(),
        )
        doubles = Beside("workers", Doubles(world, port).run)
        async with running((*program.beside, doubles, Beside("pool", program.pool.run))):
            measured = Pool(program.pool, client)
            await measured.usable(pods)
            yield measured


def settings(namespace: str, port: int, pods: int) -> Settings:
    room = {"shared-scale-up-tasks-per-pod": 1000, "shared-max-tasks-per-pod": 1000}
    scaler: dict[str, Any] = {
        "run": True,
        "namespace": namespace,
        "worker-port": port,
        "worker-address": "pod-ip",
        "cluster-id": CLUSTER,
        "shared-pool-enabled": True,
        "shared-min-replicas": pods,
        "shared-sts-config": {"request-cpu": 0.1, "limit-cpu": 1, "request-memory": 0.1, "storage-size-gb": 1},
    }
    return Settings.model_validate({"worker-scaler": {**scaler, **room}, "certs": {"mode": "files"}})


def template(world: World) -> Object:
    """What the pool's pods are made after."""
    body = world.template(TEMPLATE)
    container = body["spec"]["containers"][0]
    container |= {"env": [{"name": "A", "value": "b"}], "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    amount = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}
    return {
        "metadata": {"name": TEMPLATE},
        "spec": {
            "replicas": 0,
            "serviceName": TEMPLATE,
            "selector": {"matchLabels": {"app": TEMPLATE}},
            "template": body,
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": amount}],
        },
    }


def volume(world: World, claim: str) -> Object:
    """A volume for that claim of the pool, ready made."""
    return {
        "metadata": {"name": f"{world.name}-{claim}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "hostPath": {"path": "/nowhere"},
            "claimRef": {"namespace": world.namespace, "name": claim},
        },
    }


async def single_objects(world: World, count: int) -> list[str]:
    """What the bare patches go to."""
    names = [f"single-{number}" for number in range(count)]
    for name in names:
        body = {"metadata": {"name": name}, "data": {"a": "b"}}
        await world.client.create(CONFIG_MAPS, body, namespace=world.namespace)
    return names


class Doubles:
    """A worker at the address of every pod of the pool, once it has one."""

    def __init__(self, world: World, port: int) -> None:
        self._world = world
        self._port = port

    async def run(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            known: set[str] = set()
            while True:
                for pod in await self._world.pods(POOL):
                    address = pod["status"].get("podIP")
                    if address and address not in known:
                        known.add(address)
                        await stack.enter_async_context(Worker().listening(address, self._port))
                await asyncio.sleep(_LOOK_EVERY if not known else 1.0)


def flags() -> argparse.ArgumentParser:
    parser = arguments(COMMAND, rounds=9)
    parser.add_argument("--pods", type=int, default=8, help="default: %(default)s")
    parser.add_argument("--tasks", type=int, default=400, help="in a round; default: %(default)s")
    parser.add_argument("--seconds", type=int, default=10, help="at each pace; default: %(default)s")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    return on_control_plane(measure, flags(), argv)


if __name__ == "__main__":
    sys.exit(main())
