"""The webhook in this process, registered with a real API server as the chart registers it."""

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from ebbtide.config import Settings
from ebbtide.config.admission import Certs, Webhook
from ebbtide.config.rebalance import NodeRebalance
from ebbtide.kube.resources import MUTATING_WEBHOOKS
from ebbtide.service.listening import bind
from tests.chart.helm import Object, Values, rendered
from tests.controlplane import accounts
from tests.controlplane.proxy import watched
from tests.controlplane.world import World
from tests.webhook.stage import Authority
from webhook.main import Ports, run

# Values of the chart for a way in. Whatever becomes of the webhook is seen. The API server waits longer than by
# default: here a process may not be run for so long.
STRICT: Final[Values] = {"failurePolicy": "Fail", "timeoutSeconds": 10}
STRICTLY: Final[Values] = dict.fromkeys(("pods", "guardedPods", "statefulSets"), STRICT)

# The world's own, so that tests that share the servers do not take each other's registrations for theirs.
_LABEL = "tests.ebbtide/webhook"
_HOST = "127.0.0.1"


@dataclass(frozen=True)
class Running:
    """Where it is served, and its metrics and probes; `authority` vouches for it."""

    url: str
    health: str
    authority: Authority

    async def ready(self) -> bool:
        async with aiohttp.ClientSession() as session, session.get(f"{self.health}/readyz") as answer:
            return answer.status == 200


@asynccontextmanager
async def webhook(cluster: World, folder: Path, **rebalance: Any) -> AsyncIterator[Running]:
    """Runs it until the end; it is ready, and nobody calls it yet. `rebalance` are settings of zone rebalance."""
    settings = Settings(
        namespace="ebbtide-system",
        node_rebalance=NodeRebalance(**rebalance),
        certs=Certs(
            mode="files",
            directory=str(folder),
            extra_sans=(_HOST,),
            webhook_configuration_selector=selector(cluster),
        ),
        webhook=Webhook(drain=0.0),
    )
    authority = Authority(folder, settings.certs)
    authority.issue()
    ports = Ports(bind(_HOST, 0), bind(_HOST, 0))
    admission, health = (each.getsockname()[1] for each in (ports.admission, ports.health))
    running = Running(f"https://{_HOST}:{admission}/mutate", f"http://{_HOST}:{health}", authority)
    stopping = asyncio.Event()
    token = await accounts.token(cluster, "webhook", settings)
    async with watched(cluster.plane) as way, asyncio.TaskGroup() as group:
        group.create_task(run(settings, way.access(token), stopping=stopping, ports=ports))
        try:
            await cluster.wait_until(running.ready, "the webhook is ready")
            yield running
        finally:
            stopping.set()


@asynccontextmanager
async def registered(cluster: World, running: Running) -> AsyncIterator[None]:
    """The API server calls it for this world's namespace, as long as this lasts."""
    bundle = base64.b64encode(running.authority.ca.certificate.pem).decode()
    async with registrations(cluster, {"url": running.url, "caBundle": bundle}):
        await cluster.wait_until(running.ready, "the webhook is ready with its registrations")
        yield


@asynccontextmanager
async def registrations(
    cluster: World, client: Mapping[str, str], values: Values = STRICTLY
) -> AsyncIterator[list[str]]:
    """What the chart registers, for this world's namespace and with that `clientConfig`; gives the names.

    `values` are the chart's, those of `webhook`. Nothing carries connections to a Service here.
    """
    names: list[str] = []
    try:
        objects = await rendered(cluster.plane.folder / "helm", {"webhook": values})
        for found in (each for each in objects if each["kind"] == MUTATING_WEBHOOKS.kind):
            body = _of_world(cluster, found, client)
            await cluster.client.create(MUTATING_WEBHOOKS, body)
            names.append(body["metadata"]["name"])
        yield names
    finally:
        for name in names:
            await cluster.client.delete(MUTATING_WEBHOOKS, name)


def selector(cluster: World) -> str:
    """What `[certs] webhook-configuration-selector` has to be in this world."""
    return f"{_LABEL}={cluster.name}"


def _of_world(cluster: World, found: Object, client: Mapping[str, str]) -> Object:
    """The registration for one namespace, under a name of its own."""
    body = deepcopy(found)
    body["metadata"]["name"] += f"-{cluster.name}"
    body["metadata"]["labels"] |= {_LABEL: cluster.name}
    for entry in body["webhooks"]:
        assert entry["clientConfig"].keys() == {"service"}
        entry["clientConfig"] = dict(client)
        only = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [cluster.namespace]}
        entry["namespaceSelector"]["matchExpressions"].append(only)
    return body
