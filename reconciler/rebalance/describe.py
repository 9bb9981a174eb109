"""Cells and plans as documents: what status, status page and explanations show, from the values that decide.

Keys are camelCase, times RFC 3339, ages and durations seconds.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from ebbtide.config.rebalance import NodeRebalance
from ebbtide.exclusion.zones import group_zones
from ebbtide.model import Cell, NodeFacts, format_time
from reconciler.rebalance.decide import decide
from reconciler.rebalance.plan import CellFacts, GroupFacts, is_prevented
from reconciler.rebalance.signal import Signal, epoch_seconds, signal_of
from reconciler.rebalance.snapshot import Cells
from reconciler.rebalance.status import CellStatus, status_of
from reconciler.rebalance.verdict import State, Streak, judge

Document = dict[str, Any]


def group_nodes(nodes: Iterable[NodeFacts]) -> dict[str, GroupFacts]:
    """The cells of all nodes by group, as somebody sees them who remembers nothing."""
    cells = Cells(nodes)
    return {
        group: GroupFacts(group, {cell.zone: CellFacts(cell, cells.nodes(cell)) for cell in of_group})
        for group, of_group in groupby(sorted(cells), key=lambda cell: cell.group)
    }


def inferred(group: GroupFacts, cell: Cell, rules: NodeRebalance, now: float) -> CellStatus:
    """A cell's status read off the cluster alone, without what only a leader remembers (`cached`, hold-down).

    `since` is None where nothing on the cluster says it.
    """
    facts = group.cells[cell.zone]
    plan = decide(group, cell, None, rules, now)
    if not facts.live:
        return CellStatus(State.OPEN, "every node is being deleted", None)
    verdict = judge(facts, plan, Streak(), rules, now)
    since = _set_at(facts, rules)
    if verdict.state is State.WAITING:
        since = plan.signals[0].since
    return status_of(verdict, since, plan.signals, now)


def cell_document(
    cell: Cell, status: CellStatus, nodes: Iterable[NodeFacts], rules: NodeRebalance, now: float
) -> Document:
    """One entry of `cells`."""
    return {
        "group": cell.group,
        "zone": cell.zone,
        "state": str(status.state),
        "reason": status.reason,
        "advice": status.advice(now),
        "since": None if status.since is None else format_time(status.since),
        "signalNodes": len(status.signals),
        "oldestSignalAgeSeconds": max((signal.age(now) for signal in status.signals), default=0.0),
        "signals": [signal_document(signal, now) for signal in status.signals],
        "nodes": [node_document(node, rules, now) for node in nodes],
    }


def node_document(node: NodeFacts, rules: NodeRebalance, now: float) -> Document:
    """One node and its marks."""
    return {
        "name": node.name,
        "signal": signal_of(node, rules.rebalance_signal_taint_key, now) is not None,
        "prevent": is_prevented(node, rules),
        "cordoned": node.unschedulable,
        "ready": node.ready,
        "deleting": node.deleting,
        "ignored": node.ignored,
    }


def signal_document(signal: Signal, now: float) -> Document:
    """One signal, and where its time was read: `taint-value`, `time-added`, `annotation`, or `now` for nowhere."""
    return {
        "node": signal.node.name,
        "since": format_time(signal.since),
        "ageSeconds": signal.age(now),
        "source": str(signal.source),
    }


def zone_document(status: CellStatus, zone: str) -> Document:
    """One zone of a group in short."""
    return {
        "zone": zone,
        "state": str(status.state),
        "reason": status.reason,
        "signalNodes": len(status.signals),
    }


def blocked_zones(nodes: Iterable[NodeFacts], rules: NodeRebalance) -> dict[str, list[str]]:
    """By group, the zones that the webhook keeps new pods out of."""
    groups = group_zones(nodes, rules.prevent_ca_scale_up_taint_key)
    return {name: sorted(groups[name].blocked) for name in sorted(groups) if groups[name].blocked}


def _set_at(facts: CellFacts, rules: NodeRebalance) -> float | None:
    """Since when the cell carries our taint: its value is the time at which we set it."""
    taints = (node.taint(rules.prevent_ca_scale_up_taint_key) for node in facts.live)
    times = (epoch_seconds(taint.value) for taint in taints if taint is not None)
    return min((time for time in times if time is not None), default=None)
