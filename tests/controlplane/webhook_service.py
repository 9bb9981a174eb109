"""The webhook as an installation has it: replicas as processes, behind what a Service does for them."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

import aiohttp

from certs.inspect import Certificate, Fault, certificates
from certs.issue import Pair
from certs.layout import Found, read
from certs.live import configuration as configuration_of
from ebbtide import vocabulary
from ebbtide.kube.errors import NotFound
from ebbtide.kube.resources import MUTATING_WEBHOOKS, PODS, SECRETS
from ebbtide.service.listening import bind
from tests.controlplane import accounts
from tests.controlplane.processes import free_port
from tests.controlplane.program import Process, configuration, kubeconfig, module, probe, settled, write_files
from tests.controlplane.proxy import FaultProxy
from tests.controlplane.webhook import selector
from tests.controlplane.world import World, is_ready
from webhook.main import Ports, run
from webhook.tls import client_context

HOST: Final = "127.0.0.1"
SECRET: Final = "ebbtide-webhook-tls"

# A kubelet's probes, faster: so many bad answers in a row put a replica out, one good answer puts it back.
_PROBE_EVERY: Final = 0.25
_BAD_ANSWERS: Final = 3
_PROBE_WITHIN: Final = 30.0
# How long a replica goes on that is to end, as long as its probes may still look good: many times what it takes.
DRAIN: Final = "8s"
_PIECE: Final = 1 << 16


def settings(cluster: World, **sections: Mapping[str, object]) -> str:
    """TOML for webhook and reconciler of this world. The CA is kept in its namespace; `sections` are laid over."""
    certs = {"webhook-configuration-selector": selector(cluster), "extra-sans": [HOST], "overlap": "2s"}
    webhook = {"health-listen": f"{HOST}:0", "drain": "2s"}
    return configuration(
        cluster,
        **{
            **sections,
            "certs": {**certs, **sections.get("certs", {})},
            "webhook": {**webhook, **sections.get("webhook", {})},
        },
    )


@dataclass(frozen=True)
class Replica:
    """A running webhook. `port` is that of admission, `health` the URL of metrics and probes."""

    name: str
    port: int
    health: str
    process: Process | None = None

    async def ready(self) -> bool:
        return await self.why() == ""

    async def why(self) -> str:
        """What it lacks to be ready, "" when it is."""
        status, text = await probe(self.health, "/readyz")
        return "" if status == 200 else text


@asynccontextmanager
async def replica(
    folder: Path, cluster: World, proxy: FaultProxy, text: str, *, pod: str = ""
) -> AsyncIterator[Replica]:
    """Runs `python -m webhook` by way of the proxy, until it is stopped or this ends; `pod` is the name of its pod."""
    port = free_port()
    listening = text.replace("[webhook]", f'[webhook]\nlisten = "{HOST}:{port}"')
    token = await accounts.token(cluster, "webhook", settled(folder, listening))
    write_files(folder, listening, kubeconfig(cluster, proxy, token))
    environ = {"POD_NAME": pod, "POD_NAMESPACE": cluster.namespace} if pod else {}
    async with module("webhook", folder, environ=environ) as running:
        yield Replica(pod or folder.name, port, await running.serving(), running)


@asynccontextmanager
async def replica_here(folder: Path, cluster: World, proxy: FaultProxy, text: str) -> AsyncIterator[Replica]:
    """Runs one in this process, and stops it in order."""
    known = settled(folder, text)
    access = proxy.access(await accounts.token(cluster, "webhook", known))
    ports, stopping = Ports(bind(HOST, 0), bind(HOST, 0)), asyncio.Event()
    admission, health = (each.getsockname()[1] for each in (ports.admission, ports.health))
    async with asyncio.TaskGroup() as group:
        group.create_task(run(known, access, stopping=stopping, ports=ports))
        try:
            yield Replica(folder.name, admission, f"http://{HOST}:{health}")
        finally:
            stopping.set()


class Service:
    """Passes connections on to replicas in turn, as long as their probes are good. `url` is what API servers call."""

    def __init__(self) -> None:
        self.url = ""
        self.port = 0
        self._replicas: dict[str, Replica] = {}
        self._bad: dict[str, int] = {}
        self._turn = count()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Service"]:
        listening = bind(HOST, 0)
        listening.setblocking(False)
        self.port = listening.getsockname()[1]
        self.url = f"https://{HOST}:{self.port}/mutate"
        with listening:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._accept(listening)), group.create_task(self._probe())]
                try:
                    yield self
                finally:
                    for task in tasks:
                        task.cancel()

    def add(self, found: Replica) -> None:
        """Gets connections from its first good probe on."""
        self._replicas[found.name], self._bad[found.name] = found, _BAD_ANSWERS

    def remove(self, name: str) -> None:
        del self._replicas[name], self._bad[name]

    def ready(self) -> list[str]:
        """Who gets connections now."""
        return [name for name, bad in self._bad.items() if bad < _BAD_ANSWERS]

    async def _probe(self) -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_PROBE_WITHIN)) as session:
            while True:
                for name, found in list(self._replicas.items()):
                    good = await _is_ready(session, found)
                    if name in self._bad:
                        self._bad[name] = 0 if good else self._bad[name] + 1
                await asyncio.sleep(_PROBE_EVERY)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as connections:
            while True:
                accepted, _ = await loop.sock_accept(listening)
                connections.create_task(self._pass_on(accepted))

    async def _pass_on(self, accepted: socket.socket) -> None:
        """One connection, to the replica whose turn it is; hung up when there is none."""
        names = self.ready()
        with accepted, suppress(ConnectionError):
            if not names:
                return
            chosen = self._replicas[names[next(self._turn) % len(names)]]
            ends = [await asyncio.open_connection(sock=accepted), await asyncio.open_connection(HOST, chosen.port)]
            (theirs, to_them), (ours, to_us) = ends
            try:
                await asyncio.gather(_copy(theirs, to_us), _copy(ours, to_them))
            finally:
                for _, writer in ends:
                    writer.transport.abort()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await source.read(_PIECE):
            sink.write(piece)
            await sink.drain()
        sink.write_eof()


async def _is_ready(session: aiohttp.ClientSession, found: Replica) -> bool:
    try:
        async with session.get(f"{found.health}/readyz") as answer:
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


# --- certificates --------------------------------------------------------------------------------------------------


async def secret(cluster: World) -> Found | None:
    """The Secret of this world's installation, None without one."""
    try:
        return read(await cluster.client.get(SECRETS, SECRET, namespace=cluster.namespace))
    except NotFound:
        return None


async def ask_for(cluster: World, what: str) -> None:
    """A new "ca" or "leaf", as `ebbtide certs rotate` asks for it."""
    request = {"metadata": {"annotations": {vocabulary.CERTS_ROTATE_ANNOTATION: what}}}
    await cluster.client.patch_merge(SECRETS, SECRET, request, namespace=cluster.namespace)


async def published(cluster: World, names: Iterable[str]) -> bool:
    """Whether every entry of these configurations has the bundle that the Secret holds."""
    found = await secret(cluster)
    if found is None or not found.holding.listed:
        return False
    known = [configuration_of(await cluster.client.get(MUTATING_WEBHOOKS, name)) for name in names]
    return not any(each.lacks(found.holding.listed) for each in known)


async def shown(port: int) -> Certificate:
    """The leaf that a new connection to this port is shown, whoever has issued it."""
    anybody = client_context(b"")
    _, writer = await asyncio.open_connection(HOST, port, ssl=anybody)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    found = certificates(ssl.DER_cert_to_PEM_cert(der).encode(), "the leaf")
    assert not isinstance(found, Fault)
    return found[0]


async def serves(found: Replica, cluster: World) -> bool:
    """Whether a replica serves the leaf that the Secret holds now."""
    held = await secret(cluster)
    leaf = held.holding.leaf if held else None
    return isinstance(leaf, Pair) and await shown(found.port) == leaf.certificate


# --- pods ----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def pod_of(cluster: World, name: str) -> AsyncIterator[None]:
    """The pod that a replica runs in, as far as the leader looks at it: Ready, with the labels of the chart."""
    labels = dict(pair.split("=") for pair in vocabulary.WEBHOOK_PODS.split(","))
    await cluster.pod(name, labels=labels)

    async def stands() -> bool:
        return is_ready(await cluster.client.get(PODS, name, namespace=cluster.namespace))

    await cluster.wait_until(stands, f"pod {name} is Ready")
    try:
        yield
    finally:
        await cluster.client.delete(PODS, name, namespace=cluster.namespace)
