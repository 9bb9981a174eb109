"""How many tasks the shared pool gives a place, each stored on the cluster before it is told, and what that costs.

The peer is one bare JSON patch for each task on the same server, a few at once and no two of them for the same object:
what it would cost at least to store each promise by itself. Rounds alternate. The pool has room for all; a worker
double answers at the address of each of its pods.
"""

import argparse
import asyncio
import secrets
import sys
from collections.abc import Sequence
from time import perf_counter

import structlog

from bench.bare import Bare
from bench.figures import Series, heading, milliseconds, ratio, row
from bench.setting import arguments, on_control_plane
from ebbtide.kube.client import Client
from ebbtide.kube.resources import CONFIG_MAPS
from reconciler.scaler.contract import Arrival
from reconciler.scaler.shared.controller import Shared
from reconciler.scaler.task import TaskId
from tests.controlplane.pool import basis, pool, usable
from tests.controlplane.world import World
from tests.doubles.worker import CLUSTER

COMMAND = "bench.pool_placement"
# The default soft cap is also where the pool would grow: it has all its pods from the start.
ROOM = {"shared_scale_up_tasks_per_pod": 24, "shared_max_tasks_per_pod": 24}
# Bare patches under way: more make the server no faster.
WIDTH = 16


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


async def measure(world: World, options: argparse.Namespace) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    print(heading(COMMAND, f"{options.pods} pods, {options.rounds} rounds of {options.tasks} tasks"))
    async with (
        basis(world, options.pods) as around,
        pool(world, around.settings(shared_min_replicas=options.pods, **ROOM), COMMAND) as (shared, client),
        Bare(world.plane) as bare,
    ):
        await usable(shared, options.pods)
        measured = Pool(shared, client)
        names = await single_objects(world, 4 * WIDTH)
        await one_round(measured, bare, world.namespace, names, options.tasks)  # opens the connections
        rounds = [await one_round(measured, bare, world.namespace, names, options.tasks) for _ in range(options.rounds)]
        ours = Series("tasks placed per second", tuple(mine for mine, _ in rounds), "/s")
        peer = Series(f"bare patches per second, {WIDTH} at once", tuple(theirs for _, theirs in rounds), "/s")
        print(ours.line(), peer.line(), ratio(ours, peer, "≥ 3"), sep="\n")
        await at_pace(measured, 100, options.seconds)
        await at_pace(measured, 200, options.seconds / 2)


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


async def at_pace(measured: Pool, per_second: int, seconds: float) -> None:
    """Tasks that come one by one at that pace: how long each takes, and how many writes there are for each."""
    arrivals, before = measured.fresh(int(per_second * seconds)), measured.writes
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


async def single_objects(world: World, count: int) -> list[str]:
    """What the bare patches go to."""
    names = [f"single-{number}" for number in range(count)]
    for name in names:
        body = {"metadata": {"name": name}, "data": {"a": "b"}}
        await world.client.create(CONFIG_MAPS, body, namespace=world.namespace)
    return names


def flags() -> argparse.ArgumentParser:
    parser = arguments(COMMAND, rounds=9)
    parser.add_argument("--pods", type=int, default=48, help="of 24 tasks each; default: %(default)s")
    parser.add_argument("--tasks", type=int, default=400, help="in a round; default: %(default)s")
    parser.add_argument(
        "--seconds", type=float, default=10, help="at 100/s, half of them at 200/s; default: %(default)s"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    return on_control_plane(measure, flags(), argv)


if __name__ == "__main__":
    sys.exit(main())
