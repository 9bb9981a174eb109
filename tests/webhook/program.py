"""The webhook as a process of its own, with nodes of which zone a is blocked."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import orjson

from ebbtide.config.admission import Certs
from ebbtide.sim.cluster import Cluster
from tests.controlplane.processes import free_port
from tests.ebbtide.cli.commands import ROOT, environment, kubeconfig
from tests.ebbtide.exclusion.builders import pod
from tests.webhook.builders import review
from tests.webhook.stage import JSON, LOOPBACK, Authority, populate, until


@dataclass
class Program:
    """`python -m webhook`."""

    process: asyncio.subprocess.Process
    authority: Authority
    port: int
    health_port: int

    async def probe(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session:
            try:
                async with session.get(f"http://{LOOPBACK}:{self.health_port}{path}") as answer:
                    return answer.status, await answer.text()
            except aiohttp.ClientConnectorError:
                return 0, ""

    async def ready(self) -> bool:
        assert self.process.returncode is None
        return (await self.probe("/readyz"))[0] == 200

    async def admit(self) -> str:
        """A request on a connection of its own; the zones that the pod is kept out of."""
        connector = aiohttp.TCPConnector(ssl=self.authority.client)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.post(
                f"https://{LOOPBACK}:{self.port}/mutate", data=orjson.dumps(review(pod())), headers=JSON
            ) as answer,
        ):
            return str((await answer.json())["response"]["auditAnnotations"]["zones"])

    def workers(self) -> list[int]:
        """The process ids of the workers, which are called so on their command line."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        children = [each for task in tasks for each in task.read_text().split()]
        return [int(each) for each in children if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()]


@asynccontextmanager
async def program(folder: Path, workers: int = 1) -> AsyncIterator[Program]:
    """One that is ready, with as many workers; killed at the end if it still runs."""
    certs = Certs(extra_sans=(LOOPBACK,))
    authority = Authority(folder, certs)
    authority.issue()
    port, health_port = free_port(), free_port()
    config = folder / "ebbtide.toml"
    config.write_text(
        f'namespace = "ebbtide-system"\n[certs]\nmode = "files"\ndirectory = "{folder}"\nextra-sans = ["{LOOPBACK}"]\n'
        f'[webhook]\nlisten = "{LOOPBACK}:{port}"\nhealth-listen = "{LOOPBACK}:{health_port}"\ndrain = "200ms"\n'
    )
    async with Cluster() as cluster:
        populate(cluster, "a! a b c")
        cluster_file = kubeconfig(folder, await cluster.serve())
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "webhook", "--workers", str(workers), "--config", str(config)),
            *("--kubeconfig", str(cluster_file), "--log-format", "json"),
            cwd=ROOT,
            env=environment(),
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            running = Program(process, authority, port, health_port)
            await until(running.ready, "it is ready", within=240.0)
            yield running
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
