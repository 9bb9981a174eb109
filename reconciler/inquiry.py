"""One look at the cluster from outside, for the commands that explain it: no watch, no lease, nothing written."""

from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

import orjson

from ebbtide.config import Settings
from ebbtide.errors import EbbtideError
from ebbtide.kube import lease_record
from ebbtide.kube.client import Client
from ebbtide.kube.errors import NotFound
from ebbtide.kube.lease_record import Record
from ebbtide.kube.resources import LEASES, NODES, PODS, Resource
from ebbtide.kube.store import Store, Versioned
from ebbtide.kube.stream import ADDED
from ebbtide.model import CellLabels, NodeFacts, PodFacts, node_facts, pod_facts

T = TypeVar("T", bound=Versioned)


class Inquiry:
    """Reads what an explanation needs. Raises KubeError; EbbtideError for an object that does not exist."""

    def __init__(self, client: Client, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        rules = settings.node_rebalance
        self._labels = CellLabels(rules.node_group_label, rules.zone_label)

    async def nodes(self) -> Store[NodeFacts]:
        """All nodes."""
        return await self.collect(NODES, lambda raw: node_facts(raw, self._labels))

    async def pods_of(self, node: str) -> tuple[PodFacts, ...]:
        """The pods that are bound to a node."""
        pods = await self.collect(PODS, pod_facts, field_selector=f"spec.nodeName={node}")
        return tuple(pods.values())

    async def pod(self, namespace: str, name: str) -> dict[str, Any]:
        """One pod, raw."""
        try:
            return await self._client.get(PODS, name, namespace=namespace)
        except NotFound:
            raise EbbtideError(f"there is no pod {namespace}/{name}") from None

    async def leader(self) -> Record | None:
        """The lease of the reconcilers, None if there never was one."""
        election = self._settings.leader_election
        try:
            raw = await self._client.get(LEASES, election.lease_name, namespace=self._settings.namespace)
        except NotFound:
            return None
        return lease_record.read(raw, election.lease_duration)

    async def state_of_leader(self, leader: Record) -> dict[str, Any]:
        """The leader's own `/api/v1/state`, asked for by way of the API server (needs `get pods/proxy`)."""
        port = self._settings.observability.listen.port
        path = PODS.path(self._settings.namespace, f"{leader.holder}:{port}", "proxy") + "/api/v1/state"
        answer = await self._client.request("GET", path)
        if answer.status != 200:
            raise EbbtideError(f"the leader {leader.holder} answered {answer.status}")
        found: dict[str, Any] = orjson.loads(answer.body)
        return found

    async def collect(
        self, resource: Resource, project: Callable[[Mapping[str, Any]], T], *, field_selector: str = ""
    ) -> Store[T]:
        """A complete store of a kind, as a reflector would have it after its first list."""
        store = Store(project)
        world = store.gather()
        async with aclosing(self._client.list(resource, field_selector=field_selector)) as objects:
            async for raw in objects:
                world.apply(ADDED, raw)
        store.swap(world, 0)
        return store
