"""What the front of the worker scaler costs for tasks that have their place, and how much those that wait weigh.

Beside it a bare aiohttp handler that sends everybody to the same place. The servers have one processor, the client
another one; what is counted is the CPU time of the server's process.
"""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from bench.admission import Cores, on_core
from bench.figures import Series, heading, milliseconds, ratio, row
from bench.front_server import CLUSTER, task
from bench.load import AnswerError, Target, one, paced, saturate
from bench.resources import cpu_seconds, digested, resident_mb
from bench.setting import REPOSITORY, arguments
from tests.controlplane.processes import free_port

COMMAND = "bench.front"
TASKS = 10_000
_FLOOR, _OURS = "bare aiohttp", "front"
_PER_SECOND = 500.0
_CONNECTIONS = 32
_STARTS_WITHIN = 30.0
_LOOK_EVERY = 0.05
_REQUESTS = {"state": ("GET", ""), "init": ("POST", "&start_ts=1&commit_ts=2&data_size=1048576")}


class Server:
    """One that runs."""

    def __init__(self, pid: int, port: int) -> None:
        self.pid = pid
        self.port = port

    def target(self, request: str, number: int = 0) -> Target:
        method, more = _REQUESTS[request]
        path = f"/load_data?cluster_id={CLUSTER}&task_id={task(number)}{more}"
        return Target(self.port, None, path, method, 302)


@asynccontextmanager
async def serving(cores: Cores, module: str, *options: str) -> AsyncIterator[Server]:
    port = free_port()
    with on_core(cores.servers):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", module, str(port), *options, cwd=REPOSITORY, stdin=asyncio.subprocess.DEVNULL
        )
    server = Server(process.pid, port)
    try:
        async with asyncio.timeout(_STARTS_WITHIN):
            await _answering(server, process)
        yield server
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _answering(server: Server, process: asyncio.subprocess.Process) -> None:
    while True:
        assert process.returncode is None, f"it has ended with {process.returncode}"
        try:
            await one(server.target("state"), b"")
        except (OSError, AnswerError):
            await asyncio.sleep(_LOOK_EVERY)
        else:
            return


async def measure(options: argparse.Namespace) -> None:
    """Prints the figures."""
    cores = Cores.of_this_machine()
    what = f"{options.rounds} rounds of {options.seconds} s, {TASKS} tasks, {_CONNECTIONS} connections"
    print(heading(COMMAND, what), flush=True)
    with on_core(cores.others):
        async with AsyncExitStack() as stack:
            floor = await stack.enter_async_context(serving(cores, "bench.peers.front_floor"))
            ours = await stack.enter_async_context(serving(cores, "bench.front_server", str(TASKS)))
            for request in _REQUESTS:
                await _full(request, ours, floor, options)
                await _at_a_pace(request, ours, floor, options)
            await _waiting(ours, options.waiting)


async def _full(request: str, ours: Server, floor: Server, options: argparse.Namespace) -> None:
    rates: dict[str, list[float]] = {_OURS: [], _FLOOR: []}
    costs: dict[str, list[float]] = {_OURS: [], _FLOOR: []}
    for _ in range(options.rounds):
        for name, server in ((_OURS, ours), (_FLOOR, floor)):
            before = cpu_seconds(server.pid)
            count, took = await saturate(server.target(request), b"", options.seconds, _CONNECTIONS)
            rates[name].append(count / took)
            costs[name].append((cpu_seconds(server.pid) - before) / count * 1e6)
    print(f" {request} of a known task, as many as it can")
    _print(rates, "/s", "aim: >= 3000 /s")
    _print(costs, "µs of CPU each", "")


def _print(values: dict[str, list[float]], unit: str, aim: str) -> None:
    ours, floor = (Series(name, tuple(values[name]), unit) for name in (_OURS, _FLOOR))
    print(f"{ours.line()}  {aim}".rstrip(), floor.line(), ratio(ours, floor), sep="\n", flush=True)


async def _at_a_pace(request: str, ours: Server, floor: Server, options: argparse.Namespace) -> None:
    print(f" {request} of a known task, {_PER_SECOND:.0f} a second")
    for name, server, aim in ((_OURS, ours, "  aim: p99 <= 10 ms"), (_FLOOR, floor, "")):
        took = await paced(server.target(request), b"", options.paced_seconds, _PER_SECOND, _CONNECTIONS)
        print(milliseconds(name, took).line(0.5, 0.99) + aim, flush=True)


async def _waiting(server: Server, count: int) -> None:
    """Memory that inits take while they wait for their worker, and whether others are answered meanwhile."""
    before = resident_mb(server.pid)
    target = server.target("init", TASKS - 1)
    async with target.connections(count) as opened:
        for connection in opened:
            connection.broken = _broken
            connection.send(target.request(b""))
        await digested(server.pid)
        took = await paced(server.target("state"), b"", 2.0, _PER_SECOND, _CONNECTIONS)
        weight = (resident_mb(server.pid) - before) / count * 1000
    print(f" {count} inits wait for their worker")
    print(row("memory of each", f"{weight:.1f} KB"))
    print(milliseconds(f"state of a known task meanwhile, {_PER_SECOND:.0f} a second", took).line(0.99), flush=True)


def _broken(error: Exception) -> None:
    raise AssertionError(f"a client that waits has lost its connection: {error!r}")


def flags() -> argparse.ArgumentParser:
    parser = arguments(COMMAND, rounds=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each round; default: %(default)s")
    parser.add_argument("--paced-seconds", type=float, default=15.0, help="for latencies; default: %(default)s")
    parser.add_argument("--waiting", type=int, default=2000, help="inits that wait at once; default: %(default)s")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    asyncio.run(measure(flags().parse_args(argv)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
