"""Load-data workers and what belongs to them: which objects of the workers' namespace the scaler has made.

The label alone does not say so: an operator may pin a set of his own to a pool by it. A dedicated worker's set names
its task, the pool's set carries the fingerprint of its design, and of volumes only those count that name their worker,
or the pool's own Service: data of somebody else must not go.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ebbtide import vocabulary
from ebbtide.exclusion.fields import mapping
from ebbtide.kube.client import Client
from ebbtide.kube.permissions import Need
from ebbtide.kube.resources import CONFIG_MAPS, PDBS, PERSISTENT_VOLUME_CLAIMS, SERVICES, STATEFUL_SETS, Resource

Raw = Mapping[str, Any]

# In the order in which they go: what belongs to a set goes after it by itself, or is taken then.
KINDS: Final = (STATEFUL_SETS, SERVICES, CONFIG_MAPS, PDBS, PERSISTENT_VOLUME_CLAIMS)
_POOLS: Final = (vocabulary.POOL_DEDICATED, vocabulary.POOL_SHARED)


@dataclass(frozen=True, slots=True)
class Workers:
    """Where workers live, and what the shared pool is called."""

    namespace: str
    pool: str


def reads(workers: Workers) -> tuple[Need, ...]:
    """The permissions that finding them takes."""
    why = "to find workers and what belongs to them"
    return tuple(Need("list", kind, why, namespace=workers.namespace) for kind in KINDS)


async def made_by_us(client: Client, workers: Workers) -> list[tuple[Resource, Raw]]:
    """Every object that the scaler has made and that is not on its way out already. Raises KubeError."""
    found: list[tuple[Resource, Raw]] = []
    for kind in KINDS:
        listed, _ = await client.list_all(kind, namespace=workers.namespace)
        found += [(kind, raw) for raw in listed if is_ours(kind, raw, workers.pool)]
    return found


def is_ours(kind: Resource, raw: Raw, pool: str) -> bool:
    """Whether the scaler has made that object of the workers' namespace, and it is to go yet."""
    metadata = mapping(raw, "metadata")
    if metadata.get("deletionTimestamp"):
        return False
    labels, name = mapping(metadata, "labels"), str(metadata.get("name"))
    of = labels.get(vocabulary.POOL_LABEL)
    if kind is PDBS:
        return name == vocabulary.BUSY_BUDGET
    if kind is CONFIG_MAPS:
        return of == vocabulary.POOL_SHARED and name == f"{pool}{vocabulary.LEDGER_SUFFIX}"
    if kind is STATEFUL_SETS:
        return _is_our_set(of, mapping(metadata, "annotations"))
    if kind is PERSISTENT_VOLUME_CLAIMS:
        return _is_our_claim(of, labels, pool)
    return of in _POOLS and labels.get(vocabulary.SERVICE_LABEL) == name


def _is_our_set(of: object, annotations: Iterable[str]) -> bool:
    if of == vocabulary.POOL_DEDICATED:
        return vocabulary.TASK_ID_ANNOTATION in annotations
    return of == vocabulary.POOL_SHARED and vocabulary.POOL_SPEC_ANNOTATION in annotations


def _is_our_claim(of: object, labels: Raw, pool: str) -> bool:
    if of == vocabulary.POOL_DEDICATED:
        return bool(labels.get(vocabulary.WORKER_LABEL))
    return of == vocabulary.POOL_SHARED and labels.get(vocabulary.SERVICE_LABEL) == pool
