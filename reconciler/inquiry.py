"""One look at the cluster from outside, for the commands that explain it: no watch, no lease, nothing written.

Everything is listed, never fetched by name, so that the permission to list is enough; only the lease and the leader's
own page, which `ebbtide status` asks for, need `get`.
"""

from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, TypeVar, Unpack

import orjson

from ebbtide.config import Settings
from ebbtide.errors import EbbtideError
from ebbtide.kube import lease_record
from ebbtide.kube.calls import Selection
from ebbtide.kube.client import Client
from ebbtide.kube.errors import Gone, NotFound
from ebbtide.kube.lease_record import Record
from ebbtide.kube.resources import LEASES, NODES, PODS, Resource
from ebbtide.kube.store import Store, Versioned
from ebbtide.kube.stream import ADDED
from ebbtide.model import NodeFacts, node_facts, pod_facts
from ebbtide.vocabulary import BLOCK_ANNOTATION

T = TypeVar("T", bound=Versioned)

# A list that is compacted away between two pages is begun anew, as the client does for whole lists.
_LIST_ATTEMPTS = 3


class Inquiry:
    """Reads what an explanation needs. `home` is the namespace of the lease. Raises KubeError."""

    def __init__(self, client: Client, settings: Settings, home: str) -> None:
        self.labels = settings.node_rebalance.labels
        self.home = home
        self._client = client
        self._settings = settings

    async def nodes(self) -> Store[NodeFacts]:
        """All nodes."""
        return await self.collect(NODES, lambda raw: node_facts(raw, self.labels))

    async def nodes_and_overrides(self) -> tuple[Store[NodeFacts], Mapping[str, str]]:
        """All nodes, and by name the overrides that they carry, whatever is written there."""
        overrides: dict[str, str] = {}

        def read(raw: Mapping[str, Any]) -> NodeFacts:
            facts = node_facts(raw, self.labels)
            value = (raw["metadata"].get("annotations") or {}).get(BLOCK_ANNOTATION)
            if value is not None:
                overrides[facts.name] = value
            return facts

        return await self.collect(NODES, read), overrides

    async def pods_of(self, node: str) -> list[dict[str, Any]]:
        """The pods that are bound to a node, raw."""
        return await self.objects(PODS, field_selector=f"spec.nodeName={node}")

    async def pod(self, namespace: str, name: str) -> dict[str, Any] | None:
        """One pod, raw; None if there is none of that name."""
        found = await self.objects(PODS, namespace=namespace, field_selector=f"metadata.name={name}")
        return found[0] if found else None

    async def metadata(self, resource: Resource, name: str) -> dict[str, dict[str, str]]:
        """`labels` and `annotations` of an object that belongs to no namespace; empty if it is not there."""
        found = await self.objects(resource, field_selector=f"metadata.name={name}")
        metadata = found[0]["metadata"] if found else {}
        return {key: metadata.get(key) or {} for key in ("labels", "annotations")}

    async def pod_names(self, namespace: str) -> list[str]:
        """The names of all pods of a namespace."""
        return [pod.name for pod in (await self.collect(PODS, pod_facts, namespace=namespace)).values()]

    async def objects(self, resource: Resource, **which: Unpack[Selection]) -> list[dict[str, Any]]:
        """Objects of a kind, raw."""
        found, _ = await self._client.list_all(resource, **which)
        return found

    async def leader(self) -> Record | None:
        """The lease of the reconcilers, None if there never was one."""
        election = self._settings.leader_election
        try:
            raw = await self._client.get(LEASES, election.lease_name, namespace=self.home)
        except NotFound:
            return None
        return lease_record.read(raw, election.lease_duration)

    async def state_of_leader(self, leader: Record) -> dict[str, Any]:
        """The leader's own `/api/v1/state`, asked for by way of the API server (needs `get pods/proxy`).

        Raises EbbtideError when it does not answer with one.
        """
        port = self._settings.observability.listen.port
        path = PODS.path(self.home, f"{leader.holder}:{port}", "proxy") + "/api/v1/state"
        answer = await self._client.request("GET", path)
        return read_state(answer.status, answer.body)

    async def collect(
        self, resource: Resource, project: Callable[[Mapping[str, Any]], T], **which: Unpack[Selection]
    ) -> Store[T]:
        """A complete store of a kind, as a reflector would have it after its first list."""
        for remaining in reversed(range(_LIST_ATTEMPTS)):
            try:
                return await self._collected(resource, project, which)
            except Gone:
                if not remaining:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _collected(
        self, resource: Resource, project: Callable[[Mapping[str, Any]], T], which: Selection
    ) -> Store[T]:
        store = Store(project)
        world = store.gather()
        async with aclosing(self._client.list(resource, **which)) as objects:
            async for raw in objects:
                world.apply(ADDED, raw)
        store.swap(world, 0)
        return store


def read_state(status: int, body: bytes) -> dict[str, Any]:
    """The document in an answer to `/api/v1/state`. Raises EbbtideError, with the answer's own words, without one."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    if status == 200 and isinstance(found, dict) and isinstance(found.get("cells"), list):
        return found
    words = (found.get("message") or found.get("error")) if isinstance(found, dict) else None
    raise EbbtideError(f"the answer was {status}{f': {words}' if words else ', and no state of a reconciler'}")
