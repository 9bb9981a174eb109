"""The programs as their users run them: as processes of their own, or in this one where nothing has to be killed."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import aiohttp

from ebbtide.config import Settings, load
from ebbtide.kube.errors import NotFound
from ebbtide.kube.resources import LEASES
from ebbtide.service.listening import bind
from reconciler import main as reconciler
from tests.controlplane import accounts
from tests.controlplane.proxy import FaultProxy, watched
from tests.controlplane.world import World, wait_until

REPOSITORY = Path(__file__).parents[2]
LEASE = "ebbtide-reconciler"
_SERVING = re.compile(r"127\.0\.0\.1:(\d+)")

# Seconds in tests of what takes minutes in production. The lease is a long one: on a busy machine a leader may not be
# run for seconds, and one that has lost it begins again with all that it had asked for.
QUICK: Mapping[str, Mapping[str, object]] = {
    "node-rebalance": {"retry-too-many-requests-time": "1s", "cluster-autoscaler-stabilization": "0s"},
    "leader-election": {"lease-duration": "30s", "renew-deadline": "20s", "retry-period": "500ms"},
    "observability": {"listen": "127.0.0.1:0"},
}


@dataclass
class Scrape:
    """The metrics of a process at one moment, by name with labels as they are written."""

    samples: Mapping[str, float]

    @classmethod
    def of(cls, text: str) -> Self:
        """Reads what `/metrics` says."""
        samples = [line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
        return cls({name: float(value) for name, value in samples})

    def value(self, name: str, **labels: str) -> float | None:
        """The sample with at least these labels, None if there is none."""
        for series, value in self.samples.items():
            if series.split("{")[0] == name and all(f'{key}="{label}"' in series for key, label in labels.items()):
                return value
        return None


@dataclass
class Process:
    """A running program. `log` is its output so far."""

    process: asyncio.subprocess.Process
    log: list[str] = field(default_factory=list)

    async def read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.log.append(line.decode(errors="replace").rstrip())

    def port(self) -> int | None:
        found = [match for line in self.log if "serving" in line and (match := _SERVING.search(line))]
        return int(found[0].group(1)) if found else None

    async def serving(self) -> str:
        """The URL of its metrics and probes."""

        async def listening() -> int | None:
            assert self.process.returncode is None, "\n".join(self.log)
            return self.port()

        return f"http://127.0.0.1:{await wait_until(listening, 'the program serves its probes')}"

    def kill(self) -> None:
        """`kill -9`; see `kill_leader`."""
        if self.process.returncode is None:
            self.process.kill()

    async def terminate(self) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return await self.process.wait()


def configuration(world: World, **sections: Mapping[str, object]) -> str:
    """TOML for this world's group and namespace; `sections` (underscores for dashes) are laid over `QUICK`."""
    merged = {name: dict(keys) for name, keys in QUICK.items()}
    merged["node-rebalance"]["node-groups"] = [world.group]
    for name, keys in sections.items():
        merged.setdefault(name.replace("_", "-"), {}).update(keys)
    lines = [f'namespace = "{world.namespace}"']
    for section, keys in merged.items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {_toml(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


@asynccontextmanager
async def in_this_process(
    folder: Path,
    cluster: World,
    text: str,
    *,
    proxy: FaultProxy | None = None,
    dry_run: bool = False,
) -> AsyncIterator[str]:
    """Runs the reconciler in a task, by way of the proxy or of one of its own, with the account of the chart; gives the
    URL of its metrics, and stops it in order."""
    settings = settled(folder, text)
    token = await accounts.token(cluster, "reconciler", settings, dry_run=dry_run)
    stopping = asyncio.Event()
    listening = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    async with nullcontext(proxy) if proxy else watched(cluster.plane) as way, asyncio.TaskGroup() as group:
        access = way.access(token)
        group.create_task(
            reconciler.run(settings, access, dry_run=dry_run, stopping=stopping, listening=listening), name="reconciler"
        )
        try:
            yield url
        finally:
            stopping.set()


def running(folder: Path, cluster: World, proxy: FaultProxy, **rebalance: object) -> AbstractAsyncContextManager[str]:
    """The reconciler in this process, going through the proxy; `rebalance` are keys of its section."""
    return in_this_process(folder, cluster, configuration(cluster, node_rebalance=rebalance), proxy=proxy)


@asynccontextmanager
async def process(
    folder: Path, world: World, proxy: FaultProxy, text: str, *flags: str, token: str = ""
) -> AsyncIterator[Process]:
    """Runs `python -m reconciler` by way of the proxy, with the account of the chart unless there is a token; kills it
    at the end if it still runs."""
    settings, dry_run = settled(folder, text), "--dry-run" in flags
    token = token or await accounts.token(world, "reconciler", settings, dry_run=dry_run)
    write_files(folder, text, kubeconfig(world, proxy, token))
    async with module("reconciler", folder, *flags) as running:
        yield running


@asynccontextmanager
async def module(
    name: str, folder: Path, *flags: str, environ: Mapping[str, str] | None = None
) -> AsyncIterator[Process]:
    """Runs `python -m NAME` with the files in that folder; kills it at the end if it still runs."""
    files = ("--config", str(folder / "ebbtide.toml"), "--kubeconfig", str(folder / "kubeconfig"))
    async with python("-m", name, *files, "--log-format", "json", *flags, environ=environ or {}) as running:
        yield running


@asynccontextmanager
async def python(*command: str, environ: Mapping[str, str], executable: str = sys.executable) -> AsyncIterator[Process]:
    """Runs an interpreter, this one or another, with further environment variables; kills it at the end if it still
    runs."""
    started = await asyncio.create_subprocess_exec(
        *(executable, *command),
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **environ},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 20,
    )
    running = Process(started)
    reading = asyncio.ensure_future(running.read())
    try:
        yield running
    finally:
        running.kill()
        await started.wait()
        await reading


async def kill_leader(running: Process, cluster: World) -> None:
    """`kill -9` of a reconciler. Its lease goes too, which nobody has to wait for: there is no doubt that its holder is
    dead."""
    running.kill()
    await running.process.wait()
    await free_lease(cluster)


async def stop_leader(running: Process, cluster: World) -> None:
    """What its clients see of a reconciler whose machine has died: it holds its connections, and never answers."""
    running.process.send_signal(signal.SIGSTOP)
    await free_lease(cluster)


async def free_lease(cluster: World) -> None:
    with suppress(NotFound):
        await cluster.client.delete(LEASES, LEASE, namespace=cluster.namespace)


async def scrape(url: str) -> Scrape:
    """What `/metrics` says now."""
    async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as answer:
        return Scrape.of(await answer.text())


async def probe(url: str, path: str) -> tuple[int, str]:
    """Status and text of a probe."""
    async with aiohttp.ClientSession() as session, session.get(url + path) as answer:
        return answer.status, await answer.text()


def write_files(folder: Path, configuration: str, kubeconfig: str) -> None:
    """What a program is started with, in a folder of its own."""
    folder.mkdir(exist_ok=True)
    (folder / "ebbtide.toml").write_text(configuration)
    (folder / "kubeconfig").write_text(kubeconfig)


def settled(folder: Path, configuration: str) -> Settings:
    """What a program makes of this configuration, whose file is then in the folder."""
    folder.mkdir(exist_ok=True)
    file = folder / "ebbtide.toml"
    file.write_text(configuration)
    return load(file, {}).settings


def kubeconfig(world: World, proxy: FaultProxy, token: str) -> str:
    """A kubeconfig by way of the proxy."""
    return f"""apiVersion: v1
kind: Config
current-context: test
contexts: [{{name: test, context: {{cluster: test, user: test}}}}]
clusters: [{{name: test, cluster: {{server: "{proxy.url}", certificate-authority: "{world.plane.ca_file}"}}}}]
users: [{{name: test, user: {{token: "{token}"}}}}]
"""


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return str(value) if isinstance(value, int | float) else f'"{value}"'
