"""A small cluster that lives by itself on simulated time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ebbtide.sim.actors.autoscaler import Autoscaler, Policy
from ebbtide.sim.actors.cloud import Cloud, Delivery
from ebbtide.sim.actors.ensemble import living
from ebbtide.sim.actors.growth import Growth
from ebbtide.sim.actors.kubelet import Timings, is_ready
from ebbtide.sim.actors.spot import Spot
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.kinds import NODES, PODS
from ebbtide.sim.storage import Storage
from ebbtide.sim.stored import Object
from ebbtide.vocabulary import ZONE_LABEL
from tests.ebbtide.sim.actors.things import group

TIMINGS = Timings(joining=20, starting=2, warming=1, stopping=2, orphaned=40)
# Simulated seconds between two looks of a test.
LOOK = 0.5
POLICY = Policy()
DELIVERY = Delivery()


@dataclass
class World:
    """A cluster with all its actors; the methods say what a test wants to know or do."""

    storage: Storage
    cloud: Cloud
    autoscaler: Autoscaler
    spot: Spot

    def zones(self) -> dict[str, str]:
        """Of each Ready pod the zone it runs in."""
        nodes = {node.name: node.body["metadata"]["labels"].get(ZONE_LABEL, "") for node in self.storage.scan(NODES)}
        ready = (pod for pod in self.storage.scan(PODS) if is_ready(pod.body) and not pod.deleting)
        return {pod.name: nodes.get(pod.body["spec"]["nodeName"], "gone") for pod in ready}

    def host(self, pod: str) -> str:
        return str(self.storage.get(PODS, pod, "default")["spec"].get("nodeName", ""))

    def nodes(self, zone: str) -> list[str]:
        labelled = ((node.name, node.body["metadata"].get("labels") or {}) for node in self.storage.scan(NODES))
        return [name for name, labels in labelled if labels.get(ZONE_LABEL) == zone]

    def change(self, node: str, *taints: Object, cordoned: bool = False) -> None:
        body = self.storage.get(NODES, node)
        body["spec"] |= {"taints": list(taints), "unschedulable": cordoned}
        self.storage.update(NODES, body)

    def evict(self, pod: str) -> None:
        self.storage.delete(PODS, pod, "default")

    def growths(self) -> list[str]:
        decisions = (entry.decision for entry in self.autoscaler.diary)
        return [each.grown for each in decisions if isinstance(each, Growth) and each.grown]

    async def until(self, holds: Callable[[], bool], within: float = 600.0) -> None:
        for _ in range(int(within / LOOK)):
            if holds():
                return
            await asyncio.sleep(LOOK)
        raise TimeoutError(f"not so within {within} simulated seconds")

    async def settled(self, pods: int) -> None:
        """Waits for so many Ready pods, none waiting or going."""
        await self.until(lambda: len(self.zones()) == pods == len(list(self.storage.scan(PODS))))


@asynccontextmanager
async def world(
    *, sizes: dict[str, int], policy: Policy = POLICY, delivery: Delivery = DELIVERY, timings: Timings = TIMINGS
) -> AsyncIterator[World]:
    """Zones with so many nodes of group `g`, all Ready for over a minute."""
    groups = [group(zone) for zone in sizes]
    async with (
        Cluster(seed=7) as cluster,
        living(cluster.storage, groups=groups, seed=7, timings=timings, policy=policy, delivery=delivery) as actors,
    ):
        for zone, size in sizes.items():
            actors.cloud.order(f"g-{zone}", size)
        await asyncio.sleep(delivery.delay + delivery.labels_after + timings.joining + 65)
        yield World(cluster.storage, actors.cloud, actors.autoscaler, actors.spot)
