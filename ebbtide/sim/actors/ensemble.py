"""All actors of a cluster at once, as long as a block lasts.

    async with Cluster(seed=7) as cluster, living(cluster.storage, groups=[...], seed=7) as actors:
        actors.spot.recommend("a1")

An actor that dies ends the block with its exception.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Final, Never, Protocol

from ebbtide.sim.actors.autoscaler import Autoscaler, Policy
from ebbtide.sim.actors.binder import Binder
from ebbtide.sim.actors.cloud import Cloud, Delivery
from ebbtide.sim.actors.kubelet import Kubelet, Timings
from ebbtide.sim.actors.scheduler import Scheduler
from ebbtide.sim.actors.spot import Spot
from ebbtide.sim.actors.templates import NodeGroup
from ebbtide.sim.actors.workloads import Workloads
from ebbtide.sim.storage import Storage

DEFAULT_TIMINGS: Final = Timings()
DEFAULT_POLICY: Final = Policy()
DEFAULT_DELIVERY: Final = Delivery()


class Actor(Protocol):
    """Anything that runs until it is cancelled."""

    async def run(self) -> Never: ...


@dataclass(frozen=True, slots=True)
class Actors:
    """Those that a scenario speaks to."""

    cloud: Cloud
    autoscaler: Autoscaler
    spot: Spot


@asynccontextmanager
async def living(
    storage: Storage,
    *,
    groups: Sequence[NodeGroup] = (),
    seed: int = 0,
    timings: Timings = DEFAULT_TIMINGS,
    policy: Policy = DEFAULT_POLICY,
    delivery: Delivery = DEFAULT_DELIVERY,
) -> AsyncIterator[Actors]:
    """Runs kubelets, scheduler, volume binder, workload controllers and, with its groups, the autoscaler."""
    # A generator each, so that what one chooses does not change what another does.
    scheduling, provisioning, scaling = (Random(f"{seed} {use}") for use in ("place", "cloud", "scale"))  # noqa: S311 - reproducible on purpose
    cloud = Cloud(storage, groups, provisioning, delivery)
    autoscaler = Autoscaler(storage, cloud, scaling, policy)
    everybody: list[Actor] = [
        Kubelet(storage, timings),
        Scheduler(storage, scheduling),
        Binder(storage),
        Workloads(storage),
        autoscaler,
    ]
    async with asyncio.TaskGroup() as running:
        tasks = [running.create_task(actor.run()) for actor in everybody]
        try:
            yield Actors(cloud, autoscaler, Spot(storage, cloud))
        finally:
            cloud.close()
            for task in tasks:
                task.cancel()
