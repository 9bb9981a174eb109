"""Raw pods and node facts with defaults, so that a case says only what is special about it.

Group g has live nodes in zones a, b and c, one of which in zone a carries the prevent taint; a pod is guarded and
selects group g.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ebbtide import vocabulary
from ebbtide.exclusion.decide import Around, Exclusion, Rules, exclude
from ebbtide.exclusion.pod import PodTraits, pod_traits
from ebbtide.exclusion.zones import BlockedZones
from ebbtide.kube.store import Store
from ebbtide.model import CellLabels, NodeFacts, node_facts

Raw = dict[str, Any]
G, Z = vocabulary.NODE_GROUP_LABEL, vocabulary.ZONE_LABEL
OLD_Z = vocabulary.ZONE_LABEL_FALLBACK
LABELS = CellLabels()
GUARDED: Mapping[str, str] = {vocabulary.GUARD_LABEL: "enabled"}
POOL: Mapping[str, str] = {vocabulary.POOL_LABEL: "shared"}
DEFAULT_NODES = "a! a b c"


def expression(key: str, operator: str, *values: str) -> Raw:
    return {"key": key, "operator": operator, "values": list(values)}


def not_in(*zones: str, key: str = Z) -> Raw:
    return expression(key, "NotIn", *zones)


def term(*expressions: Raw) -> Raw:
    return {"matchExpressions": list(expressions)}


def required(*terms: Raw) -> Raw:
    """`spec.affinity` with these required terms."""
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def pod(
    *,
    labels: Mapping[str, str] = GUARDED,
    selector: Mapping[str, str] | None = None,
    terms: Iterable[Raw] | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: Raw | None = None,
    **spec: Any,
) -> Raw:
    """A raw pod without a name, as admission sees it; without a selector it selects group g."""
    metadata: Raw = {"generateName": "web-", "namespace": "default", "labels": dict(labels)}
    if annotations is not None:
        metadata["annotations"] = dict(annotations)
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    body: Raw = {"containers": [{"name": "app", "image": "app"}], "nodeSelector": {G: "g"}, **spec}
    if selector is not None:
        body["nodeSelector"] = dict(selector)
    if terms is not None:
        body["affinity"] = required(*terms)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def traits(raw: Raw) -> PodTraits:
    return pod_traits(raw, LABELS)


def raw_node(name: str, group: str, zone: str, *, prevented: bool = False, key: str = Z, dying: bool = False) -> Raw:
    metadata: Raw = {"name": name, "uid": name, "resourceVersion": "1", "labels": {G: group, key: zone}}
    if dying:
        metadata["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    taints = [{"key": vocabulary.PREVENT_TAINT_KEY, "value": "1772366400", "effect": "NoSchedule"}]
    return {"metadata": metadata, "spec": {"taints": taints if prevented else []}}


def raw_nodes(text: str) -> list[Raw]:
    """Nodes from words: `a` in zone a of group g, `h/a` of group h.

    Marks after the zone: `!` prevented, `~` dying, `'` with the old zone label.
    """
    nodes = []
    for number, word in enumerate(text.split()):
        group, _, marked = word.rpartition("/")
        zone = marked.rstrip("!~'")
        key = OLD_Z if "'" in marked else Z
        nodes.append(raw_node(f"n{number}", group or "g", zone, prevented="!" in marked, key=key, dying="~" in marked))
    return nodes


def node_store(text: str = DEFAULT_NODES) -> Store[NodeFacts]:
    """A store with these nodes; see `raw_nodes`."""
    store = Store(lambda raw: node_facts(raw, LABELS))
    for number, raw in enumerate(raw_nodes(text), 1):
        raw["metadata"]["resourceVersion"] = str(number)
        store.apply("ADDED", raw)
    return store


def blocked_zones(text: str = DEFAULT_NODES) -> BlockedZones:
    return BlockedZones(node_store(text), vocabulary.PREVENT_TAINT_KEY)


def answer(
    raw: Raw,
    nodes: str = DEFAULT_NODES,
    *,
    guarded: bool = False,
    volumes: Iterable[Iterable[str]] = (),
    shared_group: str = "",
) -> Exclusion:
    """What is decided for a raw pod."""
    around = Around(guarded, tuple(frozenset(zones) for zones in volumes))
    rules = Rules(shared_group=shared_group)
    return exclude(traits(raw), blocked_zones(nodes).groups, around, rules)
