"""How long a zone takes to close: from the watch event of the deciding signal to the last of its nodes tainted.

The peer is the same number of bare JSON patches, as many at once, on the same server and on nodes of the same weight
that belong to no group. Rounds alternate. Both sides are measured with their connections open from the round before,
and once more without any: in production the signal comes after hours of quiet.
"""

import argparse
import asyncio
import secrets
import sys
from collections.abc import Sequence

from bench import nodes
from bench.bare import Bare
from bench.figures import Series, heading, milliseconds, ratio
from bench.observer import Observer, observing
from bench.setting import arguments, on_control_plane, reconciler
from ebbtide import vocabulary
from reconciler.rebalance.act import MOST_WRITES_AT_ONCE
from tests.controlplane.program import configuration
from tests.controlplane.world import World

COMMAND = "bench.taint_zone"
# Older than any limit: one such signal decides.
OLD = "1700000000"
# The client lets an idle connection go after 60 s.
CONNECTIONS_CLOSE_AFTER = 70.0


async def measure(world: World, options: argparse.Namespace) -> None:
    names = [f"{world.name}-zone-{number}" for number in range(options.nodes)]
    others = [f"{world.name}-bare-{number}" for number in range(options.nodes)]
    async with Bare(world.plane) as bare:
        await nodes.create(world, bare, names, nodes.cell(world.group, "a"))
        await nodes.create(world, bare, others, {})
    selector = f"tests.ebbtide/world={world.name}"
    print(heading(COMMAND, f"{options.nodes} nodes of a zone, {options.rounds} rounds"))
    async with (
        observing(world.client, selector) as observer,
        reconciler(world.plane, configuration(world)),
        Bare(world.plane) as bare,
    ):
        await one_round(world, observer, bare, names, others)  # opens the connections
        rounds = [await one_round(world, observer, bare, names, others) for _ in range(options.rounds)]
        report("connections open", rounds)
    cold = []
    async with observing(world.client, selector) as observer, reconciler(world.plane, configuration(world)):
        for number in range(options.cold_rounds):
            if number:
                await asyncio.sleep(CONNECTIONS_CLOSE_AFTER)
            async with Bare(world.plane) as bare:
                cold.append(await one_round(world, observer, bare, names, others))
    if cold:
        report("no connection open", cold)


async def one_round(
    world: World, observer: Observer, bare: Bare, names: list[str], others: list[str]
) -> tuple[float, float]:
    """Seconds that the product took, and the bare patches; the zone is open again afterwards.

    Bare taints stay, each round's with a key of its own.
    """
    ours = await close_zone(world, observer, names)
    key = f"bench.ebbtide/bare-{secrets.token_hex(4)}"
    theirs = await bare.all([bare.taint(name, key) for name in others], MOST_WRITES_AT_ONCE)
    await open_zone(world, observer, names)
    return ours, theirs


async def close_zone(world: World, observer: Observer, names: list[str]) -> float:
    """From the signal's event, or the answer to its write if that comes first, to the event of the last taint."""
    loop = asyncio.get_running_loop()
    signalled = observer.when_tainted(names[:1], vocabulary.SIGNAL_TAINT_KEY)
    closed = observer.when_tainted(names, vocabulary.PREVENT_TAINT_KEY)
    await world.signal(names[0], value=OLD)
    answered = loop.time()
    return await closed - min(await signalled, answered)


async def open_zone(world: World, observer: Observer, names: list[str]) -> None:
    opened = observer.when_tainted(names, vocabulary.PREVENT_TAINT_KEY, tainted=False)
    await world.clear_signal(names[0])
    await opened


def report(which: str, rounds: list[tuple[float, float]]) -> None:
    count = f"bare patches, {MOST_WRITES_AT_ONCE} at once"
    ours: Series = milliseconds(f"signal to last taint, {which}", [mine for mine, _ in rounds])
    peer: Series = milliseconds(f"{count}, {which}", [theirs for _, theirs in rounds])
    print(ours.line(), peer.line(), ratio(ours, peer, "≤ 1.5"), sep="\n")


def flags() -> argparse.ArgumentParser:
    parser = arguments(COMMAND, nodes=100, rounds=9)
    parser.add_argument("--cold-rounds", type=int, default=3, help="70 s each; default: %(default)s")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    return on_control_plane(measure, flags(), argv)


if __name__ == "__main__":
    sys.exit(main())
