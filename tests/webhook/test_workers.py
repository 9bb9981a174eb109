"""Several processes on one port, as their user sees them: one webhook."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import orjson
import pytest

from ebbtide.config.admission import Certs
from ebbtide.sim.cluster import Cluster
from tests.controlplane.processes import free_port
from tests.ebbtide.cli.commands import ROOT, environment, kubeconfig
from tests.ebbtide.exclusion.builders import pod
from tests.webhook.builders import review
from tests.webhook.stage import JSON, LOOPBACK, Authority, populate, until
from webhook.main import main

COUNT = 2


@dataclass
class Program:
    """`python -m webhook --workers 2`."""

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
async def program(folder: Path) -> AsyncIterator[Program]:
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
            *(sys.executable, "-m", "webhook", "--workers", str(COUNT), "--config", str(config)),
            *("--kubeconfig", str(cluster_file), "--log-format", "json"),
            cwd=ROOT,
            env=environment(),
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            running = Program(process, authority, port, health_port)
            await until(running.ready, "all workers are ready", within=240.0)
            yield running
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def test_they_serve_as_one_and_end_in_order(tmp_path: Path) -> None:
    """Requests are answered by any of them, the metrics tell which; SIGTERM ends all with 0."""
    async with program(tmp_path) as running:
        assert len(running.workers()) == COUNT

        async def both_have_served() -> bool:
            assert await running.admit() == "a"
            _, text = await running.probe("/metrics")
            served = re.findall(r'webhook_requests_total\{[^}]*result="mutated"[^}]*worker="(\d)"\} [1-9]', text)
            return set(served) == {"0", "1"}

        await until(both_have_served, "both workers have served")
        _, text = await running.probe("/metrics")
        assert text.count("# TYPE webhook_requests_total counter") == 1
        running.process.send_signal(signal.SIGTERM)
        assert await running.process.wait() == 0


async def test_when_one_dies_the_whole_ends(tmp_path: Path) -> None:
    """So that it never looks well with half of its strength; whoever runs it starts it again."""
    async with program(tmp_path) as running:
        os.kill(running.workers()[0], signal.SIGKILL)
        assert await running.process.wait() == 1


async def test_workers_do_not_outlive_who_minds_them(tmp_path: Path) -> None:
    """Not even when that was killed."""
    async with program(tmp_path) as running:
        workers = running.workers()
        running.process.kill()

        async def gone() -> bool:
            return not any(_lives(each) for each in workers)

        await until(gone, "the workers are gone")


def _lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("count", ["0", "-1", "65", "two"])
def test_an_unusable_number_is_refused(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--workers", count])
    assert caught.value.code == 2
    assert "no number from 1 to 64" in capsys.readouterr().err
