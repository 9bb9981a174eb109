"""How soon the pods of a signalled node are asked to leave: from the signal to the arrival of the last request.

All requests go by way of a proxy that notes when they arrive. The peer is the same number of bare evictions, as many
at once, by way of the same proxy; rounds alternate. Then the same under one PodDisruptionBudget that allows them all.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from bench import nodes
from bench.bare import Bare
from bench.figures import heading, judged, milliseconds, ratio, row
from bench.setting import arguments, on_control_plane, reconciler
from bench.taint_zone import OLD
from ebbtide import vocabulary
from reconciler.rebalance.evictions import MOST_AT_ONCE_PER_NAMESPACE
from tests.controlplane.program import configuration
from tests.controlplane.proxy import FaultProxy
from tests.controlplane.world import World

COMMAND = "bench.evictions"
APP = "crowd"
# In milliseconds, for so many pods.
_AIM, _AIMED_AT = "≤ 1000", 30


async def measure(world: World, options: argparse.Namespace) -> None:
    places = [f"{world.name}-{zone}" for zone in "ab"]
    plane, pki = world.plane, world.plane.pki
    async with (
        FaultProxy(plane.server, ca_file=pki.ca, certificate=pki.certificate, key=pki.key) as proxy,
        Bare(plane, proxy.url) as bare,
        reconciler(plane, configuration(world), proxy.url),
    ):
        for place, zone in zip(places, "ab", strict=True):
            await nodes.create(world, bare, [place], nodes.cell(world.group, zone))
        await world.deployment(APP, options.pods)
        await world.ready_pods(APP, options.pods)
        print(heading(COMMAND, f"{options.pods} pods of one namespace, {options.rounds} rounds"))
        await series(world, bare, proxy, options, "no budget", _AIM if options.pods <= _AIMED_AT else "")
        await world.budget(APP, {"app": APP}, maxUnavailable=options.pods)
        await series(world, bare, proxy, options, "one budget")


async def series(
    world: World, bare: Bare, proxy: FaultProxy, options: argparse.Namespace, which: str, aim: str = ""
) -> None:
    ours, theirs, at_once = [], [], []
    for _ in range(options.rounds):
        ours.append(await rebalanced(world, proxy, options.pods))
        at_once.append(proxy.most_at_once("POST", "/eviction"))
        theirs.append(await barely(world, bare, proxy, options.pods))
    mine = milliseconds(f"signal to arrival of request {options.pods}, {which}", ours)
    peer = milliseconds(f"bare evictions, {MOST_AT_ONCE_PER_NAMESPACE} at once, {which}", theirs)
    print(mine.line() + judged(aim, mine.median), peer.line(), ratio(mine, peer), sep="\n")
    print(
        row(f"most at once, {which}", str(max(at_once)), note=judged(f"≤ {MOST_AT_ONCE_PER_NAMESPACE}", max(at_once)))
    )


async def rebalanced(world: World, proxy: FaultProxy, count: int) -> float:
    """Signals the node with all the pods and waits until they stand elsewhere."""
    await gather_on_one_node(world, count)
    node = await crowded(world)
    proxy.requests.clear()
    await world.signal(node, value=OLD)
    signalled = asyncio.get_running_loop().time()
    await elsewhere(world, node, count)
    last = proxy.matching("POST", "/eviction")[-1].time
    await world.clear_signal(node)

    async def clean() -> bool:
        return vocabulary.PREVENT_TAINT_KEY not in await world.taint_keys(node)

    await world.wait_until(clean, f"{node} is open again")
    return last - signalled


async def barely(world: World, bare: Bare, proxy: FaultProxy, count: int) -> float:
    """Evicts the pods one by one without the product; the cordon is what keeps them from coming back."""
    await gather_on_one_node(world, count)
    node = await crowded(world)
    await world.cordon(node)
    pods = await world.pods(APP)
    proxy.requests.clear()
    begun = asyncio.get_running_loop().time()
    await bare.all([bare.evict(pod) for pod in pods], MOST_AT_ONCE_PER_NAMESPACE)
    last = proxy.matching("POST", "/eviction")[-1].time
    await elsewhere(world, node, count)
    await world.cordon(node, cordoned=False)
    return last - begun


async def crowded(world: World) -> str:
    pods = await world.pods(APP)
    (node,) = {pod["spec"]["nodeName"] for pod in pods}
    return str(node)


async def gather_on_one_node(world: World, count: int) -> None:
    """Moves the pods together where the scheduler has spread them."""
    pods = await world.ready_pods(APP, count)
    places = sorted({pod["spec"]["nodeName"] for pod in pods})
    if len(places) == 1:
        return
    await world.cordon(places[0])
    for pod in pods:
        if pod["spec"]["nodeName"] == places[0]:
            await world.client.evict(pod["metadata"]["name"], namespace=world.namespace, uid=pod["metadata"]["uid"])
    await elsewhere(world, places[0], count)
    await world.cordon(places[0], cordoned=False)


async def elsewhere(world: World, node: str, count: int) -> None:
    """Waits until all pods are Ready on other nodes."""

    async def moved() -> bool:
        pods = await world.ready_pods(APP, count)
        return all(pod["spec"]["nodeName"] != node for pod in pods)

    await world.wait_until(moved, f"{count} pods have left {node}")


def flags() -> argparse.ArgumentParser:
    parser = arguments(COMMAND, rounds=5)
    parser.add_argument("--pods", type=int, default=30, help="default: %(default)s")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    return on_control_plane(measure, flags(), argv)


if __name__ == "__main__":
    sys.exit(main())
