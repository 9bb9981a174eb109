"""What the tests expect of nodes, zones and pods, and what they read off the proxy."""

from collections import Counter
from collections.abc import Iterable

import orjson

from ebbtide import vocabulary
from ebbtide.kube.resources import PODS
from tests.controlplane.program import scrape
from tests.controlplane.proxy import FaultProxy, Seen
from tests.controlplane.world import World

# The workloads may stand on any node that the tests taint for other people's reasons.
_TOLERATIONS = [{"key": "example.com/second", "operator": "Exists"}]


async def prevented(cluster: World, nodes: Iterable[str]) -> list[str]:
    """Those of the nodes that carry exactly one prevent taint, with an epoch as value and the right effect."""
    found = []
    for node in nodes:
        ours = [t for t in await cluster.taints(node) if t["key"] == vocabulary.PREVENT_TAINT_KEY]
        if [(t["effect"], len(t["value"])) for t in ours] == [("NoSchedule", 10)]:
            found.append(node)
    return found


async def all_prevented(cluster: World, nodes: list[str]) -> None:
    async def every() -> bool:
        return await prevented(cluster, nodes) == nodes

    await cluster.wait_until(every, f"{nodes} carry the prevent taint")


async def none_prevented(cluster: World, nodes: list[str]) -> None:
    async def none() -> bool:
        return not any([vocabulary.PREVENT_TAINT_KEY in await cluster.taint_keys(node) for node in nodes])

    await cluster.wait_until(none, f"{nodes} carry no prevent taint")


async def in_state(cluster: World, url: str, zone: str, state: str) -> None:
    async def reached() -> bool:
        cell = {"node_group": cluster.group, "node_zone": zone}
        return (await scrape(url)).value("noderebalance_block_state", state=state, **cell) == 1

    await cluster.wait_until(reached, f"zone {zone} is {state}")


async def all_in_zone(cluster: World, app: str, count: int, zone: str) -> None:
    async def moved() -> bool:
        zones = [await cluster.zone_of(pod) for pod in await cluster.ready_pods(app, count)]
        return set(zones) == {zone}

    await cluster.wait_until(moved, f"{count} pods of {app} are Ready in zone {zone}")


async def stand_on(cluster: World, node: str, others: list[str]) -> None:
    """A StatefulSet of three and a Deployment of two, all of them standing on that node and none on the others."""

    async def standing() -> bool:
        """The scheduler may not have heard of a cordon yet: what it has put elsewhere comes once more."""
        pods = await cluster.ready_pods("tikv", 3) + await cluster.ready_pods("tidb", 2)
        astray = [pod["metadata"]["name"] for pod in pods if pod["spec"]["nodeName"] != node]
        for name in astray:
            await cluster.client.delete(PODS, name, namespace=cluster.namespace)
        return not astray

    for other in others:
        await cluster.cordon(other)
    await cluster.stateful_set("tikv", 3, tolerations=_TOLERATIONS)
    await cluster.deployment("tidb", 2, tolerations=_TOLERATIONS)
    await cluster.wait_until(standing, f"five pods stand on {node}")
    for other in others:
        await cluster.cordon(other, cordoned=False)


def node_writes(proxy: FaultProxy) -> list[Seen]:
    """Every write to a node that has passed."""
    return proxy.matching("PATCH", "^/api/v1/nodes/")


def evictions(proxy: FaultProxy) -> list[Seen]:
    """Every eviction that was asked for."""
    return proxy.matching("POST", "/eviction")


def accepted(proxy: FaultProxy) -> Counter[str]:
    """How often the server said yes to an eviction, by the pod's UID."""
    uids = Counter[str]()
    for seen in evictions(proxy):
        if seen.status == 201:
            uids[orjson.loads(seen.body)["deleteOptions"]["preconditions"]["uid"]] += 1
    return uids
