"""Where a pod may stand, and why not: the scheduler's filters as pure functions.

The autoscaler asks the same questions about nodes that do not exist yet, so these functions take a node as an object
together with what stands on it, never a name. Order and wording follow kube-scheduler 1.37: a node is charged with the
reasons of the first filter that refuses it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ebbtide.model import Taint, Toleration
from ebbtide.sim.actors.amounts import requested
from ebbtide.sim.actors.node_selectors import admits
from ebbtide.sim.actors.rooms import Room, View, affinity_of, claim_names, required_terms
from ebbtide.sim.selectors import matches

Raw = Mapping[str, Any]

UNSCHEDULABLE: Final = "node(s) were unschedulable"
TAINTED: Final = "node(s) had untolerated taint(s)"
AFFINITY: Final = "node(s) didn't match Pod's node affinity/selector"
TOO_MANY_PODS: Final = "Too many pods"
NO_CPU: Final = "Insufficient cpu"
NO_MEMORY: Final = "Insufficient memory"
NO_VOLUME: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
VOLUME_ELSEWHERE: Final = "node(s) didn't match PersistentVolume's node affinity"
SPREAD: Final = "node(s) didn't match pod topology spread constraints"
POD_AFFINITY: Final = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY: Final = "node(s) didn't satisfy existing pods anti-affinity rules"

_KEEPS_AWAY: Final = frozenset({"NoSchedule", "NoExecute"})
# A cordoned node counts as carrying this taint, so that pods tolerating it still land there.
_CORDON: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def refusals(pod: Raw, room: Room, around: View) -> tuple[str, ...]:
    """Why the pod may not stand there: the reasons of the first filter that refuses; empty when it may."""
    for check in _FILTERS:
        reasons = tuple(check(pod, room, around))
        if reasons:
            return reasons
    return ()


def missing_claim(pod: Raw, around: View) -> str:
    """The claim without which the pod can stand nowhere, in the scheduler's words; empty when all are there."""
    for name in claim_names(pod):
        claim = around.claims.get((pod["metadata"]["namespace"], name))
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if claim["metadata"].get("deletionTimestamp"):
            return f'persistentvolumeclaim "{name}" is being deleted'
    return ""


def taints_of(node: Raw) -> tuple[Taint, ...]:
    listed = (node.get("spec") or {}).get("taints") or ()
    return tuple(Taint(each["key"], each.get("value") or "", each["effect"]) for each in listed)


def tolerates(pod: Raw, taint: Taint) -> bool:
    return any(toleration(each).covers(taint) for each in pod["spec"].get("tolerations") or ())


def toleration(raw: Raw) -> Toleration:
    """One entry of `spec.tolerations`."""
    key, operator = raw.get("key") or "", raw.get("operator") or "Equal"
    return Toleration(key, operator, raw.get("value") or "", raw.get("effect") or "")


def on_selected_nodes(pod: Raw, node: Raw) -> bool:
    """`nodeSelector` and required node affinity together."""
    spec = pod["spec"]
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    required = affinity_of(pod, "nodeAffinity").get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or admits(required, node)


def domain_counts(constraint: Raw, pod: Raw, around: View) -> dict[str, int]:
    """Pods that the constraint selects, per topology domain; domains are those of nodes the pod selects."""
    key = constraint["topologyKey"]
    counts: dict[str, int] = {}
    for room in around.rooms:
        domain = room.labels.get(key)
        if domain is not None and on_selected_nodes(pod, room.node):
            matching = sum(_counts_for(constraint, pod, other) for other in room.pods)
            counts[domain] = counts.get(domain, 0) + matching
    return counts


def _cordoned(pod: Raw, room: Room, _around: View) -> Iterator[str]:
    if (room.node.get("spec") or {}).get("unschedulable") and not tolerates(pod, _CORDON):
        yield UNSCHEDULABLE


def _tainted(pod: Raw, room: Room, _around: View) -> Iterator[str]:
    keeping_away = (taint for taint in taints_of(room.node) if taint.effect in _KEEPS_AWAY)
    if any(not tolerates(pod, taint) for taint in keeping_away):
        yield TAINTED


def _not_selected(pod: Raw, room: Room, _around: View) -> Iterator[str]:
    if not on_selected_nodes(pod, room.node):
        yield AFFINITY


def _too_full(pod: Raw, room: Room, _around: View) -> Iterator[str]:
    asked, free = requested(pod), room.free
    if asked.pods > free.pods:
        yield TOO_MANY_PODS
    if asked.cpu > max(free.cpu, 0):
        yield NO_CPU
    if asked.memory > max(free.memory, 0):
        yield NO_MEMORY


def _volumes_elsewhere(pod: Raw, room: Room, around: View) -> Iterator[str]:
    for name in claim_names(pod):
        claim = around.claims.get((pod["metadata"]["namespace"], name))
        bound_to = claim["spec"].get("volumeName") if claim else None
        if not bound_to:
            continue
        volume = around.volumes.get(bound_to)
        if volume is None:
            yield NO_VOLUME
            return
        required = (volume["spec"].get("nodeAffinity") or {}).get("required")
        if required is not None and not admits(required, room.node):
            yield VOLUME_ELSEWHERE
            return


def _unevenly_spread(pod: Raw, room: Room, around: View) -> Iterator[str]:
    for constraint in pod["spec"].get("topologySpreadConstraints") or ():
        if constraint["whenUnsatisfiable"] != "DoNotSchedule":
            continue
        domain = room.labels.get(constraint["topologyKey"])
        if domain is None:
            yield f"{SPREAD} (missing required label)"
            return
        counts = domain_counts(constraint, pod, around)
        itself = matches(constraint.get("labelSelector"), pod["metadata"].get("labels") or {})
        if counts.get(domain, 0) + itself - min(counts.values(), default=0) > constraint["maxSkew"]:
            yield SPREAD
            return


def _wrong_company(pod: Raw, room: Room, around: View) -> Iterator[str]:
    if any(not _has_company(term, pod, room, around) for term in required_terms(pod, "podAffinity")):
        yield POD_AFFINITY
    elif any(_meets(term, pod, room, around) for term in required_terms(pod, "podAntiAffinity")):
        yield ANTI_AFFINITY
    elif _unwanted_by_others(pod, room, around):
        yield EXISTING_ANTI_AFFINITY


_FILTERS: Final[tuple[Callable[[Raw, Room, View], Iterator[str]], ...]] = (
    _cordoned,
    _tainted,
    _not_selected,
    _too_full,
    _volumes_elsewhere,
    _unevenly_spread,
    _wrong_company,
)


def _has_company(term: Raw, pod: Raw, room: Room, around: View) -> bool:
    if _meets(term, pod, room, around):
        return True
    # The first pod of a group that wants to be together has nobody to join yet.
    anywhere = any(_selected(term, pod, other) for each in around.rooms for other in each.pods)
    return not anywhere and term["topologyKey"] in room.labels and _selected(term, pod, pod)


def _meets(term: Raw, pod: Raw, room: Room, around: View) -> bool:
    """Whether a pod that the term of `pod` selects stands in the room's topology domain."""
    return any(_selected(term, pod, other) for other in _neighbours(term["topologyKey"], room, around))


def _unwanted_by_others(pod: Raw, room: Room, around: View) -> bool:
    for labels, other in around.wary:
        for term in required_terms(other, "podAntiAffinity"):
            key = term["topologyKey"]
            same_domain = key in room.labels and labels.get(key) == room.labels[key]
            if same_domain and _selected(term, other, pod):
                return True
    return False


def _neighbours(key: str, room: Room, around: View) -> Iterator[Raw]:
    domain = room.labels.get(key)
    if domain is not None:
        for each in around.rooms:
            if each.labels.get(key) == domain:
                yield from each.pods


def _selected(term: Raw, owner: Raw, other: Raw) -> bool:
    """Whether a PodAffinityTerm of `owner` selects `other`; without namespaces it means the owner's own."""
    namespaces = term.get("namespaces") or [owner["metadata"]["namespace"]]
    everywhere = term.get("namespaceSelector") == {}
    inside = everywhere or other["metadata"]["namespace"] in namespaces
    return inside and matches(term.get("labelSelector"), other["metadata"].get("labels") or {})


def _counts_for(constraint: Raw, pod: Raw, other: Raw) -> bool:
    metadata = other["metadata"]
    if metadata["namespace"] != pod["metadata"]["namespace"] or metadata.get("deletionTimestamp"):
        return False
    return matches(constraint.get("labelSelector"), metadata.get("labels") or {})
