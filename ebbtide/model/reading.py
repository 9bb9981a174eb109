"""From raw JSON objects to facts.

A field that the API server omits, or sends as null, reads as empty. Strings of which a cluster has few (groups, zones,
keys, namespaces) are interned; names, UIDs and values are not: some interpreters never let an interned string go.
"""

from collections.abc import Callable, Mapping, Sequence
from sys import intern
from typing import Any

from ebbtide import vocabulary
from ebbtide.model.facts import (
    Cell,
    CellLabels,
    ClaimFacts,
    NamespaceFacts,
    NodeFacts,
    Owner,
    PodFacts,
    Taint,
    Toleration,
    VolumeFacts,
)
from ebbtide.model.times import parse_time

Raw = Mapping[str, Any]


def node_facts(raw: Raw, labels: CellLabels) -> NodeFacts:
    """Reads a Node object. Raises KeyError only for an object without name, uid or resourceVersion."""
    metadata, spec = raw["metadata"], _mapping(raw.get("spec"))
    annotations = _mapping(metadata.get("annotations"))
    node_labels = _mapping(metadata.get("labels"))
    zone_label = labels.zone if node_labels.get(labels.zone) else labels.zone_fallback
    return NodeFacts(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=int(metadata["resourceVersion"]),
        cell=_cell(node_labels.get(labels.group), node_labels.get(zone_label)),
        zone_label=intern(zone_label),
        taints=tuple(_taint(entry) for entry in _sequence(spec.get("taints"))),
        created=parse_time(metadata.get("creationTimestamp")) or 0.0,
        ready_since=_ready_since(_mapping(raw.get("status"))),
        unschedulable=bool(spec.get("unschedulable")),
        deleting=metadata.get("deletionTimestamp") is not None,
        ignored=annotations.get(vocabulary.BLOCK_ANNOTATION) == vocabulary.BLOCK_IGNORE,
        first_seen=annotations.get(vocabulary.FIRST_SEEN_ANNOTATION),
        has_annotations=bool(annotations),
        rebalance_notice=annotations.get(vocabulary.REBALANCE_NOTICE_ANNOTATION),
        interruption_notice=annotations.get(vocabulary.INTERRUPTION_NOTICE_ANNOTATION),
        instance=_instance(spec.get("providerID")),
    )


def pod_facts(raw: Raw) -> PodFacts:
    """Reads a Pod object. Raises KeyError only for an object without name, namespace, uid or resourceVersion."""
    metadata, spec = raw["metadata"], _mapping(raw.get("spec"))
    pod_labels = _mapping(metadata.get("labels"))
    owner, owned_by_node = read_owner(metadata)
    return PodFacts(
        namespace=intern(metadata["namespace"]),
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=int(metadata["resourceVersion"]),
        node=str(spec.get("nodeName") or ""),
        phase=intern(str(_mapping(raw.get("status")).get("phase") or "")),
        priority=int(spec.get("priority") or 0),
        deleting=metadata.get("deletionTimestamp") is not None,
        owner=owner,
        mirror=owned_by_node or vocabulary.MIRROR_POD_ANNOTATION in _mapping(metadata.get("annotations")),
        tolerations=tuple(read_toleration(entry) for entry in _sequence(spec.get("tolerations"))),
        claims=tuple(_claims(spec)),
        pool=str(pod_labels.get(vocabulary.POOL_LABEL) or ""),
        busy=pod_labels.get(vocabulary.BUSY_LABEL) == "true",
    )


def namespace_facts(raw: Raw) -> NamespaceFacts:
    """Reads a Namespace object."""
    metadata = raw["metadata"]
    block = _mapping(metadata.get("annotations")).get(vocabulary.BLOCK_ANNOTATION)
    return NamespaceFacts(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=int(metadata["resourceVersion"]),
        ignored=block == vocabulary.BLOCK_IGNORE,
        guarded=_mapping(metadata.get("labels")).get(vocabulary.GUARD_LABEL) == vocabulary.GUARD_ENABLED,
    )


def claim_facts(raw: Raw) -> ClaimFacts:
    """Reads a PersistentVolumeClaim object."""
    metadata = raw["metadata"]
    return ClaimFacts(
        namespace=intern(metadata["namespace"]),
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=int(metadata["resourceVersion"]),
        volume=str(_mapping(raw.get("spec")).get("volumeName") or ""),
    )


def volume_facts(raw: Raw) -> VolumeFacts:
    """Reads a PersistentVolume object."""
    metadata = raw["metadata"]
    required = _mapping(_mapping(_mapping(raw.get("spec")).get("nodeAffinity")).get("required"))
    terms = _sequence(required.get("nodeSelectorTerms"))
    return VolumeFacts(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=int(metadata["resourceVersion"]),
        zones=_allowed(terms, _is_zone_key),
        hosts=_allowed(terms, lambda key: key == vocabulary.HOSTNAME_LABEL),
    )


def _is_zone_key(key: str) -> bool:
    """Storage drivers use keys of their own for the zone (`topology.ebs.csi.aws.com/zone`, …); all end in `/zone`."""
    return key.endswith("/zone")


def _allowed(terms: Sequence[Raw], is_meant: Callable[[str], bool]) -> frozenset[str] | None:
    """The values that node selector terms, which are ORed, allow for a label; None if one does not speak of it."""
    allowed = [_allowed_by(term, is_meant) for term in terms]
    if not allowed or any(values is None for values in allowed):
        return None
    return frozenset().union(*(values for values in allowed if values is not None))


def _allowed_by(term: Raw, is_meant: Callable[[str], bool]) -> frozenset[str] | None:
    """The same of one term, whose expressions are ANDed."""
    allowed: frozenset[str] | None = None
    for expression in _sequence(term.get("matchExpressions")):
        if expression.get("operator") == "In" and is_meant(str(expression.get("key"))):
            values = frozenset(map(str, _sequence(expression.get("values"))))
            allowed = values if allowed is None else allowed & values
    return allowed


def _cell(group: object, zone: object) -> Cell | None:
    if not group or not zone:
        return None
    return Cell(intern(str(group)), intern(str(zone)))


def _instance(provider_id: object) -> str:
    """`aws:///eu-central-1a/i-0abc` → `i-0abc` (cloud-provider-aws, `KubernetesInstanceID`); "" for anything else."""
    if not isinstance(provider_id, str) or not provider_id.startswith("aws://"):
        return ""
    name = provider_id.rpartition("/")[2]
    return name if name.startswith("i-") else ""


def _taint(raw: Raw) -> Taint:
    return Taint(
        key=intern(str(raw.get("key") or "")),
        value=str(raw.get("value") or ""),
        effect=intern(str(raw.get("effect") or "")),
        time_added=parse_time(raw.get("timeAdded")),
    )


def read_toleration(raw: Raw) -> Toleration:
    """One entry of `spec.tolerations`."""
    return Toleration(
        intern(str(raw.get("key") or "")),
        intern(str(raw.get("operator") or "Equal")),
        str(raw.get("value") or ""),
        intern(str(raw.get("effect") or "")),
    )


def _ready_since(status: Raw) -> float | None:
    for condition in _sequence(status.get("conditions")):
        if condition.get("type") == "Ready":
            if condition.get("status") != "True":
                return None
            return parse_time(condition.get("lastTransitionTime")) or 0.0
    return None


def read_owner(metadata: Raw) -> tuple[Owner | None, bool]:
    """The controlling owner, and whether a Node is among the owners, which only static pods have."""
    controller, owned_by_node = None, False
    for reference in _sequence(metadata.get("ownerReferences")):
        owned_by_node = owned_by_node or reference.get("kind") == "Node"
        if reference.get("controller"):
            controller = Owner(
                intern(str(reference.get("kind") or "")),
                str(reference.get("name") or ""),
                str(reference.get("uid") or ""),
            )
    return controller, owned_by_node


def _claims(spec: Raw) -> list[str]:
    sources = (_mapping(volume.get("persistentVolumeClaim")) for volume in _sequence(spec.get("volumes")))
    return [str(source["claimName"]) for source in sources if source.get("claimName")]


def _mapping(value: object) -> Raw:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()
