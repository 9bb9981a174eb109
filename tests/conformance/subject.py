"""An API server under test, whichever it is."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from ebbtide.kube.answers import Answer
from ebbtide.kube.client import Client, Object
from ebbtide.kube.resources import NODES, PODS, Resource
from ebbtide.kube.stream import BOOKMARK, WatchEvent
from tests.controlplane.world import PATIENCE, is_ready, wait_until

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
# The kind that the real server keeps no cache of.
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet", namespaced=True)


@dataclass(frozen=True)
class Subject:
    """A server with a namespace and a name prefix that no other test uses.

    `make_node` makes a node on which pods become Ready, and that nobody but the test writes to any more.
    `compact` makes the server forget all versions before now, as far as it lets itself be made to.
    """

    client: Client
    namespace: str
    make_node: Callable[[], Awaitable[str]]
    compact: Callable[[], Awaitable[None]]

    async def config_map(self, name: str, data: Mapping[str, str] | None = None, **metadata: Any) -> Object:
        """The simplest object: nobody but the test touches it."""
        body = {"metadata": {"name": name, **metadata}, "data": dict(data or {})}
        return await self.client.create(CONFIG_MAPS, body, namespace=self.namespace)

    async def pod(self, name: str, *, node: str = "", **metadata: Any) -> Object:
        """A pod that no scheduler takes; on `node` when one is given."""
        spec: Object = {"schedulerName": "none", "containers": [{"name": "main", "image": "none"}]}
        if node:
            spec["nodeName"] = node
        return await self.client.create(
            PODS, {"metadata": {"name": name, **metadata}, "spec": spec}, namespace=self.namespace
        )

    async def running_pod(self, name: str, **metadata: Any) -> Object:
        """A pod without a node that says of itself that it is running and Ready."""
        await self.pod(name, **metadata)
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        return await self.client.patch_merge(
            PODS, name, {"status": status}, namespace=self.namespace, subresource="status"
        )

    async def exists(self, resource: Resource, name: str) -> bool:
        answer = await self.client.request("GET", resource.path(self.namespace, name))
        return answer.status == 200

    async def ask(self, method: str, resource: Resource, name: str = "", subresource: str = "", **how: Any) -> Answer:
        """A request of the namespace as the wire has it; see `Client.request`."""
        return await self.client.request(method, resource.path(self.namespace, name, subresource), **how)

    async def watch_from(self, resource: Resource, version: int, count: int, **which: Any) -> list[WatchEvent]:
        """The next `count` events after that version, bookmarks apart."""
        events: list[WatchEvent] = []
        async with asyncio.timeout(PATIENCE), self.watching(resource, version, **which) as stream:
            async for event in stream:
                if event.type != BOOKMARK:
                    events.append(event)
                if len(events) == count:
                    break
        return events

    @asynccontextmanager
    async def watching(
        self, resource: Resource, version: int | None, **how: Any
    ) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        stream = self.client.watch(resource, namespace=self.namespace, resource_version=version, **how)
        async with aclosing(stream):
            yield stream

    async def eventually(self, condition: Callable[[], Awaitable[bool]], what: str) -> None:
        """Waits for something that the server does by itself."""
        await wait_until(condition, what)


async def settled(client: Client, node: str) -> bool:
    """Whether the node is Ready and no controller is going to take a taint from it."""
    raw = await client.get(NODES, node)
    return is_ready(raw) and not raw["spec"].get("taints")


def version(raw: Mapping[str, Any]) -> int:
    return int(raw["metadata"]["resourceVersion"])


def names(objects: list[Object]) -> list[str]:
    return [raw["metadata"]["name"] for raw in objects]
