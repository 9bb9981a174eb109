"""What there is on the cluster, as far as checks look at it. Lists are read in pages, and each page let go.

A part that may not be read (or that the server fails on) is `Unread` with the reason; the others are read all the same.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypeVar

from ebbtide.config import Settings
from ebbtide.config.rebalance import NodeRebalance
from ebbtide.errors import ClusterAccessError
from ebbtide.kube.client import Client
from ebbtide.kube.permissions import Need, refused
from ebbtide.kube.resources import (
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    STATEFUL_SETS,
    Resource,
)
from ebbtide.model import Toleration, pod_facts
from ebbtide.preflight.programs import Program, known_programs
from ebbtide.preflight.registered import Labels, Probe, Registered, read_registered
from ebbtide.preflight.unread import Unread, attempted
from ebbtide.vocabulary import ZONE_LABEL_FALLBACK

Raw = Mapping[str, Any]
T = TypeVar("T")
U = TypeVar("U")

# What says which Auto Scaling group (or the like) a node was made by, the more exact one first.
POOL_LABELS: Final = ("eks.amazonaws.com/nodegroup", "alpha.eksctl.io/nodegroup-name", "kops.k8s.io/instancegroup")
KARPENTER_LABELS: Final = ("karpenter.sh/nodepool", "karpenter.sh/provisioner-name")
_POLICY: Final = "DeschedulerPolicy"
_PAGE: Final = 250
# A ConfigMap may weigh a megabyte.
_PAGE_OF_CONFIG_MAPS: Final = 20
# Pods of these are judged by their template.
_TEMPLATED: Final = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet"})
_ENDED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node: group and zone label ("" without), who made it (label and value), Karpenter's pool ("" without).

    `signal` says whether it carries the signal taint now.
    """

    name: str
    group: str
    zone: str
    pool: str
    karpenter: str
    signal: bool = False


@dataclass(frozen=True, slots=True)
class DaemonSetView:
    """A DaemonSet and what its pods tolerate."""

    name: str
    uid: str
    tolerations: tuple[Toleration, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """A text in a ConfigMap that speaks of a descheduler's policy. `where` names the ConfigMap and its key."""

    where: str
    text: str


@dataclass(frozen=True, slots=True)
class Permissions:
    """What the account that was asked about lacks, and for how many permissions that was asked."""

    account: str
    asked: int
    lacking: tuple[Need, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """The cluster.

    `programs` are the containers that checks look for, of workloads and of pods without one; `unread_programs` says of
    which kinds they are missing. `daemon_nodes` maps a DaemonSet's UID to the nodes where its pods stand, `namespaces`
    the name of each to its labels.
    """

    version: str | Unread
    nodes: tuple[NodeView, ...] | Unread
    programs: tuple[Program, ...]
    unread_programs: tuple[Unread, ...]
    daemon_sets: tuple[DaemonSetView, ...] | Unread
    daemon_nodes: Mapping[str, AbstractSet[str]] | Unread
    policies: tuple[Policy, ...] | Unread
    registered: Registered | Unread
    permissions: Permissions | Unread
    namespaces: Mapping[str, Labels] | Unread


@dataclass(frozen=True, slots=True)
class Asked:
    """Whose permissions are asked about: `client` speaks for `account`."""

    client: Client
    account: str
    needs: Sequence[Need]


async def read(client: Client, settings: Settings, asked: Asked, probe: Probe) -> Facts:
    """Everything; `probe` asks the webhook where one is registered.

    Raises ClusterAccessError when the credentials are not accepted, Unreachable without a server.
    """
    version = await _version(client)
    async with asyncio.TaskGroup() as group:

        def reading(what: Awaitable[T]) -> asyncio.Task[T | Unread]:
            return group.create_task(attempted(what))

        nodes = reading(_nodes(client, settings))
        workloads = [reading(_workloads(client, resource)) for resource in (DEPLOYMENTS, STATEFUL_SETS)]
        daemon_sets = reading(_daemon_sets(client))
        pods = reading(_pods(client))
        policies = reading(_policies(client))
        permissions = reading(_permissions(asked))
        namespaces = reading(_namespaces(client))
        registered = reading(read_registered(client, settings, namespaces, probe))
    daemons, daemon_programs = _apart(daemon_sets.result())
    daemon_nodes, bare_programs = _apart(pods.result())
    parts = [*(task.result() for task in workloads), daemon_programs, bare_programs]
    return Facts(
        version=version,
        nodes=nodes.result(),
        programs=tuple(program for part in parts if not isinstance(part, Unread) for program in part),
        unread_programs=tuple(part for part in parts if isinstance(part, Unread)),
        daemon_sets=daemons,
        daemon_nodes=daemon_nodes,
        policies=policies.result(),
        registered=registered.result(),
        permissions=permissions.result(),
        namespaces=namespaces.result(),
    )


def _apart(pair: tuple[T, U] | Unread) -> tuple[T | Unread, U | Unread]:
    return (pair, pair) if isinstance(pair, Unread) else pair


async def _version(client: Client) -> str | Unread:
    """The server's version. Nothing else is asked where there is no server, or none that accepts the credentials."""
    answer = await client.request("GET", "/version")
    if answer.status == HTTPStatus.UNAUTHORIZED:
        raise ClusterAccessError(client.access.refusal(""))
    if answer.status != HTTPStatus.OK:
        return Unread(f"GET /version: {answer.status}")
    return str(answer.json().get("gitVersion") or "")


async def _nodes(client: Client, settings: Settings) -> tuple[NodeView, ...]:
    rules = settings.node_rebalance
    return tuple([_node(raw, rules) async for raw in _all(client, NODES)])


def _node(raw: Raw, rules: NodeRebalance) -> NodeView:
    labels = raw["metadata"].get("labels") or {}
    pool = next((f"{label}={labels[label]}" for label in POOL_LABELS if labels.get(label)), "")
    return NodeView(
        name=raw["metadata"]["name"],
        group=labels.get(rules.node_group_label) or "",
        zone=labels.get(rules.zone_label) or labels.get(ZONE_LABEL_FALLBACK) or "",
        pool=pool,
        karpenter=next((labels[label] for label in KARPENTER_LABELS if labels.get(label)), ""),
        signal=any(taint.get("key") == rules.rebalance_signal_taint_key for taint in raw["spec"].get("taints") or ()),
    )


async def _workloads(client: Client, resource: Resource) -> list[Program]:
    found: list[Program] = []
    async for raw in _all(client, resource):
        replicas = raw["spec"].get("replicas")
        found += known_programs(resource.kind, raw, _template(raw), 1 if replicas is None else replicas)
    return found


async def _daemon_sets(client: Client) -> tuple[tuple[DaemonSetView, ...], list[Program]]:
    views: list[DaemonSetView] = []
    programs: list[Program] = []
    async for raw in _all(client, DAEMON_SETS):
        metadata, spec = raw["metadata"], _template(raw)
        tolerations = pod_facts({"metadata": metadata, "spec": spec}).tolerations
        views.append(DaemonSetView(f"{metadata['namespace']}/{metadata['name']}", metadata["uid"], tolerations))
        programs += known_programs(DAEMON_SETS.kind, raw, spec, None)
    return tuple(views), programs


async def _pods(client: Client) -> tuple[dict[str, set[str]], list[Program]]:
    """Where pods of DaemonSets stand, and what pods run that no workload has a template of."""
    standing: dict[str, set[str]] = defaultdict(set)
    programs: list[Program] = []
    async for raw in _all(client, PODS):
        pod = pod_facts(raw)
        if pod.owner is not None and pod.owner.kind == DAEMON_SETS.kind and pod.node:
            standing[pod.owner.uid].add(pod.node)
        if (pod.owner is None or pod.owner.kind not in _TEMPLATED) and pod.phase not in _ENDED:
            programs += known_programs(PODS.kind, raw, raw["spec"], None)
    return standing, programs


async def _policies(client: Client) -> tuple[Policy, ...]:
    """Where a descheduler's policy is kept, whatever mounts it."""
    found: list[Policy] = []
    async for raw in _all(client, CONFIG_MAPS, _PAGE_OF_CONFIG_MAPS):
        metadata = raw["metadata"]
        for key, text in (raw.get("data") or {}).items():
            if _POLICY in text:
                found.append(Policy(f"ConfigMap {metadata['namespace']}/{metadata['name']}, key {key}", text))
    return tuple(found)


async def _namespaces(client: Client) -> dict[str, Labels]:
    return {raw["metadata"]["name"]: raw["metadata"].get("labels") or {} async for raw in _all(client, NAMESPACES)}


async def _permissions(asked: Asked) -> Permissions:
    return Permissions(asked.account, len(asked.needs), tuple(await refused(asked.client, asked.needs)))


async def _all(client: Client, resource: Resource, page_size: int = _PAGE) -> AsyncIterator[Raw]:
    async with aclosing(client.list(resource, page_size=page_size)) as objects:
        async for raw in objects:
            yield raw


def _template(raw: Raw) -> Raw:
    spec: Raw = (raw["spec"].get("template") or {}).get("spec") or {}
    return spec
