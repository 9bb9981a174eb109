"""What is done about a cell once it is known what it should be: which nodes are written, whose pods go. Pure."""

from ebbtide import vocabulary
from ebbtide.config.rebalance import NodeRebalance
from ebbtide.model import NodeFacts
from reconciler.rebalance.plan import (
    CellFacts,
    Change,
    Deed,
    Eviction,
    HeldBack,
    NodeWrite,
    Wish,
    is_prevented,
    soonest,
)
from reconciler.rebalance.signal import Signal, Source, epoch_seconds

# Cluster Autoscaler drains and removes a node within minutes of marking it; an older mark was left by one that died.
TO_BE_DELETED_FRESH = 15 * 60.0
# How long a cell may stay incomplete before pods are evicted all the same: the node may be taken soon.
EVICT_REGARDLESS_AFTER = 60.0
# A limit has passed only when the age is *greater*; a look exactly at the limit would find nothing to do.
JUST_AFTER = 0.001
_UNNOTED = "the API server has refused it; the leader remembers it, and after a change of leaders it counts anew"


def node_writes(
    facts: CellFacts, wish: Wish, rules: NodeRebalance, now: float
) -> tuple[tuple[NodeWrite, ...], tuple[HeldBack, ...], float | None]:
    """What changes on which live node, what is not set again yet, and how long that takes."""
    writes: list[NodeWrite] = []
    held: list[HeldBack] = []
    waits: list[float] = []
    for node in facts.live:
        signal = facts.signal_of(node, rules, now)
        prevent = _prevent_change(node, wish, rules)
        restraint = facts.restrained.get(node.name, 0.0)
        if prevent is Change.SET and restraint > 0:
            prevent = Change.LEAVE
            waits.append(restraint)
            held.append(HeldBack(Deed.TAINT, node.name, "another program keeps removing the prevent taint"))
        first_seen = _first_seen_change(node, signal, rules)
        again_in = facts.unnoted.get(node.name, 0.0)
        if first_seen is Change.SET and again_in > 0:
            first_seen = Change.LEAVE
            waits.append(again_in)
            held.append(HeldBack(Deed.NOTE_SIGNAL, node.name, _UNNOTED))
        write = NodeWrite(node, prevent, first_seen, signal is not None, None if signal is None else signal.since)
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
    managed = node.cell is not None and rules.manages(node.cell.group)
    return Change.SET if signal.source is Source.NOW and managed else Change.LEAVE


def eviction(
    facts: CellFacts, signal: Signal | None, stay: str, now: float
) -> tuple[Eviction | None, tuple[HeldBack, ...], float | None]:
    """Whether the pods of the node looked at go, if not why, and when that may change by itself.

    `signal` is that node's, None without one; `stay` is why the cell's pods are to stay, "" if they are not.
    """
    if signal is None:
        return None, (), None
    name = signal.node.name
    if stay:
        return None, (HeldBack(Deed.EMPTY_NODE, name, stay),), None
    leaving = _seconds_left_to_autoscaler(signal.node, now)
    if leaving > 0:
        removed = "Cluster Autoscaler is removing the node"
        return None, (HeldBack(Deed.EMPTY_NODE, name, removed),), leaving + JUST_AFTER
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
