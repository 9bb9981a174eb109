"""What an admission request costs, and how long it takes: the whole webhook, the floor, and other ways to do the same.

In each round every server (see `bench.admission`) is started anew, and they take short turns with the same reviews of
every size, over TLS connections that are kept. The servers have one processor, the client another one; what is counted
is the CPU time of the server's process. Every answer is checked for doing to the pod what it has to, once per round.
"""

import argparse
import asyncio
import gc
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

from bench import nodes, reviews
from bench.admission import BARE, FLOOR, KOPF, OURS, TYPED, Place, Server, on_core, serving, starts
from bench.embedded import Object, embedded
from bench.figures import Series, heading, judged, ratio
from bench.load import one, paced, saturate
from bench.resources import cpu_seconds, peak_mb, resident_mb
from bench.setting import arguments
from ebbtide import vocabulary
from webhook.alike import MOST
from webhook.main import fastest_loop

COMMAND = "bench.webhook"
SIZES = {"2 KB": 2_000, "5 KB": 5_000, "15 KB": 15_000, "1 MB": 1_000_000}
# Of pods that are alike one answer is remembered; of so many pods that are not, each is decided anew, although the same
# patch comes of it, which is remembered.
UNLIKE = "5 KB, no two alike"
UNLIKE_COUNT = 4 * MOST
_PACED = "5 KB"
_PER_SECOND = 200.0
_CONNECTIONS = 16

_CPU, _FULL, _LATENCY = "CPU time per request, {}", "requests per second on one processor, {}", "{} at {} /s, {}"
_P50, _P99 = (_LATENCY.format(share, f"{_PER_SECOND:.0f}", _PACED) for share in ("p50", "p99"))
_START, _MEMORY = "start to ready", "memory when it is ready"
_PEAK = "peak of the memory, after reviews of all sizes"
# What our value is to be, in its unit, and what our part of a peer's.
_AIMS: Mapping[tuple[str, str], str] = {
    **{(_CPU.format(size), OURS): "≤ 100" for size in ("5 KB", UNLIKE)},
    **{(_CPU.format(size), FLOOR): "≤ 2.5" for size in ("5 KB", UNLIKE)},
    **{(_CPU.format(size), TYPED): "≤ 0.25" for size in ("5 KB", UNLIKE)},
    **{(_CPU.format(size), KOPF): "≤ 0.11" for size in ("5 KB", UNLIKE)},
    **{(_CPU.format(size), BARE): "≤ 1.25" for size in ("5 KB", UNLIKE)},
    (_CPU.format("15 KB"), BARE): "< 1",
    (_P99, FLOOR): "≤ 1.5",
    (_START, OURS): "≤ 2",
    (_MEMORY, OURS): "≤ 80",
}


class Values:
    """What was measured: a value per round or turn, by figure and server."""

    def __init__(self) -> None:
        self._found = defaultdict[tuple[str, str], dict[str, list[float]]](lambda: defaultdict(list))

    def add(self, figure: str, unit: str, server: str, value: float) -> None:
        self._found[figure, unit][server].append(value)

    def report(self) -> None:
        for (figure, unit), servers in self._found.items():
            print(f" {figure}")
            series = {name: Series(name, tuple(values), unit) for name, values in servers.items()}
            for name, each in series.items():
                aim = _AIMS.get((figure, name), "")
                if name == OURS:
                    print(each.line() + judged(aim, each.median))
                else:
                    print(each.line(), ratio(series[OURS], each, aim), sep="\n")


async def measure(options: argparse.Namespace) -> None:
    """Prints the figures."""
    bodies = {name: [reviews.body(size)] for name, size in SIZES.items()}
    bodies[UNLIKE] = reviews.unlike(SIZES["5 KB"], UNLIKE_COUNT)
    values = Values()
    with tempfile.TemporaryDirectory(prefix="ebbtide-bench-") as folder:
        async with embedded(cluster_nodes(options.nodes)) as url:
            place = Place.made(Path(folder), url)
            what = f"{options.rounds} rounds, {options.turns} turns of {options.seconds} s, {options.nodes} nodes"
            print(heading(COMMAND, f"{what}, {_CONNECTIONS} connections"), flush=True)
            with on_core(place.cores.others), undisturbed():
                for _ in range(options.rounds):
                    await one_round(place, bodies, options, values)
    values.report()


@contextmanager
def undisturbed() -> Iterator[None]:
    """Thousands of nodes are not looked through for garbage in the middle of a measurement."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


async def one_round(
    place: Place, bodies: Mapping[str, Sequence[bytes]], options: argparse.Namespace, values: Values
) -> None:
    async with AsyncExitStack() as stack:
        servers: dict[str, Server] = {}
        for name, start in starts(go=options.go, kopf=options.kopf).items():
            servers[name] = await stack.enter_async_context(serving(name, place, start))
            values.add(_START, "s", name, servers[name].started)
        for name, server in servers.items():
            values.add(_MEMORY, "MB", name, resident_mb(server.pid))
            for alike in bodies.values():
                await check(name, server, alike[0])
        for size, asked in bodies.items():
            for _ in range(options.turns):
                for name, server in servers.items():
                    await full(size, name, server, asked, options.seconds, values)
        for name, server in servers.items():
            await at_a_pace(name, server, bodies[_PACED][0], options.paced_seconds, values)
            values.add(_PEAK, "MB", name, peak_mb(server.pid))


async def check(name: str, server: Server, body: bytes) -> None:
    """Raises AssertionError when it answers something else than the others."""
    answer = await one(server.target, body)
    if name != FLOOR:
        found = reviews.changes(body, answer)
        assert found == reviews.wanted(), f"{name} makes of the pod {found}"


async def full(size: str, name: str, server: Server, bodies: Sequence[bytes], seconds: float, values: Values) -> None:
    """As many requests as it can answer."""
    before = cpu_seconds(server.pid)
    count, took = await saturate(server.target, bodies, seconds, _CONNECTIONS)
    used = cpu_seconds(server.pid) - before
    values.add(_CPU.format(size), "µs", name, used / count * 1e6)
    values.add(_FULL.format(size), "/s", name, count / took)


async def at_a_pace(name: str, server: Server, body: bytes, seconds: float, values: Values) -> None:
    took = Series("", tuple(await paced(server.target, body, seconds, _PER_SECOND, _CONNECTIONS)), "s")
    values.add(_P50, "ms", name, took.percentile(0.5) * 1e3)
    values.add(_P99, "ms", name, took.percentile(0.99) * 1e3)


def cluster_nodes(count: int) -> list[Object]:
    """In three zones, one of which is blocked."""
    zones = [reviews.BLOCKED, "eu-central-1b", "eu-central-1c"]
    made = [nodes.ready(f"node-{number}", nodes.cell(reviews.GROUP, zones[number % 3])) for number in range(count)]
    taint = {"key": vocabulary.PREVENT_TAINT_KEY, "value": "1", "effect": vocabulary.PREVENT_TAINT_EFFECT}
    made[0]["spec"]["taints"] = [*made[0]["spec"]["taints"], taint]
    return made


def flags() -> argparse.ArgumentParser:
    parser = arguments(COMMAND, nodes=5000, rounds=3)
    parser.add_argument("--turns", type=int, default=7, help="of each round; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=0.7, help="of each turn; default: %(default)s")
    parser.add_argument("--paced-seconds", type=float, default=15.0, help="for latencies; default: %(default)s")
    parser.add_argument("--go", action="store_true", help="measure webhooks written in Go too")
    parser.add_argument("--kopf", action="store_true", help="measure a kopf operator too")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    options = flags().parse_args(argv)
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        runner.run(measure(options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
