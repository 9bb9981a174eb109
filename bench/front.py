"""What the front of the worker scaler costs for tasks that have their place, and how much those that wait weigh.

It is the whole reconciler, as its users run it, that answers, with a worker that it asks for its tasks meanwhile.
Beside it a bare aiohttp handler that sends everybody to the same place. Each has one processor, the client and the rest
another one; what is counted is the CPU time of the server's process.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.admission import Cores, no_login, on_core
from bench.figures import Series, heading, milliseconds, ratio, row
from bench.front_world import HOME, task
from bench.load import AnswerError, Target, one, paced, saturate
from bench.resources import cpu_seconds, digested, resident_mb
from bench.setting import REPOSITORY, arguments
from tests.controlplane.processes import die_with_parent, free_port
from tests.doubles.worker import CLUSTER

COMMAND = "bench.front"
TASKS = 200
OURS, FLOOR = "front", "bare aiohttp"
_PER_SECOND = 500.0
_CONNECTIONS = 32
_STARTS_WITHIN = 60.0
_LOOK_EVERY = 0.05
_SMALL, _LARGE = 1 << 20, 3 << 30
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Server:
    """One that runs."""

    pid: int
    port: int

    def state(self) -> Target:
        return self._target("GET", 0, "")

    def init(self, number: int = 0, size: int = _SMALL) -> Target:
        return self._target("POST", number, f"&start_ts=1&commit_ts=2&data_size={size}")

    def _target(self, method: str, number: int, more: str) -> Target:
        path = f"/load_data?cluster_id={CLUSTER}&task_id={task(number)}{more}"
        return Target(self.port, None, path, method, 302)


Asked = Callable[[Server], Target]


@asynccontextmanager
async def process(core: int, log: Path, *command: str) -> AsyncIterator[int]:
    """Runs `python -m` on that processor; gives its pid."""
    with log.open("ab") as output, on_core(core):
        started = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            *command,
            cwd=REPOSITORY,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=die_with_parent,
        )
    try:
        yield started.pid
    except (OSError, AnswerError, AssertionError, TimeoutError) as error:
        raise AssertionError(f"{command[0]}: {error!r}; its log ends\n{_end(log)}") from error
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()


@asynccontextmanager
async def front(cores: Cores, folder: Path) -> AsyncIterator[Server]:
    """The reconciler, and what it stands on."""
    api, worker, port = free_port(), free_port(), free_port()
    config, access = folder / "ebbtide.toml", folder / "kubeconfig"
    access.write_text(json.dumps(no_login(f"http://{_LOOPBACK}:{api}")))
    config.write_text(_config(port, worker))
    flags = ("--config", str(config), "--kubeconfig", str(access), "--log-format", "json")
    async with AsyncExitStack() as stack:
        world = ("bench.front_world", str(api), str(worker), str(TASKS))
        await stack.enter_async_context(process(cores.others, folder / "world.log", *world))
        pid = await stack.enter_async_context(process(cores.servers, folder / "front.log", "reconciler", *flags))
        server = Server(pid, port)
        await _answering(server)
        yield server


def _end(log: Path) -> str:
    return "\n".join(line[:300] for line in log.read_text(errors="replace").splitlines()[-10:])


def _config(port: int, worker: int) -> str:
    return f"""
namespace = "{HOME}"
[node-rebalance]
run = false
[certs]
mode = "files"
[observability]
listen = "{_LOOPBACK}:{free_port()}"
[worker-scaler]
run = true
listen = "{_LOOPBACK}:{port}"
worker-port = {worker}
worker-address = "pod-ip"
cluster-id = {CLUSTER}
"""


@asynccontextmanager
async def floor(cores: Cores, folder: Path) -> AsyncIterator[Server]:
    port = free_port()
    async with process(cores.servers, folder / "floor.log", "bench.peers.front_floor", str(port)) as pid:
        server = Server(pid, port)
        await _answering(server)
        yield server


async def _answering(server: Server) -> None:
    async with asyncio.timeout(_STARTS_WITHIN):
        while True:
            try:
                await one(server.state(), b"")
            except (OSError, AnswerError):
                await asyncio.sleep(_LOOK_EVERY)
            else:
                return


async def measure(options: argparse.Namespace) -> None:
    """Prints the figures."""
    cores = Cores.of_this_machine()
    what = f"{options.rounds} rounds of {options.seconds} s, {TASKS} tasks, {_CONNECTIONS} connections"
    print(heading(COMMAND, what), flush=True)
    with tempfile.TemporaryDirectory(prefix="ebbtide-bench-") as folder, on_core(cores.others):
        async with floor(cores, Path(folder)) as bare, front(cores, Path(folder)) as ours:
            servers = {OURS: ours, FLOOR: bare}
            for name, asked in (("state", Server.state), ("init", Server.init)):
                print(f" {name} of a known task, as many as it can")
                await _full(asked, servers, options)
                print(f" {name} of a known task, {_PER_SECOND:.0f} a second")
                await _at_a_pace(asked, servers, options)
            await _waiting(ours, options.waiting)


async def _full(asked: Asked, servers: dict[str, Server], options: argparse.Namespace) -> None:
    """Other work on the machine takes away from the rate, but not from what a second of the processor is good for."""
    rates: dict[str, list[float]] = {name: [] for name in servers}
    costs: dict[str, list[float]] = {name: [] for name in servers}
    for _ in range(options.rounds):
        for name, server in servers.items():
            before = cpu_seconds(server.pid)
            count, took = await saturate(asked(server), [b""], options.seconds, _CONNECTIONS)
            rates[name].append(count / took)
            costs[name].append(count / (cpu_seconds(server.pid) - before))
    _print(rates, "/s")
    _print(costs, "/s of CPU", "aim: >= 3000")


def _print(values: dict[str, list[float]], unit: str, aim: str = "") -> None:
    ours, bare = (Series(name, tuple(values[name]), unit) for name in (OURS, FLOOR))
    print(f"{ours.line()}  {aim}".rstrip(), bare.line(), ratio(ours, bare), sep="\n", flush=True)


async def _at_a_pace(asked: Asked, servers: dict[str, Server], options: argparse.Namespace) -> None:
    """In turns, so that whatever else the machine does meets both."""
    took: dict[str, list[float]] = {name: [] for name in servers}
    for _ in range(options.rounds):
        for name, server in servers.items():
            took[name] += await paced(asked(server), b"", options.paced_seconds, _PER_SECOND, _CONNECTIONS)
    for name, aim in ((OURS, "  aim: p99 <= 10 ms"), (FLOOR, "")):
        print(milliseconds(name, took[name]).line(0.5, 0.99) + aim, flush=True)


async def _waiting(server: Server, count: int) -> None:
    """Memory that inits take while they wait for a dedicated worker, and how others are answered meanwhile."""
    before = resident_mb(server.pid)
    target = server.init(TASKS, _LARGE)
    async with target.connections(count) as opened:
        for connection in opened:
            connection.broken = _broken
            connection.send(target.request(b""))
        await digested(server.pid)
        weight = (resident_mb(server.pid) - before) / count * 1000
        took = await paced(server.state(), b"", 2.0, _PER_SECOND, _CONNECTIONS)
    print(f" {count} inits wait for their worker")
    print(row("memory of each", f"{weight:.1f} KB"))
    print(milliseconds(f"state of a known task meanwhile, {_PER_SECOND:.0f} a second", took).line(0.99), flush=True)


def _broken(error: Exception) -> None:
    raise AssertionError(f"a client that waits has lost its connection: {error!r}")


def flags() -> argparse.ArgumentParser:
    parser = arguments(COMMAND, rounds=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each round; default: %(default)s")
    parser.add_argument("--paced-seconds", type=float, default=5.0, help="of each round; default: %(default)s")
    parser.add_argument("--waiting", type=int, default=2000, help="inits that wait at once; default: %(default)s")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    asyncio.run(measure(flags().parse_args(argv)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
