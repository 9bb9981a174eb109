"""How long a node that appears in a blocked zone stays clean: from the request that creates it to its taint's event.

Each is followed by a bare creation of another node with a bare JSON patch behind it, which is the least it can take.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from bench import nodes
from bench.bare import Bare
from bench.figures import heading, judged, milliseconds, ratio, row
from bench.observer import Observer, observing
from bench.setting import arguments, on_control_plane, reconciler
from bench.taint_zone import close_zone
from ebbtide import vocabulary
from ebbtide.kube.resources import NODES
from tests.controlplane.program import configuration
from tests.controlplane.world import World

COMMAND = "bench.late_node"
NODES_BEFORE = 10


async def measure(world: World, options: argparse.Namespace) -> None:
    blocked = [f"{world.name}-zone-{number}" for number in range(NODES_BEFORE)]
    async with (
        Bare(world.plane) as bare,
        observing(world.client, f"tests.ebbtide/world={world.name}") as observer,
        reconciler(world.plane, configuration(world)),
    ):
        await nodes.create(world, bare, blocked, nodes.cell(world.group, "a"))
        await close_zone(world, observer, blocked)
        ours, theirs = [], []
        for number in range(options.nodes):
            ours.append(await late(world, observer, bare, f"{world.name}-late-{number}"))
            theirs.append(await bare_pair(world, bare, f"{world.name}-bare-{number}"))
    print(heading(COMMAND, f"{options.nodes} nodes, one after the other, join a blocked zone of {NODES_BEFORE}"))
    mine = milliseconds("creation to taint", ours)
    peer = milliseconds("bare creation and patch", theirs)
    aim = judged("≤ 1000", max(mine.values))
    print(
        mine.line(0.99),
        row("the longest", f"{max(mine.values):.0f} ms", note=aim),
        peer.line(0.99),
        ratio(mine, peer),
        sep="\n",
    )


async def late(world: World, observer: Observer, bare: Bare, name: str) -> float:
    tainted = observer.when_tainted([name], vocabulary.PREVENT_TAINT_KEY)
    created = bare.post(NODES.path(""), nodes.node(name, {**_mark(world), **nodes.cell(world.group, "a")}))
    begun = asyncio.get_running_loop().time()
    await created()
    return await tainted - begun


async def bare_pair(world: World, bare: Bare, name: str) -> float:
    created = bare.post(NODES.path(""), nodes.node(name, _mark(world)))
    return await bare.all([created, bare.taint(name, "bench.ebbtide/bare")], width=1)


def _mark(world: World) -> dict[str, str]:
    return {"tests.ebbtide/world": world.name}


def flags() -> argparse.ArgumentParser:
    return arguments(COMMAND, nodes=100)


def main(argv: Sequence[str] | None = None) -> int:
    return on_control_plane(measure, flags(), argv)


if __name__ == "__main__":
    sys.exit(main())
