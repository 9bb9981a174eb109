"""The whole webhook on an embedded cluster, with real TLS sockets on loopback, and clients for it.

On a simulated loop minutes pass at once, which sockets inside one process do not notice.
"""

import asyncio
import io
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from certs.issue import Pair, new_authority, new_leaf
from certs.spec import spec_of
from ebbtide.clock import SystemClock
from ebbtide.config import Settings
from ebbtide.config.admission import Certs, Webhook
from ebbtide.service.listening import bind
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.time import simulate
from tests.ebbtide.exclusion.builders import raw_nodes
from tests.webhook.builders import Raw
from webhook.main import Ports, run

LOOPBACK = "127.0.0.1"
NAMESPACE = "ebbtide-system"
JSON = {"Content-Type": "application/json"}


class Authority:
    """A CA of this test's own; `issue` writes a pair as it would be mounted."""

    def __init__(self, folder: Path, certs: Certs) -> None:
        self.folder = folder
        self.spec = spec_of(certs, NAMESPACE)
        self.ca = new_authority(self.spec, SystemClock().now())

    def issue(self, ahead: float = 0.0) -> Pair:
        """Issued that many seconds ahead of now."""
        leaf = new_leaf(self.spec, self.ca, SystemClock().now() + ahead)
        self.write(leaf)
        return leaf

    def write(self, leaf: Pair) -> None:
        for name, content in (
            ("tls.crt", leaf.certificate.pem),
            ("tls.key", leaf.key_pem),
            ("ca.crt", self.ca.certificate.pem),
        ):
            (self.folder / name).write_bytes(content)

    @property
    def client(self) -> ssl.SSLContext:
        """A client that trusts this CA and no other."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=self.ca.certificate.pem.decode())
        return context


@dataclass
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def response(self) -> Raw:
        assert self.status == 200, (self.status, self.body)
        found: Raw = orjson.loads(self.body)["response"]
        return found

    @property
    def sends_away(self) -> bool:
        """Whether the API server will ask again, on another connection."""
        return (self.status, self.headers.get("Retry-After"), self.headers.get("Connection")) == (503, "1", "close")


@dataclass
class Stage:
    """A running webhook. `stopping` is its SIGTERM, `ended` its end."""

    cluster: Cluster
    authority: Authority
    port: int
    health_port: int
    stopping: asyncio.Event
    session: aiohttp.ClientSession
    ended: "asyncio.Future[None]" = field(init=False)

    @property
    def url(self) -> str:
        return f"https://{LOOPBACK}:{self.port}/mutate"

    async def call(self, body: Any, *, url: str = "", method: str = "POST", **options: Any) -> Reply:
        """One request on a kept connection; `body` is sent as it is, or as JSON."""
        raw = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
        data = None if raw is None else io.BytesIO(raw)
        headers = options.pop("headers", JSON)
        async with self.session.request(method, url or self.url, data=data, headers=headers, **options) as answer:
            return Reply(answer.status, answer.headers, await answer.read())

    async def probe(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as plain, plain.get(f"http://{LOOPBACK}:{self.health_port}{path}") as answer:
            return answer.status, await answer.text()

    async def metric(self, name: str, **labels: str) -> float:
        """A sample of /metrics with these labels, 0.0 without one."""
        _, text = await self.probe("/metrics")
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        for line in text.splitlines():
            if line.partition("{")[0].partition(" ")[0] == name and all(word in line for word in wanted):
                return float(line.rpartition(" ")[2])
        return 0.0

    async def ready(self) -> None:
        await until(self._is_ready, "the webhook is ready")

    async def _is_ready(self) -> bool:
        return (await self.probe("/readyz"))[0] == 200

    def connections(self) -> list[Any]:
        """The client's own ends of the kept connections."""
        connector = self.session.connector
        assert connector is not None
        return [protocol.transport for kept in connector._conns.values() for protocol, _ in kept]

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to do with as a test likes."""
        return await asyncio.open_connection(LOOPBACK, self.port, ssl=self.authority.client, server_hostname=LOOPBACK)


async def until(condition: Callable[[], Coroutine[Any, Any, bool]], what: str, within: float = 60.0) -> None:
    """Waits on the loop's own time, simulated or not."""
    for _ in range(round(within * 4)):
        if await condition():
            return
        await asyncio.sleep(0.25)
    raise AssertionError(f"not within {within} s: {what}")


def settings_for(folder: Path, **webhook: Any) -> Settings:
    """Mounted certificates in that folder, for loopback."""
    certs = Certs(mode="files", directory=str(folder), extra_sans=("127.0.0.1",))
    return Settings(namespace=NAMESPACE, certs=certs, webhook=Webhook(**webhook))


def populate(cluster: Cluster, nodes: str) -> None:
    """Nodes in the words of `raw_nodes`, and the namespaces that reviews speak of."""
    for raw in raw_nodes(nodes):
        del raw["metadata"]["uid"], raw["metadata"]["resourceVersion"]
        cluster.create({"apiVersion": "v1", "kind": "Node", **raw})
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})


@asynccontextmanager
async def webhook(
    folder: Path,
    *,
    nodes: str = "a! a b c",
    before: Callable[[Cluster], None] | None = None,
    issued: float | None = 0.0,
    client_ca: str = "",
    **rules: Any,
) -> AsyncIterator[Stage]:
    """A webhook that has been started; `before` prepares the cluster, `rules` are keys of `[webhook]`.

    The leaf is issued that many seconds ahead of now, None: not at all.
    """
    settings = settings_for(folder, **rules)
    authority = Authority(folder, settings.certs)
    if issued is not None:
        authority.issue(issued)
    ports = Ports(bind(LOOPBACK, 0), bind(LOOPBACK, 0))
    stopping = asyncio.Event()
    async with (
        Cluster() as cluster,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=authority.client, limit=0)) as session,
    ):
        populate(cluster, nodes)
        if before is not None:
            before(cluster)
        numbers = [each.getsockname()[1] for each in (ports.admission, ports.health)]
        stage = Stage(cluster, authority, numbers[0], numbers[1], stopping, session)
        program = run(
            settings, cluster.access(), client_ca=client_ca, stopping=stopping, clock=SystemClock(), ports=ports
        )
        stage.ended = asyncio.ensure_future(program)
        try:
            yield stage
        finally:
            stopping.set()
            stage.ended.cancel()
            await asyncio.gather(stage.ended, return_exceptions=True)


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs a story in simulated time."""
    simulate(story())
