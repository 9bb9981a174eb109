"""Which node a pod gets: kube-scheduler's filter and score as one pure function."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from ebbtide.sim.actors.amounts import requested
from ebbtide.sim.actors.node_selectors import term_admits
from ebbtide.sim.actors.predicates import domain_counts, missing_claim, refusals
from ebbtide.sim.actors.rooms import Room, View
from ebbtide.vocabulary import ZONE_LABEL

Raw = Mapping[str, Any]

# Weights of kube-scheduler's default profile: NodeResourcesFit, PodTopologySpread, NodeAffinity.
_FIT_WEIGHT: Final = 1
_SPREAD_WEIGHT: Final = 2
_AFFINITY_WEIGHT: Final = 2
_BEST: Final = 100.0


@dataclass(frozen=True, slots=True)
class Placement:
    """The node a pod gets; with an empty `node`, `message` is why none, as it goes into the pod's condition."""

    node: str = ""
    message: str = ""


def place(pod: Raw, around: View, rng: Random) -> Placement:
    """Finds the best node; among equally good ones the generator chooses, as the real scheduler does."""
    total = len(around.rooms)
    if not total:
        return Placement(message="no nodes available to schedule pods")
    missing = missing_claim(pod, around)
    if missing:
        return Placement(message=f"0/{total} nodes are available: {missing}.")
    refused = {room.name: refusals(pod, room, around) for room in around.rooms}
    feasible = [room for room in around.rooms if not refused[room.name]]
    if not feasible:
        return Placement(message=_unavailable(total, list(refused.values())))
    scores = _scores(pod, feasible, around)
    best = max(scores.values())
    return Placement(node=rng.choice([name for name, score in scores.items() if score == best]))


def _unavailable(total: int, refused: Sequence[tuple[str, ...]]) -> str:
    counted = Counter(reason for reasons in refused for reason in reasons)
    listed = sorted(f"{count} {reason}" for reason, count in counted.items())
    return f"0/{total} nodes are available: {', '.join(listed)}."


def _scores(pod: Raw, feasible: Sequence[Room], around: View) -> dict[str, float]:
    spread = _spread_scores(pod, feasible, around)
    preferred = _preference_scores(pod, feasible)
    return {
        room.name: round(
            _FIT_WEIGHT * _fit_score(pod, room)
            + _SPREAD_WEIGHT * spread[room.name]
            + _AFFINITY_WEIGHT * preferred[room.name]
        )
        for room in feasible
    }


def _fit_score(pod: Raw, room: Room) -> float:
    """LeastAllocated: the mean share of cpu and memory that stays free."""
    offered, left = room.offered, room.free - requested(pod)
    return _BEST * (left.cpu / max(offered.cpu, 1) + left.memory / max(offered.memory, 1)) / 2


def _spread_scores(pod: Raw, feasible: Sequence[Room], around: View) -> dict[str, float]:
    """The fewer of the pod's kind stand in a node's domains, the better."""
    crowd = dict.fromkeys((room.name for room in feasible), 0)
    for constraint in _soft_constraints(pod):
        counts = domain_counts(constraint, pod, around)
        for room in feasible:
            crowd[room.name] += counts.get(room.labels.get(constraint["topologyKey"], ""), 0)
    most, least = max(crowd.values()), min(crowd.values())
    return {name: _BEST * (most + least - count) / most if most else _BEST for name, count in crowd.items()}


def _preference_scores(pod: Raw, feasible: Sequence[Room]) -> dict[str, float]:
    """The weights of the preferred node affinity terms that admit a node, as a share of the best node's."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms: Sequence[Raw] = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    weights = {
        room.name: sum(term["weight"] for term in terms if term_admits(term["preference"], room.node))
        for room in feasible
    }
    most = max(weights.values())
    return {name: _BEST * weight / most if most else 0.0 for name, weight in weights.items()}


def _soft_constraints(pod: Raw) -> Iterator[Raw]:
    """The pod's own ScheduleAnyway constraints; without any constraint the scheduler's defaults for owned pods."""
    own = pod["spec"].get("topologySpreadConstraints") or ()
    yield from (each for each in own if each["whenUnsatisfiable"] == "ScheduleAnyway")
    if not own and pod["metadata"].get("ownerReferences"):
        labels = pod["metadata"].get("labels") or {}
        selector = {"matchLabels": {key: value for key, value in labels.items() if key not in _PER_POD_LABELS}}
        for key in ("kubernetes.io/hostname", ZONE_LABEL):
            yield {"topologyKey": key, "labelSelector": selector}


# The real scheduler takes the selectors of the pod's services and owners; these labels are in none of them.
_PER_POD_LABELS: Final = frozenset(
    {"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "controller-revision-hash"}
)
