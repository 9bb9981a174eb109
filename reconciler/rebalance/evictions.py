"""Which pods of a signalled node go, in which order, and when.

Pure: `judge_pod` says whether a pod is evicted at all, `due` picks the ones to ask for now, within the limits, from
everything that is known about earlier attempts. Durations in seconds, instants in monotonic seconds.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ebbtide.config.rebalance import NodeRebalance
from ebbtide.model import Cell, NodeFacts, PodFacts, Taint, VolumeFacts
from ebbtide.vocabulary import BLOCK_ANNOTATION, BLOCK_IGNORE, PREVENT_TAINT_EFFECT
from reconciler.rebalance.plan import soonest

# Measured: an eviction waits about 100 ms inside the API server, and pods under one budget are serialised there with
# retries of half a second. 32 wide asks 320 a second; more than 8 under one budget only raises the tail (3 s and up).
MOST_AT_ONCE = 32
# A budget lives in a namespace, so no budget ever sees more than this many at once.
MOST_AT_ONCE_PER_NAMESPACE = 8


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What decides about a pod besides itself: its node, namespaces left alone, and the volumes behind claims."""

    node: NodeFacts
    ignored_namespaces: frozenset[str] = frozenset()
    volumes: Mapping[str, VolumeFacts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Attempt:
    """What is known of earlier requests for one pod UID."""

    failures: int = 0
    retry_at: float = 0.0
    in_flight: bool = False
    accepted: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that is to go; `signal_since` orders nodes (oldest signal first), `own` marks this very process's pod."""

    pod: PodFacts
    cell: Cell
    signal_since: float
    own: bool = False

    @property
    def rank(self) -> tuple[bool, float, int, bool, str]:
        """The order of first requests, this process's own pod last of all."""
        return (self.own, self.signal_since, self.pod.priority, self.pod.busy, self.pod.key)


@dataclass(frozen=True, slots=True)
class Due:
    """What to ask for now, and in how many seconds the next retry is due."""

    now: tuple[Candidate, ...]
    next_in: float | None


def judge_pod(pod: PodFacts, around: Surroundings, rules: NodeRebalance) -> str:
    """Why the pod is left alone, "" if it is to be evicted."""
    return _not_evictable(pod, rules) or _left_alone(pod, around, rules) or _held_by_volume(pod, around, rules)


def holding_volume(pod: PodFacts, around: Surroundings, rules: NodeRebalance) -> str:
    """The words of `judge_pod` for a pod that only its volume keeps on its node, "" for any other."""
    other = _not_evictable(pod, rules) or _left_alone(pod, around, rules)
    return "" if other else _held_by_volume(pod, around, rules)


def _not_evictable(pod: PodFacts, rules: NodeRebalance) -> str:
    """Reasons that lie in what kind of pod it is."""
    if pod.deleting:
        return "it is terminating already"
    if pod.phase in ("Succeeded", "Failed"):
        return "it has finished"
    if pod.mirror:
        return "it is a static pod"
    if pod.owner is not None and pod.owner.kind == "DaemonSet":
        return "it belongs to a DaemonSet"
    if pod.owner is None and not rules.evict_bare_pods:
        return "it has no controller and evict-bare-pods is off"
    return ""


def _left_alone(pod: PodFacts, around: Surroundings, rules: NodeRebalance) -> str:
    """Reasons that lie in where it is and what it was told."""
    if pod.namespace in around.ignored_namespaces:
        return f"its namespace is annotated {BLOCK_ANNOTATION}={BLOCK_IGNORE}"
    if _comes_straight_back(pod, around.node, rules):
        return "it tolerates both the signal and the prevent taint"
    return ""


def _comes_straight_back(pod: PodFacts, node: NodeFacts, rules: NodeRebalance) -> bool:
    signals = [taint for taint in node.taints if taint.key == rules.rebalance_signal_taint_key]
    # Our value is a time, so only a toleration that asks for no particular value can cover it.
    prevent = node.taint(rules.prevent_ca_scale_up_taint_key, PREVENT_TAINT_EFFECT) or Taint(
        rules.prevent_ca_scale_up_taint_key, "0", PREVENT_TAINT_EFFECT
    )
    return bool(signals) and all(pod.tolerates(taint) for taint in (*signals, prevent))


def _held_by_volume(pod: PodFacts, around: Surroundings, rules: NodeRebalance) -> str:
    if rules.zonal_volume_policy != "hold" or not around.node.ready:
        return ""
    zone = around.node.cell.zone if around.node.cell else ""
    for claim in pod.claims:
        volume = around.volumes.get(f"{pod.namespace}/{claim}")
        if volume is not None and volume.only_in(zone):
            return f"its volume {volume.name} exists only in zone {zone}"
        if volume is not None and volume.only_on(around.node.name):
            return f"its volume {volume.name} exists only on node {around.node.name}"
    return ""


def due(
    candidates: Iterable[Candidate],
    attempts: Mapping[str, Attempt],
    leaving: Mapping[str, int],
    rules: NodeRebalance,
    monotonic: float,
) -> Due:
    """The candidates to ask for now, best first.

    `attempts` is by pod UID; `leaving` counts, by node group, the pods that were accepted and have not gone yet.
    """
    known = sorted(candidates, key=lambda candidate: candidate.rank)
    waiting = [candidate for candidate in known if _is_open(candidate, attempts)]
    ripe = _first_and_again([c for c in waiting if _retry_at(c, attempts) <= monotonic], attempts)
    later = soonest(_retry_at(c, attempts) - monotonic for c in waiting if _retry_at(c, attempts) > monotonic)
    in_flight = _in_flight(known, attempts)
    if in_flight or not all(candidate.own for candidate in ripe):
        # Once this process's own pod has gone, the answers to the others would find nobody.
        ripe = [candidate for candidate in ripe if not candidate.own]
    places = _Places(leaving, in_flight, rules.max_evictions_in_flight)
    return Due(tuple(candidate for candidate in ripe if places.take(candidate)), later)


def _first_and_again(ripe: Sequence[Candidate], attempts: Mapping[str, Attempt]) -> list[Candidate]:
    """Pods that were never asked, then the others as their retries fell due: pods that are refused for ever cannot
    take every place from those behind them."""
    return sorted(ripe, key=lambda candidate: (candidate.own, _retry_at(candidate, attempts)))


class _Places:
    """The free places for requests: in all, per namespace, and per node group."""

    def __init__(self, leaving: Mapping[str, int], in_flight: Iterable[Candidate], group_limit: int) -> None:
        self._groups = Counter(dict(leaving))
        self._namespaces: Counter[str] = Counter()
        self._all = 0
        self._group_limit = group_limit
        for candidate in in_flight:
            self._count(candidate)

    def take(self, candidate: Candidate) -> bool:
        """Takes a place for the candidate, if there is one."""
        free = (
            self._all < MOST_AT_ONCE
            and self._namespaces[candidate.pod.namespace] < MOST_AT_ONCE_PER_NAMESPACE
            and not (self._group_limit and self._groups[candidate.cell.group] >= self._group_limit)
        )
        if free:
            self._count(candidate)
        return free

    def _count(self, candidate: Candidate) -> None:
        self._all += 1
        self._namespaces[candidate.pod.namespace] += 1
        self._groups[candidate.cell.group] += 1


def _is_open(candidate: Candidate, attempts: Mapping[str, Attempt]) -> bool:
    attempt = attempts.get(candidate.pod.uid)
    return attempt is None or not (attempt.in_flight or attempt.accepted)


def _retry_at(candidate: Candidate, attempts: Mapping[str, Attempt]) -> float:
    attempt = attempts.get(candidate.pod.uid)
    return 0.0 if attempt is None else attempt.retry_at


def _in_flight(candidates: Iterable[Candidate], attempts: Mapping[str, Attempt]) -> list[Candidate]:
    return [c for c in candidates if c.pod.uid in attempts and attempts[c.pod.uid].in_flight]
