"""How much memory a leader needs for many heavy nodes: the whole process, its peak included.

On the real API server: first without nodes, then with them, the first list streamed; then with small pages, as from a
server that streams no lists. That is with certificates of another issuer (mode "files"); once more with its own, and
the child that looks at those for a moment. The floor is a process that does nothing but keep a tuple per node from the
same watch.
`--kopf` adds a kopf operator that does nothing with the nodes (it is installed into a throw-away environment).
"""

import argparse
import asyncio
import statistics
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from itertools import cycle

import msgspec
import orjson

from bench import nodes
from bench.bare import Bare
from bench.figures import heading, row
from bench.peers import kopf_environment, raw_watch
from bench.resources import digested, peak_mb, resident_mb
from bench.setting import arguments, on_control_plane, reconciler, running, write_kubeconfig
from certs.consult import Child
from certs.look import Question
from certs.spec import spec_of
from ebbtide.config.admission import Certs
from ebbtide.kube.resources import NODES
from tests.controlplane.program import Process, configuration
from tests.controlplane.proxy import FaultProxy, Refuse
from tests.controlplane.world import World

COMMAND = "bench.memory_nodes"
_CREATED_AT_ONCE = 16
# getrusage(2) counts kilobytes, and for a child also what its parent had when it began: a small one has to start it.
_CHILD = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


async def measure(world: World, options: argparse.Namespace) -> None:
    plane, pki = world.plane, world.plane.pki
    text = configuration(world, certs={"mode": "files"})
    await weighed("reconciler, no nodes", reconciler(plane, text))
    names = [f"{world.name}-{number}" for number in range(options.nodes)]
    plane.stop_controllers()  # fake kubelets for so many nodes would need the machine for themselves
    async with Bare(plane) as bare:
        bodies = [nodes.ready(name, nodes.cell(world.group, zone)) for name, zone in zip(names, cycle("abc"))]
        await bare.all([bare.post(NODES.path(""), body) for body in bodies], width=_CREATED_AT_ONCE)
    print(heading(COMMAND, f"{options.nodes} nodes of {await weight(world) / 1000:.1f} KB (median)"))
    for _ in range(options.rounds):
        await weighed("reconciler, list streamed", reconciler(plane, text), "at most 75")
    async with FaultProxy(plane.server, ca_file=pki.ca, certificate=pki.certificate, key=pki.key) as proxy:
        proxy.inject(Refuse(422), method="GET", path="sendInitialEvents")
        for _ in range(options.rounds):
            await weighed("reconciler, list in pages", reconciler(plane, text, proxy.url), "at most 75")
    for _ in range(options.rounds):
        own = reconciler(plane, configuration(world))
        await weighed("reconciler, list streamed, certificates too", own, "at most 75")
    print(row("its child, for less than a second", f"{await child_mb(world):.1f} MB"), flush=True)
    bare_watch = raw_watch.command(plane.server, plane.admin_token, plane.ca_file)
    await weighed("floor: a bare watch, list streamed", running(*bare_watch))
    if options.kopf:
        python, kubeconfig = kopf_environment.python(), write_kubeconfig(plane, plane.server, "kopf")
        await weighed("kopf", running(str(kopf_environment.OPERATOR), python=python, KUBECONFIG=str(kubeconfig)))


async def weight(world: World) -> float:
    """Median size in bytes of the nodes as the API server sends them."""
    answer = await world.client.request("GET", f"{NODES.path('')}?limit=50")
    items = answer.json()["items"]
    return statistics.median(len(orjson.dumps(item)) for item in items)


async def child_mb(world: World) -> float:
    """The peak of a process that makes certificates, and ends."""
    spec = spec_of(Certs(), world.namespace)
    question = Question("tls", None, bundles=(), replicas=(), injected_at=None, spec=spec, now=time.time())
    measuring = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _CHILD, *Child().command, stdin=PIPE, stdout=PIPE
    )
    said, _ = await measuring.communicate(msgspec.json.encode(question))
    return int(said) * 1024 / 1e6


async def weighed(name: str, starting: AbstractAsyncContextManager[Process], aim: str = "") -> None:
    async with starting as process:
        pid = process.process.pid
        await digested(pid)
        note = f"  now {resident_mb(pid):.1f}" + (f"  aim: {aim}" if aim else "")
        print(row(name, f"{peak_mb(pid):.1f} MB", note=note), flush=True)


def flags() -> argparse.ArgumentParser:
    parser = arguments(COMMAND, nodes=5000, rounds=3)
    parser.add_argument("--kopf", action="store_true", help="weigh a kopf operator too")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    return on_control_plane(measure, flags(), argv)


if __name__ == "__main__":
    sys.exit(main())
