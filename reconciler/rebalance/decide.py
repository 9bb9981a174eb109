"""What to do with a cell: facts in, plan with reasons out.

Nothing here reads a clock, logs or talks to anybody. Times are epoch seconds, durations seconds. The plan also says
what was held back and why, so that logs, status, dry run and explanations all tell the same story.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice

from ebbtide import vocabulary
from ebbtide.config.rebalance import NodeRebalance
from ebbtide.model import Cell, NodeFacts
from reconciler.rebalance.signal import Signal, Source, epoch_seconds, signal_of

# Cluster Autoscaler drains and removes a node within minutes of marking it; an older mark was left by one that died.
TO_BE_DELETED_FRESH = 15 * 60.0
# How long a cell may stay incomplete before pods are evicted all the same: the node may be taken soon.
EVICT_REGARDLESS_AFTER = 60.0
# A limit has passed only when the age is *greater*; a look exactly at the limit would find nothing to do.
_JUST_AFTER = 0.001


class Wish(StrEnum):
    """What a cell should be."""

    OPEN = "open"
    WAIT = "wait"
    KEEP = "keep"
    BLOCK = "block"

    @property
    def blocks(self) -> bool:
        """Whether every live node of the cell has to carry the prevent taint."""
        return self in (Wish.KEEP, Wish.BLOCK)


class Change(StrEnum):
    """What a write does to one of our marks on a node."""

    LEAVE = "leave"
    SET = "set"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class CellFacts:
    """A cell as it stands.

    `nodes` are all of its nodes, those being deleted too. The durations are what only this process has watched:
    `quiet_for` since the last signal went (0 while there is one), `incomplete_for` since the cell should have been
    fully tainted and was not (0 when it is). `restrained` maps a node's name to the seconds for which its taint is
    not set again, because another program keeps removing it.
    """

    cell: Cell
    nodes: tuple[NodeFacts, ...]
    quiet_for: float = 0.0
    incomplete_for: float = 0.0
    restrained: Mapping[str, float] = field(default_factory=dict)

    @property
    def live(self) -> tuple[NodeFacts, ...]:
        return tuple(node for node in self.nodes if not node.deleting)


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """All cells of one node group, by zone."""

    group: str
    cells: Mapping[str, CellFacts]


@dataclass(frozen=True, slots=True)
class NodeWrite:
    """One request to one node: everything that changes on it. Valid only for that resourceVersion."""

    node: NodeFacts
    prevent: Change
    first_seen: Change
    signalled: bool


@dataclass(frozen=True, slots=True)
class Eviction:
    """Pods of `node` are to be evicted; `at_once` even though the cell could not be fully tainted for long."""

    node: NodeFacts
    since: float
    at_once: bool


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Something that would have been done, and why it is not."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do with a cell now; `look_again_in` seconds even if nothing happens, None if only events matter."""

    cell: Cell
    wish: Wish
    reason: str
    signals: tuple[Signal, ...]
    writes: tuple[NodeWrite, ...]
    evict: Eviction | None
    held_back: tuple[HeldBack, ...]
    look_again_in: float | None

    @property
    def taint(self) -> tuple[str, ...]:
        return tuple(write.node.name for write in self.writes if write.prevent is Change.SET)

    @property
    def untaint(self) -> tuple[str, ...]:
        return tuple(write.node.name for write in self.writes if write.prevent is Change.REMOVE)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """The wish for one cell, before the other zones of its group have a say."""

    wish: Wish
    reason: str
    evicts: bool = False
    look_again_in: float | None = None


def decide(group: GroupFacts, cell: Cell, node_name: str | None, rules: NodeRebalance, now: float) -> Plan:
    """The plan for `cell`; `node_name` is the node that is looked at for eviction, None when it is only the cell."""
    facts = group.cells[cell.zone]
    signals = signals_of(facts, rules, now)
    verdict = _limited(group, facts, rules, now)
    writes, held_writes, wait_for_write = _writes(facts, verdict, rules, now)
    looked_at = next((signal for signal in signals if signal.node.name == node_name), None)
    evict, held_eviction, wait_for_eviction = _eviction(facts, verdict, looked_at, now)
    return Plan(
        cell=cell,
        wish=verdict.wish,
        reason=verdict.reason,
        signals=signals,
        writes=writes,
        evict=evict,
        held_back=(*held_writes, *held_eviction),
        look_again_in=soonest((verdict.look_again_in, wait_for_write, wait_for_eviction)),
    )


def evictions(
    group: GroupFacts, cell: Cell, rules: NodeRebalance, now: float
) -> dict[str, tuple[Eviction | None, tuple[HeldBack, ...]]]:
    """By signalled node of the cell, oldest signal first: what `decide` says of its pods when it is looked at."""
    facts = group.cells[cell.zone]
    verdict = _limited(group, facts, rules, now)
    return {signal.node.name: _eviction(facts, verdict, signal, now)[:2] for signal in signals_of(facts, rules, now)}


def signals_of(facts: CellFacts, rules: NodeRebalance, now: float) -> tuple[Signal, ...]:
    """The cell's signals, oldest first."""
    found = (signal_of(node, rules.rebalance_signal_taint_key, now) for node in facts.nodes)
    return tuple(sorted((s for s in found if s is not None), key=lambda signal: (signal.since, signal.node.name)))


def is_prevented(node: NodeFacts, rules: NodeRebalance) -> bool:
    """Whether the node carries our taint. The same key with another effect is somebody else's."""
    return node.taint(rules.prevent_ca_scale_up_taint_key, vocabulary.PREVENT_TAINT_EFFECT) is not None


def is_managed(group: str, rules: NodeRebalance) -> bool:
    """Whether the group is one that the operator wants to be blocked at all."""
    return rules.manages(group)


def soonest(waits: Iterable[float | None]) -> float | None:
    """The shortest of several waits, None if there is nothing to wait for."""
    return min((wait for wait in waits if wait is not None), default=None)


def _wanted(facts: CellFacts, rules: NodeRebalance, now: float) -> _Verdict:
    """The table: how many signals, how old, is the cell blocked already."""
    override = _override(facts, rules)
    if override:
        return _Verdict(Wish.OPEN, override)
    signals = signals_of(facts, rules, now)
    if not signals:
        return _without_signal(facts, rules)
    if len(signals) > 1:
        return _Verdict(Wish.BLOCK, f"{len(signals)} nodes are signalled", evicts=True)
    return _with_one_signal(facts, signals[0], rules, now)


def _override(facts: CellFacts, rules: NodeRebalance) -> str:
    if not is_managed(facts.cell.group, rules):
        return f"group {facts.cell.group} is outside node-groups"
    for node in facts.live:
        if node.ignored:
            return f"node {node.name} is annotated {vocabulary.BLOCK_ANNOTATION}={vocabulary.BLOCK_IGNORE}"
    return ""


def _without_signal(facts: CellFacts, rules: NodeRebalance) -> _Verdict:
    left = rules.hold_down - facts.quiet_for
    if left > 0 and _is_blocked(facts, rules):
        return _Verdict(Wish.KEEP, "no signal any more, within hold-down", look_again_in=left)
    return _Verdict(Wish.OPEN, "no node is signalled")


def _with_one_signal(facts: CellFacts, signal: Signal, rules: NodeRebalance, now: float) -> _Verdict:
    limit = rules.max_rebalance_signal_time
    left = limit - signal.age(now)
    name = signal.node.name
    if left < 0:
        return _Verdict(Wish.BLOCK, f"the signal of node {name} is older than {limit:g} s", evicts=True)
    # A time in the future has age 0 until it is reached, and only then starts to age.
    due = max(left, signal.since + limit - now) + _JUST_AFTER
    if _is_blocked(facts, rules):
        return _Verdict(Wish.KEEP, f"the zone is blocked already and node {name} is signalled", look_again_in=due)
    return _Verdict(Wish.WAIT, f"one signal, of node {name}, not older than {limit:g} s", look_again_in=due)


def _is_blocked(facts: CellFacts, rules: NodeRebalance) -> bool:
    return any(is_prevented(node, rules) for node in facts.live)


def _limited(group: GroupFacts, facts: CellFacts, rules: NodeRebalance, now: float) -> _Verdict:
    """The cell's wish, unless blocking it would leave the group with fewer open zones than `min-open-zones`."""
    verdict = _wanted(facts, rules, now)
    if not verdict.wish.blocks or rules.min_open_zones == 0 or _is_blocked(facts, rules):
        return verdict
    if facts.cell.zone in _may_close(group, rules, now):
        return verdict
    return _Verdict(Wish.OPEN, f"{verdict.reason}, but min-open-zones = {rules.min_open_zones} keeps the zone open")


def _may_close(group: GroupFacts, rules: NodeRebalance, now: float) -> frozenset[str]:
    """Zones not blocked yet that may be: those with the oldest signals, as many as the limit leaves.

    A zone counts as closed until the last prevent taint is off it, also when it is about to be opened.
    """
    zones = [facts for facts in group.cells.values() if facts.live]
    clean = [facts for facts in zones if not _is_blocked(facts, rules)]
    new = [facts for facts in clean if _wanted(facts, rules, now).wish.blocks]
    room = len(clean) - rules.min_open_zones
    new.sort(key=lambda facts: (signals_of(facts, rules, now)[0].since, facts.cell.zone))
    return frozenset(facts.cell.zone for facts in islice(new, max(0, room)))


def _writes(
    facts: CellFacts, verdict: _Verdict, rules: NodeRebalance, now: float
) -> tuple[tuple[NodeWrite, ...], tuple[HeldBack, ...], float | None]:
    """What changes on which live node, what is not set again yet, and how long that takes."""
    writes: list[NodeWrite] = []
    held: list[HeldBack] = []
    waits: list[float] = []
    for node in facts.live:
        signal = signal_of(node, rules.rebalance_signal_taint_key, now)
        prevent = _prevent_change(node, verdict.wish, rules)
        restraint = facts.restrained.get(node.name, 0.0)
        if prevent is Change.SET and restraint > 0:
            prevent = Change.LEAVE
            waits.append(restraint)
            held.append(HeldBack(f"taint node {node.name}", "another program keeps removing the prevent taint"))
        write = NodeWrite(node, prevent, _first_seen_change(node, signal, rules), signal is not None)
        if write.prevent is not Change.LEAVE or write.first_seen is not Change.LEAVE:
            writes.append(write)
    return tuple(writes), tuple(held), soonest(waits)


def _prevent_change(node: NodeFacts, wish: Wish, rules: NodeRebalance) -> Change:
    carries = is_prevented(node, rules)
    if wish.blocks and not carries:
        return Change.SET
    if wish is Wish.OPEN and carries:
        return Change.REMOVE
    return Change.LEAVE


def _first_seen_change(node: NodeFacts, signal: Signal | None, rules: NodeRebalance) -> Change:
    if signal is None:
        return Change.LEAVE if node.first_seen is None else Change.REMOVE
    managed = node.cell is not None and is_managed(node.cell.group, rules)
    return Change.SET if signal.source is Source.NOW and managed else Change.LEAVE


def _eviction(
    facts: CellFacts, verdict: _Verdict, signal: Signal | None, now: float
) -> tuple[Eviction | None, tuple[HeldBack, ...], float | None]:
    """Whether the pods of the node looked at go, if not why, and when that may change by itself.

    `signal` is that node's, None without one.
    """
    if signal is None:
        return None, (), None
    what = f"evict the pods of node {signal.node.name}"
    if not verdict.evicts:
        return None, (HeldBack(what, verdict.reason),), None
    leaving = _seconds_left_to_autoscaler(signal.node, now)
    if leaving > 0:
        return None, (HeldBack(what, "Cluster Autoscaler is removing the node"),), leaving + _JUST_AFTER
    overdue = EVICT_REGARDLESS_AFTER - facts.incomplete_for
    at_once = overdue <= 0
    return (
        Eviction(signal.node, signal.since, at_once),
        (),
        overdue if facts.incomplete_for > 0 and not at_once else None,
    )


def _seconds_left_to_autoscaler(node: NodeFacts, now: float) -> float:
    """For how long Cluster Autoscaler's mark on the node is still believed; 0 without one or with an old one."""
    mark = node.taint(vocabulary.TO_BE_DELETED_TAINT_KEY)
    marked_at = None if mark is None else epoch_seconds(mark.value) or mark.time_added
    if marked_at is None:
        return 0.0
    return max(0.0, TO_BE_DELETED_FRESH - max(0.0, now - marked_at))
