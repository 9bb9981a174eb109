"""Where figures are measured: a control plane of their own, and the reconciler as its users run it."""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.controlplane import program
from tests.controlplane.build import binaries
from tests.controlplane.program import Process, probe, scrape
from tests.controlplane.servers import ControlPlane
from tests.controlplane.world import World, wait_until, world

REPOSITORY = Path(__file__).parents[1]
# Five thousand nodes are known within seconds; a busy machine is given more.
_LEADS_WITHIN = 120.0

Measure = Callable[[World, argparse.Namespace], Awaitable[None]]


def arguments(command: str, *, nodes: int = 0, rounds: int = 0) -> argparse.ArgumentParser:
    """The flags that figures share: `--nodes` and `--rounds`, each where there is a default."""
    parser = argparse.ArgumentParser(prog=f"python -m {command}")
    if nodes:
        parser.add_argument("--nodes", type=int, default=nodes, help="default: %(default)s")
    if rounds:
        parser.add_argument("--rounds", type=int, default=rounds, help="default: %(default)s")
    return parser


def on_control_plane(measure: Measure, parser: argparse.ArgumentParser, argv: Sequence[str] | None = None) -> int:
    """Starts a control plane, has the figure measured on it, and stops it. Returns the exit code."""
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="ebbtide-bench-") as folder:
        plane = ControlPlane(binaries(), Path(folder))
        try:
            asyncio.run(_in_world(measure, plane, options))
        finally:
            plane.stop()
    return 0


async def _in_world(measure: Measure, plane: ControlPlane, options: argparse.Namespace) -> None:
    async with world(plane) as created:
        await measure(created, options)


def write_kubeconfig(plane: ControlPlane, server: str, name: str) -> Path:
    """A kubeconfig of admin's for that server, which shows the control plane's certificate."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": server, "certificate-authority": str(plane.ca_file)}}],
        "users": [{"name": "admin", "user": {"token": plane.admin_token}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "admin"}}],
    }
    path = plane.folder / f"kubeconfig-{name}"
    path.write_text(json.dumps(content))
    return path


@asynccontextmanager
async def reconciler(plane: ControlPlane, text: str, server: str = "") -> AsyncIterator[Process]:
    """A reconciler that leads, with `text` as its configuration and every other setting as it comes."""
    kubeconfig = write_kubeconfig(plane, server or plane.server, "reconciler")
    file = plane.folder / "ebbtide.toml"
    file.write_text(text)
    flags = ("--config", str(file), "--kubeconfig", str(kubeconfig), "--log-format", "json")
    async with running("-m", "reconciler", *flags) as process:
        url = await process.serving()

        async def leads() -> bool:
            assert process.process.returncode is None, "\n".join(process.log)
            ready, _ = await probe(url, "/readyz")
            return ready == 200 and (await scrape(url)).value("ebbtide_leader") == 1

        await wait_until(leads, "the reconciler leads", seconds=_LEADS_WITHIN)
        yield process
        assert await process.terminate() == 0, "\n".join(process.log)


@asynccontextmanager
async def running(*command: str, python: str = sys.executable, **environ: str) -> AsyncIterator[Process]:
    """A Python process, killed at the end if it still runs."""
    async with program.python(*command, environ=environ, executable=python) as process:
        try:
            yield process
            assert process.process.returncode in (None, 0), _ended(command, process)
        except (OSError, LookupError) as error:  # asking the kernel about it
            raise AssertionError(_ended(command, process)) from error


def _ended(command: Sequence[str], process: Process) -> str:
    return f"{' '.join(command[:2])} has ended:\n" + "\n".join(process.log)
