"""What an agent weighs and uses on a node where nothing happens, beside the least that asks the same.

The agent runs with the client that it has in a pod, against AWS's own mock of the metadata service, tokens required.
The peer is aiohttp, which the agent does without: a loop that asks for the same on one connection that stays open.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import agent_in_pod
from bench.figures import heading, row
from bench.peers import raw_poll
from bench.resources import cpu_seconds, digested, peak_mb, resident_mb
from bench.setting import arguments, on_control_plane, running
from tests.controlplane.metadata import metadata
from tests.controlplane.program import Process
from tests.controlplane.world import World

COMMAND = "bench.agent"
_NOTHING_HAPPENS = ("--rebalance-delay-sec", "86400", "--mock-delay-sec", "86400")


async def measure(world: World, options: argparse.Namespace) -> None:
    (node,) = await world.add_nodes("a", 1)
    print(heading(COMMAND, f"two questions every {options.interval:g} s, for {options.seconds:g} s"))
    with tempfile.TemporaryDirectory(prefix="ebbtide-bench-") as name:
        account = _account(world, Path(name))
        async with metadata(Path(name), *_NOTHING_HAPPENS) as service:
            agent = agent_in_pod.command(node, world.plane.server, account, service.mock, options.interval)
            async with running(*agent) as process, running(*raw_poll.command(service.mock, options.interval)) as bare:
                await _figures(process, bare, options.seconds)


async def _figures(agent: Process, bare: Process, seconds: float) -> None:
    pids = [agent.process.pid, bare.process.pid]
    for pid in pids:
        await digested(pid)
    before = [cpu_seconds(pid) for pid in pids]
    await asyncio.sleep(seconds)
    used = [1000 * (cpu_seconds(pid) - earlier) / seconds for pid, earlier in zip(pids, before, strict=True)]
    weights = [resident_mb(pid) for pid in pids]
    print(row("CPU of the agent", f"{used[0]:.2f} ms/s", note="  aim: at most 2"))
    print(row("CPU of a bare loop", f"{used[1]:.2f} ms/s"))
    print(row("the agent, resident", f"{weights[0]:.1f} MB", note=f"  peak {peak_mb(pids[0]):.1f}  aim: at most 40"))
    print(row("the bare loop, resident", f"{weights[1]:.1f} MB"))


def _account(world: World, folder: Path) -> Path:
    """A service account's files, with the administrator's token."""
    (folder / "token").write_text(world.plane.admin_token)
    (folder / "ca.crt").write_bytes(world.plane.ca_file.read_bytes())
    return folder


def flags() -> argparse.ArgumentParser:
    parser = arguments(COMMAND)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="how long CPU time is counted; default: %(default)s"
    )
    parser.add_argument("--interval", type=float, default=2.0, help="the agent's poll-interval; default: %(default)s")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    return on_control_plane(measure, flags(), argv)


if __name__ == "__main__":
    sys.exit(main())
