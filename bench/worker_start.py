"""How long an init request of a large task takes until its client is sent to the worker, without the pod's own start.

The pod's own start is what the control plane and the kubelet take, from the pod's creation until it is Ready, as a
watch sees it; on a real cluster that is tens of seconds and the same whoever makes the pod. The peer makes the same
objects by two bare requests, one after the other, and looks by the same watch until the pod is Ready: what is left of
that without the pod's own start is the least that anybody can take.
"""

import argparse
import asyncio
import secrets
import sys
from collections.abc import Sequence

from bench.figures import heading, milliseconds, ratio
from bench.setting import arguments, on_control_plane
from ebbtide.kube.resources import SERVICES, STATEFUL_SETS
from reconciler.scaler.dedicated.names import set_name
from reconciler.scaler.pods import WorkerPod
from reconciler.scaler.task import TaskId
from tests.controlplane.load_data import Site, site
from tests.controlplane.program import scrape
from tests.controlplane.proxy import FaultProxy
from tests.controlplane.world import Object, World

COMMAND = "bench.worker_start"
AIM = "at most 500 ms"
_SIZE = 3 << 30
_WITHIN = 60.0
# What the server or a controller has put into an object that was read, and what binds it to its name.
_OF_ITS_OWN = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "ownerReferences")


class Births:
    """When a watch saw each set's pod for the first time, and when it saw it Ready; loop times."""

    def __init__(self, workers: Site) -> None:
        self.seen: dict[str, float] = {}
        self.ready: dict[str, asyncio.Future[float]] = {}
        workers.crew.pods.subscribe(self._changed)

    def of(self, name: str) -> "asyncio.Future[float]":
        return self.ready.setdefault(name, asyncio.get_running_loop().create_future())

    async def own(self, name: str) -> float:
        """Seconds that the pod took by itself, once it is Ready."""
        return await asyncio.wait_for(asyncio.shield(self.of(name)), _WITHIN) - self.seen[name]

    def _changed(self, _old: WorkerPod | None, new: WorkerPod | None) -> None:
        if new is None:
            return
        now = asyncio.get_running_loop().time()
        self.seen.setdefault(new.set_name, now)
        if new.ready and not self.of(new.set_name).done():
            self.of(new.set_name).set_result(now)


async def measure(world: World, options: argparse.Namespace) -> None:
    plane, pki = world.plane, world.plane.pki
    print(heading(COMMAND, f"{options.rounds} rounds, one worker at a time"), flush=True)
    async with (
        FaultProxy(plane.server, ca_file=pki.ca, certificate=pki.certificate, key=pki.key) as proxy,
        site(world, proxy) as workers,
    ):
        await world.add_nodes("a", 3)
        births = Births(workers)
        text = workers.text(shared_pool_enabled=False, expire_seconds=600, reservation_seconds=600)
        async with workers.scaling(plane.folder / "scaler", text) as url:
            await leads(world, url)
            await asked(workers, births, -1)  # opens the connections
            ours = [await asked(workers, births, number) for number in range(options.rounds)]
            bare = [await made(workers, births, number) for number in range(options.rounds)]
    mine = milliseconds("init to 302, without the pod's own start", ours)
    peer = milliseconds("bare requests until the pod is Ready, without its own start", bare)
    print(mine.line(0.99), peer.line(0.99), ratio(mine, peer), f"  aim: {AIM}", sep="\n")


async def leads(world: World, url: str) -> None:
    async def so() -> bool:
        return (await scrape(url)).value("ebbtide_leader") == 1

    await world.wait_until(so, "the reconciler leads")


async def asked(workers: Site, births: Births, number: int) -> float:
    """One task by way of the front."""
    loop, task = asyncio.get_running_loop(), TaskId(1, 170, number + 1, 0)
    begun = loop.time()
    await asyncio.wait_for(workers.client(str(task), _SIZE).init(), _WITHIN)
    return loop.time() - begun - await births.own(set_name("load-data-worker", task))


async def made(workers: Site, births: Births, number: int) -> float:
    """The same objects as the scaler made for a task, under another name."""
    loop, client, namespace = asyncio.get_running_loop(), workers.cluster.client, workers.cluster.namespace
    like = set_name("load-data-worker", TaskId(1, 170, number + 1, 0))
    name = f"bare-{secrets.token_hex(4)}"
    whole, service = [await client.get(kind, like, namespace=namespace) for kind in (STATEFUL_SETS, SERVICES)]
    bodies = [renamed(raw, like, name) for raw in (whole, service)]
    begun = loop.time()
    for kind, body in zip((STATEFUL_SETS, SERVICES), bodies, strict=True):
        await client.create(kind, body, namespace=namespace)
    ready = await asyncio.wait_for(asyncio.shield(births.of(name)), _WITHIN)
    return ready - begun - await births.own(name)


def renamed(raw: Object, old: str, new: str) -> Object:
    """A copy to be created: nobody's worker but for its pool label, so that the scaler leaves it alone."""
    body = _replaced(raw, old, new)
    metadata = {key: value for key, value in body["metadata"].items() if key not in (*_OF_ITS_OWN, "annotations")}
    spec = {key: value for key, value in body["spec"].items() if key not in ("clusterIP", "clusterIPs")}
    return {"metadata": metadata, "spec": spec}


def _replaced(value: object, old: str, new: str) -> Object:
    def of(each: object) -> object:
        match each:
            case dict():
                return {key: of(found) for key, found in each.items()}
            case list():
                return [of(found) for found in each]
            case str():
                return each.replace(old, new)
            case _:
                return each

    found = of(value)
    assert isinstance(found, dict)
    return found


def flags() -> argparse.ArgumentParser:
    return arguments(COMMAND, rounds=10)


def main(argv: Sequence[str] | None = None) -> int:
    return on_control_plane(measure, flags(), argv)


if __name__ == "__main__":
    sys.exit(main())
