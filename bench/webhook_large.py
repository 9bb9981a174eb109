"""How much memory a webhook takes while very many of the largest reviews come at once, and who waits for them.

Each review comes on a connection of its own, all at the same moment, from a process beside this one. Who is told to
come again does so after a second, as the API server does. Meanwhile others send reviews of the usual size, on
connections that are kept. The servers have one processor; the clients, who have to encrypt it all, the other one.
"""

import argparse
import asyncio
import multiprocessing
import ssl
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import perf_counter

from bench import reviews
from bench.admission import FLOOR, OURS, Place, Server, on_core, serving, starts
from bench.embedded import embedded
from bench.figures import Series, heading, milliseconds, row
from bench.load import paced
from bench.resources import peak_mb, resident_mb
from bench.setting import arguments
from bench.webhook import check, cluster_nodes, undisturbed
from tests.webhook.large import Creator
from webhook.main import fastest_loop

COMMAND = "bench.webhook_large"
_SMALL = 5000
_PER_SECOND = 50.0
_SMALL_CONNECTIONS = 8
_A_WHILE = 1.0


async def measure(options: argparse.Namespace) -> None:
    """Prints the figures."""
    with tempfile.TemporaryDirectory(prefix="ebbtide-bench-") as folder:
        async with embedded(cluster_nodes(options.nodes)) as url:
            place = Place.made(Path(folder), url)
            what = f"{options.count} reviews of {options.size / 1e6:.1f} MB at once, {options.nodes} nodes"
            print(heading(COMMAND, what), flush=True)
            with on_core(place.cores.others), undisturbed(), beside() as process:
                for name in (OURS, FLOOR):
                    async with serving(name, place, starts(go=False, kopf=False)[name]) as server:
                        await under_load(name, server, Storm(place, server, options), process)


def beside() -> ProcessPoolExecutor:
    """A process on the same processor."""
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


class Storm:
    """All large reviews at once, to be called in a process of its own."""

    def __init__(self, place: Place, server: Server, options: argparse.Namespace) -> None:
        self._ca_file = place.folder / "ca.crt"
        self._port = server.target.port
        self._size = options.size
        self._count = options.count

    def __call__(self) -> tuple[float, list[tuple[float, int]]]:
        """The seconds until all were answered; of each the seconds, and how often it came again."""
        trust = ssl.create_default_context(cafile=self._ca_file)
        creator = Creator(self._port, trust, reviews.body(self._size))
        with asyncio.Runner(loop_factory=fastest_loop()) as runner:
            begun = perf_counter()
            each = runner.run(creator.many(self._count))
            return perf_counter() - begun, each


async def under_load(name: str, server: Server, storm: Storm, process: ProcessPoolExecutor) -> None:
    small = reviews.body(_SMALL)
    await check(name, server, small)
    before, meanwhile = resident_mb(server.pid), list[float]()
    raging = asyncio.get_running_loop().run_in_executor(process, storm)
    while not raging.done():
        meanwhile += await paced(server.target, small, _A_WHILE, _PER_SECOND, _SMALL_CONNECTIONS)
    took, each = await raging
    print(f" {name}")
    print(Series("a large review, from its first byte to its answer", tuple(one for one, _ in each), "s").line(0.99))
    print(row("until all are answered", f"{took:.1f} s"))
    print(row("told to come again, times", str(sum(again for _, again in each))))
    print(milliseconds(f"a review of 5 KB meanwhile, {_PER_SECOND:.0f} /s", meanwhile).line(0.5, 0.99))
    print(row("memory before", f"{before:.0f} MB"))
    print(row("peak of the memory", f"{peak_mb(server.pid):.0f} MB"), flush=True)


def flags() -> argparse.ArgumentParser:
    parser = arguments(COMMAND, nodes=5000)
    parser.add_argument("--count", type=int, default=256, help="default: %(default)s")
    parser.add_argument("--size", type=int, default=6_500_000, help="in bytes; default: %(default)s")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    options = flags().parse_args(argv)
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        runner.run(measure(options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
