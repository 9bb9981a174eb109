"""What there is on the cluster: of every object only what can be ours, so that large clusters fit."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from ebbtide import vocabulary
from ebbtide.cleanup.marks import MARKS
from ebbtide.cleanup.workers import KINDS, Workers, is_ours, made_by_us
from ebbtide.cleanup.workers import reads as reads_of_workers
from ebbtide.kube import lease_record
from ebbtide.kube.client import Client
from ebbtide.kube.errors import NotFound
from ebbtide.kube.permissions import Need
from ebbtide.kube.resources import LEASES, NODES, PODS, SECRETS, Resource
from ebbtide.model import CellLabels, Taint, node_facts

_READS: Final = (
    Need("list", NODES, "to find taints and annotations of ours"),
    Need("list", PODS, "to find labels and annotations of ours"),
    Need("list", LEASES, "to see whether a reconciler leads"),
)


def reads(namespace: str, secret_name: str, workers: Workers | None = None) -> tuple[Need, ...]:
    """The permissions that `read` takes."""
    found = _READS if workers is None else (*_READS, *reads_of_workers(workers))
    if not secret_name:
        return found
    why = "to find the certificates that we made"
    return (*found, Need("get", SECRETS, why, namespace=namespace, name=secret_name))


# Few round trips, and no page over some megabytes.
_PAGE: Final = 250
# What can go, and what decides about what stays.
_WORDS: Final = MARKS | {vocabulary.BLOCK_ANNOTATION, vocabulary.CERTS_LABEL}


@dataclass(frozen=True, slots=True)
class Found:
    """An object at one `version`, with the words of ours that stand on it, and a node's taints in their order.

    `holder` is who holds a Lease, empty for everything else and when nobody does. `made_by_us` is told of objects in
    the workers' namespace.
    """

    resource: Resource
    namespace: str
    name: str
    uid: str
    version: int
    annotations: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    taints: tuple[Taint, ...] = ()
    cordoned: bool = False
    holder: str = ""
    made_by_us: bool = False

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.resource.kind} {place}{self.name}"


@dataclass(frozen=True, slots=True)
class Facts:
    """All nodes; pods with a word of ours; Leases of the election's name, in whatever namespace; the certificates'
    Secret; of workers and what belongs to them what we made."""

    nodes: tuple[Found, ...]
    pods: tuple[Found, ...]
    leases: tuple[Found, ...]
    secrets: tuple[Found, ...] = ()
    workers: tuple[Found, ...] = ()


async def read(
    client: Client, lease_name: str, namespace: str = "", secret_name: str = "", workers: Workers | None = None
) -> Facts:
    """Everything, in pages; the Secret only when it is named, workers where there may be some. Raises KubeError."""
    nodes = [found(NODES, raw) async for raw in _all(client, NODES)]
    pods = [pod async for raw in _all(client, PODS) if (pod := found(PODS, raw)).annotations or pod.labels]
    held = [found(LEASES, raw) for raw in await leases(client, lease_name)]
    secrets = await _secret(client, namespace, secret_name)
    made = [] if workers is None else await made_by_us(client, workers)
    own = tuple(found(kind, raw, workers) for kind, raw in made)
    return Facts(tuple(nodes), tuple(pods), tuple(held), secrets, own)


async def _secret(client: Client, namespace: str, name: str) -> tuple[Found, ...]:
    try:
        return (found(SECRETS, await client.get(SECRETS, name, namespace=namespace)),) if name else ()
    except NotFound:
        return ()


async def leases(client: Client, name: str) -> list[dict[str, Any]]:
    """The Leases of that name in every namespace: an installation may live where nobody thinks of it."""
    listed, _ = await client.list_all(LEASES, field_selector=f"metadata.name={name}")
    return listed


def found(resource: Resource, raw: Mapping[str, Any], workers: Workers | None = None) -> Found:
    """What of an object can matter here; `workers` says what the pool is called."""
    metadata = raw["metadata"]
    node = node_facts(raw, CellLabels()) if resource is NODES else None
    return Found(
        resource=resource,
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        uid=metadata["uid"],
        version=int(metadata["resourceVersion"]),
        annotations=_ours(metadata.get("annotations")),
        labels=_ours(metadata.get("labels")),
        taints=node.taints if node else (),
        cordoned=node is not None and node.unschedulable,
        holder=lease_record.read(raw, 0.0).holder if resource is LEASES else "",
        made_by_us=workers is not None and resource in KINDS and is_ours(resource, raw, workers.pool),
    )


def _ours(words: Iterable[str] | None) -> frozenset[str]:
    return _WORDS.intersection(words or ())


async def _all(client: Client, resource: Resource) -> AsyncIterator[dict[str, Any]]:
    async with aclosing(client.list(resource, page_size=_PAGE)) as objects:
        async for raw in objects:
            yield raw
