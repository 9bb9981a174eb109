"""The agent as its users run it: `ebbtide agent`, from the configuration to SIGTERM."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

from ebbtide.kube.client import Client
from ebbtide.kube.resources import NODES
from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.faults import Answer
from ebbtide.vocabulary import SIGNAL_TAINT_KEY
from tests.ebbtide.agent.service import REBALANCE_ONLY, Service, serving

_SERVING = re.compile(r"127\.0\.0\.1:(\d+)")
# What a fresh interpreter needs on a busy machine.
PATIENCE = 120.0


@dataclass
class Agent:
    process: asyncio.subprocess.Process
    log: list[str] = field(default_factory=list)
    told: asyncio.Event = field(default_factory=asyncio.Event)
    read_all: bool = False

    async def read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.log.append(line.decode())
            self.told.set()
        self.read_all = True
        self.told.set()

    async def says(self, words: str) -> str:
        """Waits for a line of the log with these words."""
        async with asyncio.timeout(PATIENCE):
            while not (found := [line for line in self.log if words in line]):
                assert not self.read_all, "".join(self.log)
                self.told.clear()
                await self.told.wait()
        return found[0]

    async def url(self) -> str:
        match = _SERVING.search(await self.says("serving"))
        assert match is not None
        return f"http://127.0.0.1:{match[1]}"


@asynccontextmanager
async def started(*flags: str, **environ: str) -> AsyncIterator[Agent]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("EBBTIDE")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ebbtide", "agent", "--log-format", "json", *flags),
        env={**plain, "EBBTIDE__OBSERVABILITY__LISTEN": "127.0.0.1:0", **environ},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    agent = Agent(process)
    reading = asyncio.ensure_future(agent.read())
    try:
        yield agent
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await reading


def kubeconfig(folder: Path, server: str) -> str:
    file = folder / "kubeconfig"
    file.write_text(
        "{apiVersion: v1, kind: Config, current-context: t,"
        " contexts: [{name: t, context: {cluster: t, user: t}}],"
        f' clusters: [{{name: t, cluster: {{server: "{server}"}}}}], users: [{{name: t, user: {{token: x}}}}]}}'
    )
    return str(file)


@asynccontextmanager
async def world(tmp_path: Path) -> AsyncIterator[tuple[Cluster, Client, Service, list[str], dict[str, str]]]:
    """A cluster with node a1 and a metadata service, and how the agent is to be started for them."""
    async with Cluster(seed=1) as cluster, serving() as service:
        cluster.create(objects.node("a1", zone="a"))
        flags = ["--node-name", "a1", "--kubeconfig", kubeconfig(tmp_path, await cluster.serve())]
        environ = {"EBBTIDE__SIGNALS__IMDS__ENDPOINT": service.url, "EBBTIDE__SIGNALS__IMDS__POLL_INTERVAL": "100ms"}
        async with Client(cluster.access(), field_manager="tests", user_agent="tests") as client:
            yield cluster, client, service, flags, environ


def command_of(agent: Agent) -> list[str]:
    return Path(f"/proc/{agent.process.pid}/cmdline").read_text().split("\0")


async def ask(url: str, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url + path) as answer:
        return answer.status, await answer.text()


async def test_from_the_notice_to_the_taint(tmp_path: Path) -> None:
    """Ready before, told after; probes and metrics answer; SIGTERM ends it with 0; it carries no configuration."""
    async with (
        world(tmp_path) as (_, client, service, flags, environ),
        started(*flags, **environ) as agent,
    ):
        url = await agent.url()
        await agent.says("ready to tell")
        assert command_of(agent)[1:3] == ["-m", "ebbtide.agent"]
        service.documents = dict(REBALANCE_ONLY)
        await agent.says('"stored"')
        taints = (await client.get(NODES, "a1"))["spec"]["taints"]
        assert taints == [{"key": SIGNAL_TAINT_KEY, "value": "1772366280", "effect": "NoSchedule"}]
        assert [await ask(url, path) for path in ("/healthz", "/readyz")] == [(200, "ok\n")] * 2
        status, text = await ask(url, "/metrics")
        assert status == 200
        assert 'agent_notices_total{kind="rebalance"} 1.0' in text
        assert (await ask(url, "/else"))[0] == 404
        agent.process.send_signal(signal.SIGTERM)
        assert await agent.process.wait() == 0


def test_it_carries_nothing_that_it_has_no_use_for() -> None:
    """Each of these would be a quarter of its memory, on every node."""
    heavy = ("aiohttp", "pydantic", "kubernetes_asyncio", "cryptography", "ebbtide.config")
    script = f"import sys, ebbtide.agent.main; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_without_a_metadata_service_it_is_alive_and_not_ready(tmp_path: Path) -> None:
    """It says what it misses, and goes on asking."""
    async with world(tmp_path) as (_, _, service, flags, environ):
        service.failures["/latest/api/token"] = [403] * 10_000
        async with started(*flags, **environ) as agent:
            url = await agent.url()
            await agent.says("does not answer, asking on")
            assert (await ask(url, "/healthz"))[0] == 200
            status, text = await ask(url, "/readyz")
            assert status == 503
            assert "metadata: PUT /latest/api/token: 403" in text
            assert "switched off" in text


async def test_without_a_cluster_it_is_alive_and_not_ready(tmp_path: Path, unused_tcp_port: int) -> None:
    async with serving() as service:
        flags = ["--node-name", "a1", "--kubeconfig", kubeconfig(tmp_path, f"http://127.0.0.1:{unused_tcp_port}")]
        async with started(*flags, EBBTIDE__SIGNALS__IMDS__ENDPOINT=service.url) as agent:
            url = await agent.url()
            await agent.says("node not written")
            assert (await ask(url, "/healthz"))[0] == 200
            status, text = await ask(url, "/readyz")
            assert (status, "node: GET /api/v1/nodes/a1" in text) == (503, True)


async def test_credentials_that_are_not_accepted_end_it_with_3(tmp_path: Path) -> None:
    async with world(tmp_path) as (cluster, _, _, flags, environ):
        cluster.faults.inject(Answer(401))
        async with started(*flags, **environ) as agent:
            await agent.says("node a1 cannot be told")
            async with asyncio.timeout(PATIENCE):
                assert await agent.process.wait() == 3


@pytest.mark.parametrize(
    ("flags", "environ", "words"),
    [
        ([], {}, "--node-name or $NODE_NAME"),
        (["--node-name", "a1"], {"EBBTIDE__SIGNALS__IMDS__POLL_INTERVAL": "often"}, "signals.imds.poll-interval"),
        (["--node-name", "a1", "--config", "/nowhere.toml"], {}, "/nowhere.toml"),
    ],
)
async def test_what_cannot_be_used_ends_it_with_2(flags: list[str], environ: dict[str, str], words: str) -> None:
    async with started(*flags, NODE_NAME="", **environ) as agent:
        await agent.says(words)
        async with asyncio.timeout(PATIENCE):
            assert await agent.process.wait() == 2


async def test_the_node_s_name_may_come_from_the_environment(tmp_path: Path) -> None:
    """As the downward API gives it."""
    async with world(tmp_path) as (_, _, _, flags, environ), started(*flags[2:], NODE_NAME="a1", **environ) as agent:
        assert '"node":"a1"' in await agent.says("ready to tell")


async def test_sigterm_ends_it_without_a_word_about_those_who_are_connected(tmp_path: Path) -> None:
    """Those who have said nothing yet, who are in the middle of a request, and who do not read their answer."""
    async with world(tmp_path) as (_, _, _, flags, environ), started(*flags, **environ) as agent:
        port = int((await agent.url()).rpartition(":")[2])
        clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        clients[1][1].write(b"GET /hea")
        clients[2][1].write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await clients[2][0].read(1)  # the others were taken before
        agent.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            assert await agent.process.wait() == 0
            while not agent.read_all:
                agent.told.clear()
                await agent.told.wait()
        for _, writer in clients:
            writer.close()
        assert not [line for line in agent.log if "xception" in line or "Cancelled" in line]
