"""What a leader does while nothing happens: its requests beside watches and lease, and its CPU time.

The nodes send heartbeats, each every ten seconds. Half of the time no node has a signal; then one has, and its zone
is blocked for good. The floor is a process that does nothing but read the same watch in the same run.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence

from bench import nodes
from bench.bare import Bare
from bench.figures import heading, row
from bench.observer import observing
from bench.peers import raw_watch
from bench.resources import cpu_seconds, digested
from bench.setting import arguments, on_control_plane, reconciler, running
from bench.taint_zone import close_zone
from ebbtide.model import format_time
from tests.controlplane.program import Process, configuration
from tests.controlplane.proxy import FaultProxy
from tests.controlplane.world import World

COMMAND = "bench.idle"
HEARTBEAT_PERIOD = 10.0
_HEARTBEATS_UNDER_WAY = 16
# As many nodes of the others are in the zone that is blocked in the second half.
BLOCKED = 10


async def measure(world: World, options: argparse.Namespace) -> None:
    zone = [f"{world.name}-zone-{number}" for number in range(BLOCKED)]
    names = [f"{world.name}-{number}" for number in range(max(0, options.nodes - BLOCKED))]
    plane, pki = world.plane, world.plane.pki
    async with Bare(plane) as bare:
        await nodes.create(world, bare, zone, nodes.cell(world.group, "a"))
        await nodes.create(world, bare, names, nodes.cell(world.group, "b"))
        async with (
            FaultProxy(plane.server, ca_file=pki.ca, certificate=pki.certificate, key=pki.key) as proxy,
            reconciler(plane, configuration(world, leader_election=_AS_IT_COMES), proxy.url) as leader,
            running(*raw_watch.command(plane.server, plane.admin_token, plane.ca_file)) as floor,
        ):
            print(heading(COMMAND, f"{options.nodes} nodes with heartbeats, {options.seconds:.0f} s each"))
            await watched(bare, proxy, [*zone, *names], (leader, floor), options.seconds, "no signal")
            async with observing(world.client, f"tests.ebbtide/world={world.name}") as observer:
                await close_zone(world, observer, zone)
            await watched(bare, proxy, [*zone, *names], (leader, floor), options.seconds, "one zone blocked")


async def watched(
    bare: Bare,
    proxy: FaultProxy,
    names: list[str],
    processes: tuple[Process, Process],
    seconds: float,
    which: str,
) -> None:
    pids = [process.process.pid for process in processes]
    for pid in pids:
        await digested(pid)
    proxy.requests.clear()
    before = [cpu_seconds(pid) for pid in pids]
    beats = await heartbeats(bare, names, seconds)
    used = [1000 * (cpu_seconds(pid) - earlier) / seconds for pid, earlier in zip(pids, before, strict=True)]
    kinds = Counter(kind_of(seen.method, seen.path) for seen in proxy.requests)
    other = kinds.total() - kinds["watch"] - kinds["lease"]
    print(row(f"heartbeats, {which}", f"{beats / seconds:.0f} /s"))
    print(row("requests beside watches and lease", f"{60 * other / seconds:.1f} /min", note="  aim: 0"))
    print(row("watches begun", f"{60 * kinds['watch'] / seconds:.1f} /min"))
    print(row("requests for the lease", f"{60 * kinds['lease'] / seconds:.1f} /min"))
    print(row("CPU of the leader", f"{used[0]:.1f} ms/s"))
    print(row("CPU of a bare watch", f"{used[1]:.1f} ms/s"))
    for kind, count in kinds.items():
        if kind not in ("watch", "lease"):
            print(row(f"  {kind}", str(count)))


async def heartbeats(bare: Bare, names: list[str], seconds: float) -> int:
    """Sends them evenly for that long; how many there were. Behind a slow server some are left out."""
    loop = asyncio.get_running_loop()
    begun, due, sent = loop.time(), 0, 0
    pause = HEARTBEAT_PERIOD / len(names)
    under_way = set[asyncio.Task[None]]()
    async with asyncio.TaskGroup() as group:
        while (now := loop.time()) - begun < seconds:
            while due * pause < now - begun:
                if len(under_way) < _HEARTBEATS_UNDER_WAY:
                    beat = bare.heartbeat(names[due % len(names)], format_time(time.time() // 1))
                    task = group.create_task(beat())
                    under_way.add(task)
                    task.add_done_callback(under_way.discard)
                    sent += 1
                due += 1
            await asyncio.sleep(pause)
    return sent


def kind_of(method: str, path: str) -> str:
    if "watch=true" in path:
        return "watch"
    if "/leases/" in path:
        return "lease"
    return f"{method} {path}"


_AS_IT_COMES = {"lease-duration": "15s", "renew-deadline": "10s", "retry-period": "2s"}


def flags() -> argparse.ArgumentParser:
    parser = arguments(COMMAND, nodes=1000)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each half; default: %(default)s")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    return on_control_plane(measure, flags(), argv)


if __name__ == "__main__":
    sys.exit(main())
