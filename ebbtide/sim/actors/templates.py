"""What the Cluster Autoscaler believes a new node of a group would look like.

It does not read taints to decide whether to grow: it copies an existing node, taints included, and asks whether the
pod would fit on the copy. Which node it copies is the whole matter. From cluster-autoscaler 1.31 to 1.37,
`processors/nodeinfosprovider`: the first node that is Ready for more than a minute and not cordoned, deleting or not;
else what it copied last (kept for ten years by default, in memory only); else what the cloud says, which has no taints
of the cluster's making.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ebbtide import vocabulary
from ebbtide.model import parse_time
from ebbtide.sim.actors.predicates import refusals
from ebbtide.sim.actors.rooms import Room, View

Raw = Mapping[str, Any]

# `stabilizationDelay`: a node is copied only when it is Ready for longer than this. Seconds.
STABLE_AFTER: Final = 60.0

_HOSTNAME: Final = "kubernetes.io/hostname"
_NOT_READY_TAINTS: Final = frozenset(
    {"node.kubernetes.io/not-ready", "node.kubernetes.io/disk-pressure", "node.kubernetes.io/network-unavailable"}
)
_TROUBLE: Final = frozenset({"DiskPressure", "NetworkUnavailable"})
# `SanitizeTaints`: the autoscaler's own marks, conditions of a node that will pass, and prefixes that declare it so.
_PASSING_TAINTS: Final = frozenset(
    {
        vocabulary.TO_BE_DELETED_TAINT_KEY,
        "DeletionCandidateOfClusterAutoscaler",
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/unschedulable",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/network-unavailable",
        "node.kubernetes.io/pid-pressure",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cloudprovider.kubernetes.io/shutdown",
        "NodeWithImpairedVolumes",
    }
)
_PASSING_PREFIXES: Final = tuple(
    f"{kind}-taint.cluster-autoscaler.kubernetes.io/" for kind in ("ignore", "startup", "status")
)


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """A scaling group of the cloud: one node group in one zone.

    `name` is the cloud's and unique. `labels` are what every node of it gets, zone and node group among them.
    `offers` is `status.allocatable` of a node. `priority` counts for the priority expander only, more is better.
    """

    name: str
    labels: Mapping[str, str]
    offers: Mapping[str, str] = field(default_factory=lambda: {"cpu": "4", "memory": "16Gi", "pods": "110"})
    smallest: int = 0
    largest: int = 10
    taints: Sequence[Mapping[str, str]] = ()
    priority: int = 0

    @property
    def zone(self) -> str:
        return self.labels.get(vocabulary.ZONE_LABEL, "")

    def wears(self, node: Raw) -> bool:
        """Whether the node carries all labels of the group."""
        labels = node["metadata"].get("labels") or {}
        return all(labels.get(key) == value for key, value in self.labels.items())


@dataclass(frozen=True, slots=True)
class Template:
    """A node that does not exist. `source` says what it was made from: `node a1`, `cache (node a1)`, `cloud`.

    `live` when it was copied just now from a node that is there; such a copy replaces the one in the cache.
    """

    node: Raw
    source: str
    live: bool = False


def template_for(group: NodeGroup, nodes: Iterable[Raw], cache: Mapping[str, Template], now: float) -> Template:
    """What the autoscaler takes for a new node of the group.

    `nodes` are those of the group, in the autoscaler's order, which is no order at all: where several qualify, any of
    them may come first. `cache` is by group name. `now` is epoch seconds.
    """
    for node in nodes:
        if is_copied(node, now):
            return copied(group, node)
    if group.name in cache:
        return Template(cache[group.name].node, f"cache ({cache[group.name].source})")
    return Template(_as_the_cloud_says(group), "cloud")


def is_copied(node: Raw, now: float) -> bool:
    """Whether the autoscaler may take this node as its group's template: Ready for over a minute, not cordoned."""
    since = ready_since(node)
    return since is not None and now - since > STABLE_AFTER and not (node.get("spec") or {}).get("unschedulable")


def ready_since(node: Raw) -> float | None:
    """The last change of a Ready node's readiness in epoch seconds, None for one that is not Ready.

    As in the autoscaler: a not-ready taint or a trouble condition counts as not Ready, whatever the Ready condition.
    """
    if any(taint["key"] in _NOT_READY_TAINTS for taint in (node.get("spec") or {}).get("taints") or ()):
        return None
    since: float | None = None
    for condition in (node.get("status") or {}).get("conditions") or ():
        kind, status = condition["type"], condition["status"]
        if (kind == "Ready" and status != "True") or (kind in _TROUBLE and status == "True"):
            return None
        if kind == "Ready" or (kind in _TROUBLE and since is not None):
            since = max(since or 0.0, parse_time(condition.get("lastTransitionTime")) or 0.0)
    return since


def copied(group: NodeGroup, node: Raw) -> Template:
    """The node as a template: another name, no passing taints, everything else as it stands."""
    spec = node.get("spec") or {}
    taints = [taint for taint in spec.get("taints") or () if not _is_passing(taint["key"])]
    labels = node["metadata"].get("labels") or {}
    return Template(
        _node(group, labels, taints, (node.get("status") or {})),
        f"node {node['metadata']['name']}",
        live=True,
    )


def refuses(template: Template, pod: Raw, around: View) -> tuple[str, ...]:
    """Why the pod would not fit on a new node like the template, in the scheduler's words; empty when it would."""
    with_it = around.extended([template.node])
    return refusals(pod, with_it.rooms[-1], with_it)


def empty_room(template: Template, suffix: str) -> Room:
    """A node like the template, empty, under a name of its own."""
    metadata = template.node["metadata"]
    name = f"{metadata['name']}-{suffix}"
    labels = {**metadata["labels"], _HOSTNAME: name}
    node = {**template.node, "metadata": {**metadata, "name": name, "labels": labels}}
    return Room.empty(node)


def _is_passing(key: str) -> bool:
    return key in _PASSING_TAINTS or key.startswith(_PASSING_PREFIXES)


def _as_the_cloud_says(group: NodeGroup) -> Raw:
    return _node(group, group.labels, list(group.taints), {"allocatable": dict(group.offers)})


def _node(group: NodeGroup, labels: Mapping[str, str], taints: Sequence[Raw], status: Raw) -> Raw:
    name = f"template-node-for-{group.name}"
    return {
        "metadata": {"name": name, "labels": {**labels, _HOSTNAME: name}},
        "spec": {"taints": taints},
        "status": {"allocatable": status.get("allocatable") or status.get("capacity") or dict(group.offers)},
    }
