"""How long the leader takes to ask a thousand workers for their tasks when some never answer, and what it needs.

Beside it the same questions from a plain aiohttp client, as many at once and with the same deadline. Both know the pods
from the embedded cluster; all workers are one process, which listens at every pod's own address.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from bench.admission import Cores, on_core
from bench.figures import Series, heading, row
from bench.setting import REPOSITORY, arguments
from bench.status_asker import CLUSTER
from ebbtide import vocabulary
from ebbtide.config.scaler import WorkerScaler
from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from reconciler.scaler.task import TaskId, TaskState, write_states
from tests.controlplane.processes import free_port

COMMAND = "bench.status_round"
SETTINGS = WorkerScaler()
# One in twenty.
_SILENT = 20
_TASKS = 4
_ENDS_WITHIN = 120.0
_POOL = "ldw-shared"


def address(number: int) -> str:
    """A loopback address for each pod."""
    return f"127.9.{number // 250}.{number % 250 + 1}"


async def answer(request: web.BaseRequest) -> web.StreamResponse:
    """Every twentieth worker never does."""
    assert request.transport is not None
    _, _, hundreds, ones = map(int, request.transport.get_extra_info("sockname")[0].split("."))
    number = hundreds * 250 + ones - 1
    if number % _SILENT == 0:
        await asyncio.get_running_loop().create_future()
    tasks = [TaskState(TaskId(1, CLUSTER, number, each), progress=(1, 2, 3, 4, 5)) for each in range(_TASKS)]
    return web.json_response(write_states(tasks))


@asynccontextmanager
async def workers(count: int) -> AsyncIterator[int]:
    """All of them; gives their port."""
    server, port = web.Server(answer, handler_cancellation=True, access_log=None), free_port()
    listening = await asyncio.get_running_loop().create_server(server, [address(n) for n in range(count)], port)
    try:
        yield port
    finally:
        listening.close()
        await server.shutdown(0.1)


@asynccontextmanager
async def api_server(count: int) -> AsyncIterator[str]:
    """A cluster with the pool and its pods; gives its URL."""
    async with Cluster(window=count + 100) as cluster:
        labels = {vocabulary.POOL_LABEL: vocabulary.POOL_SHARED}
        body = objects.stateful_set(_POOL, namespace=SETTINGS.namespace, replicas=count)
        _, owner = cluster.create(objects.namespace(SETTINGS.namespace), body)
        for number in range(count):
            name = f"{_POOL}-{number}"
            pod = objects.pod(name, namespace=SETTINGS.namespace, node="n", labels=labels, owner=owner)
            running = {"name": "app", "state": {"running": {"startedAt": objects.LONG_AGO}}}
            status = {"podIP": address(number), "containerStatuses": [running]}
            cluster.create(objects.changed(pod, {"status": status}))
        yield await cluster.serve()


async def asked(cores: Cores, *options: str) -> list[dict[str, Any]]:
    """What a process that asks has to say."""
    with on_core(cores.servers):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.status_asker", *options, cwd=REPOSITORY, stdout=asyncio.subprocess.PIPE
        )
    try:
        async with asyncio.timeout(_ENDS_WITHIN):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, f"it has ended with {process.returncode}"
    return [json.loads(line) for line in said.splitlines() if line.startswith(b"{")]


async def measure(options: argparse.Namespace) -> None:
    """Prints the figures."""
    cores = Cores.of_this_machine()
    what = f"{options.workers} workers with {_TASKS} tasks each, every {_SILENT}th silent, {options.rounds} rounds"
    print(heading(COMMAND, what), flush=True)
    with on_core(cores.others):
        async with workers(options.workers) as port, api_server(options.workers) as server:
            floor = [(await asked(cores, server, str(port), "bare", "0"))[0] for _ in range(options.rounds)]
            ours = [
                await asked(cores, server, str(port), "rounds", str(options.seconds)) for _ in range(options.rounds)
            ]
    _report([first for first, _ in ours], [later for _, later in ours], floor, options.workers)


def _report(first: list[dict[str, Any]], later: list[dict[str, Any]], floor: list[dict[str, Any]], count: int) -> None:
    bound = SETTINGS.status_timeout
    print(f" one round; the deadline of each question is {bound:g} s")
    aims = {"took": f"  aim: at most {bound + 2:g} s", "cpu": "", "above_idle": "  aim: at most 40 MB"}
    names = {"took": ("all asked within", "s"), "cpu": ("CPU time", "s"), "above_idle": ("memory above idle", "MB")}
    for key, (name, unit) in names.items():
        print(Series(f"reconciler: {name}", tuple(each[key] for each in first), unit).line() + aims[key])
        print(Series(f"bare: {name}", tuple(each[key] for each in floor), unit).line())
    print(f" the rounds after it, one every {SETTINGS.refresh_interval:g} s")
    answering = count - -(-count // _SILENT)
    assert all(each["answered"] == answering for each in later), "somebody has not answered who should have"
    oldest = tuple(each["oldest"] for each in later)
    print(Series("reconciler: oldest answer of a worker that answers", oldest, "s").line())
    cores = tuple(each["cpu"] * 100 for each in later)
    print(Series("reconciler: of one processor", cores, "%").line())
    peak = max(each["above_idle"] for each in later)
    print(row("reconciler: memory above idle, peak", f"{peak:.1f} MB"), flush=True)


def flags() -> argparse.ArgumentParser:
    parser = arguments(COMMAND, rounds=3)
    parser.add_argument("--workers", type=int, default=1024, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=30.0, help="after the first round; default: %(default)s")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    asyncio.run(measure(flags().parse_args(argv)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
