"""How long a node that appears in a blocked zone stays clean: from its first watch event to the event of its taint.

Each is followed by one bare JSON patch of another node on the same server.
"""

import argparse
import sys

from bench import nodes
from bench.bare import Bare
from bench.figures import heading, milliseconds, ratio
from bench.observer import Observer, observing
from bench.setting import arguments, on_control_plane, reconciler
from bench.taint_zone import BARE_TAINT, close_zone, named
from ebbtide import vocabulary
from ebbtide.kube.resources import NODES
from tests.controlplane.program import configuration
from tests.controlplane.world import World

COMMAND = "bench.late_node"
NODES_BEFORE = 10


async def measure(world: World, options: argparse.Namespace) -> None:
    blocked = [f"{world.name}-zone-{number}" for number in range(NODES_BEFORE)]
    other = f"{world.name}-bare"
    async with (
        Bare(world.plane) as bare,
        observing(world.client, f"tests.ebbtide/world={world.name}") as observer,
        reconciler(world.plane, configuration(world)),
    ):
        await nodes.create(world, bare, blocked, nodes.cell(world.group, "a"))
        await nodes.create(world, bare, [other], {})
        await close_zone(world, observer, blocked)
        ours, theirs = [], []
        for number in range(options.nodes):
            ours.append(await late(world, observer, bare, f"{world.name}-late-{number}"))
            theirs.append(await one_patch(world, bare, other))
    print(heading(COMMAND, f"{options.nodes} nodes, one after the other, join a blocked zone of {NODES_BEFORE}"))
    mine = milliseconds("appearance to taint", ours)
    peer = milliseconds("one bare patch", theirs)
    print(mine.line(0.99), peer.line(0.99), ratio(mine, peer), sep="\n")


async def late(world: World, observer: Observer, bare: Bare, name: str) -> float:
    appeared = observer.when(lambda keys: name in keys)
    tainted = observer.when_tainted([name], vocabulary.PREVENT_TAINT_KEY)
    labels = {"tests.ebbtide/world": world.name, **nodes.cell(world.group, "a")}
    await bare.post(NODES.path(""), nodes.node(name, labels))()
    return await tainted - await appeared


async def one_patch(world: World, bare: Bare, name: str) -> float:
    (raw,) = await named(world, [name])
    seconds = await bare.all([bare.taint(raw, BARE_TAINT)], 1)
    (raw,) = await named(world, [name])
    await bare.untaint(raw, BARE_TAINT)()
    return seconds


def main() -> int:
    return on_control_plane(measure, arguments(COMMAND, nodes=100))


if __name__ == "__main__":
    sys.exit(main())
