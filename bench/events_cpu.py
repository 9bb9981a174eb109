"""What it costs to follow busy nodes: CPU seconds per 1,000 events of a node of 15 KB, and memory beside it.

The same stream is played to one process after the other: a leading reconciler, a process that does nothing but read
(the floor), with `--kopf` a kopf operator that does nothing with the events (installed into a throw-away environment),
and with `--go` a controller-runtime manager that keeps typed nodes (built outside the repository): in protobuf, as it
asks for nodes, and in JSON, as all others do. 5,000 nodes with a heartbeat every ten seconds are 500 events per second.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from bench import nodes, protobuf
from bench.bare import Bare
from bench.figures import Series, heading, judged, ratio, row
from bench.peers import go_programs, kopf_environment, raw_watch
from bench.replay import Replay
from bench.resources import cpu_seconds, digested, peak_mb
from bench.setting import arguments, on_control_plane, reconciler, running, write_kubeconfig
from ebbtide.kube.resources import NODES
from tests.controlplane.program import Process, configuration
from tests.controlplane.world import World

COMMAND = "bench.events_cpu"
# What our part of a peer's is to be, of CPU time and of memory.
_AIMS: Mapping[str, str] = {"controller-runtime": "≤ 1", "kopf": "≤ 0.167"}
Starting = AbstractAsyncContextManager[Process]


async def measure(world: World, options: argparse.Namespace) -> None:
    plane, name = world.plane, f"{world.name}-node"  # the group has another name, which copies keep
    async with Bare(plane) as bare:
        await nodes.create(world, bare, [name], nodes.cell(world.group, "a"))
        raw = await world.client.get(NODES, name)
        encoded = await bare.encoded(NODES.path("", name), protobuf.CONTENT_TYPE)
    async with Replay(plane, raw, options.nodes, encoded) as replay:
        what = (
            f"{options.events} events, {options.rate:.0f} /s, of {options.nodes} nodes of {replay.weight / 1000:.1f} KB"
        )
        print(heading(COMMAND, what), flush=True)
        costs, peaks = defaultdict[str, list[float]](list), dict[str, float]()
        for _ in range(options.rounds):
            for name, starting in subjects(world, replay, options).items():
                cost, peaks[name] = await fed(starting, replay, options)
                costs[name].append(cost)
    report(costs, peaks)


def subjects(world: World, replay: Replay, options: argparse.Namespace) -> dict[str, Starting]:
    """The processes to be fed, not yet started, by name."""
    plane = world.plane
    found: dict[str, Starting] = {
        "reconciler": reconciler(plane, configuration(world), replay.url),
        "floor: a bare watch": running(*raw_watch.command(replay.url, plane.admin_token, plane.ca_file)),
    }
    if options.kopf:
        kubeconfig = write_kubeconfig(plane, replay.url, "kopf")
        operator, python = str(kopf_environment.OPERATOR), kopf_environment.python()
        found["kopf"] = running(operator, python=python, KUBECONFIG=str(kubeconfig))
    if options.go:
        kubeconfig = write_kubeconfig(plane, replay.url, "go")
        program = go_programs.program("watch")
        found["controller-runtime"] = running(python=program, KUBECONFIG=str(kubeconfig))
        found["controller-runtime, JSON"] = running("-json", python=program, KUBECONFIG=str(kubeconfig))
    return found


async def fed(starting: Starting, replay: Replay, options: argparse.Namespace) -> tuple[float, float]:
    """CPU seconds per 1,000 events, and the peak of the memory in MB."""
    async with starting as process:
        pid = process.process.pid
        await digested(pid)
        before = cpu_seconds(pid)
        await replay.send(options.events, options.rate)
        await digested(pid)
        return (cpu_seconds(pid) - before) / options.events * 1000, peak_mb(pid)


def report(costs: dict[str, list[float]], peaks: dict[str, float]) -> None:
    series = {name: Series(name, tuple(values), "s/1,000") for name, values in costs.items()}
    for name, values in series.items():
        print(values.line())
        if name != "reconciler":
            print(ratio(series["reconciler"], values, _AIMS.get(name, "")))
    for name, peak in peaks.items():
        aim = _AIMS.get(name, "")
        part = f"  ratio {peaks['reconciler'] / peak:.2f}{judged(aim, peaks['reconciler'] / peak)}" if aim else ""
        print(row(f"peak of the memory, {name}", f"{peak:.1f} MB", note=part))


def flags() -> argparse.ArgumentParser:
    parser = arguments(COMMAND, nodes=5000, rounds=3)
    parser.add_argument("--events", type=int, default=5000, help="default: %(default)s")
    parser.add_argument("--rate", type=float, default=500.0, help="events per second; default: %(default)s")
    parser.add_argument("--kopf", action="store_true", help="feed a kopf operator too")
    parser.add_argument("--go", action="store_true", help="feed a controller-runtime manager too")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    return on_control_plane(measure, flags(), argv)


if __name__ == "__main__":
    sys.exit(main())
