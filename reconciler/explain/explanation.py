"""What an explanation consists of, and how a decision about a zone becomes one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ebbtide.config.rebalance import NodeRebalance
from ebbtide.model import NodeFacts, PodFacts, format_time
from ebbtide.vocabulary import BLOCK_ANNOTATION, BLOCK_IGNORE, ZONE_LABEL_FALLBACK
from reconciler.rebalance.decide import evictions
from reconciler.rebalance.describe import inferred, node_document, signal_document, zone_document
from reconciler.rebalance.plan import Change, Deed, GroupFacts, HeldBack, Plan
from reconciler.rebalance.signal import Signal, Source
from reconciler.rebalance.status import CellStatus
from reconciler.rebalance.steps import EVICT_REGARDLESS_AFTER
from reconciler.rebalance.verdict import State

Facts = dict[str, Any]

SWITCHED_OFF = HeldBack(Deed.EVERYTHING, "", "zone rebalance is switched off: node-rebalance.run = false")


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is decided about `subject` now, and why.

    `taint` and `untaint` are names of nodes, `readmit` says that a waiting pod is deleted to be admitted again. `facts`
    are JSON-able.
    """

    subject: str
    state: str
    reason: str
    facts: Mapping[str, Any]
    taint: tuple[str, ...] = ()
    untaint: tuple[str, ...] = ()
    evict: bool = False
    readmit: bool = False
    held_back: tuple[HeldBack, ...] = ()

    def document(self) -> dict[str, Any]:
        """The JSON form of the contract."""
        plan = {"taint": list(self.taint), "untaint": list(self.untaint), "evict": self.evict, "readmit": self.readmit}
        return {
            "subject": self.subject,
            "state": self.state,
            "reason": self.reason,
            "plan": plan,
            "heldBack": [{"what": held.what, "reason": held.reason} for held in self.held_back],
            "facts": dict(self.facts),
        }


def of_cell(subject: str, group: GroupFacts, plan: Plan, rules: NodeRebalance, now: float) -> Explanation:
    """A cell's plan and verdict; nothing is planned where zone rebalance is switched off."""
    status = inferred(group, plan.cell, rules, now)
    acts = rules.run
    return Explanation(
        subject=subject,
        state=str(status.state),
        reason=plan.reason,
        facts=cell_facts(group, plan, status, rules, now)
        | {"nodes": node_documents(group.cells[plan.cell.zone].nodes, rules, now)},
        taint=plan.taint if acts else (),
        untaint=plan.untaint if acts else (),
        evict=acts and plan.evict is not None,
        held_back=plan.held_back if acts else (SWITCHED_OFF, *plan.held_back),
    )


def cell_facts(group: GroupFacts, plan: Plan, status: CellStatus, rules: NodeRebalance, now: float) -> Facts:
    """Everything that the decision rests on, but for the nodes."""
    statuses = {zone: inferred(group, facts.cell, rules, now) for zone, facts in group.cells.items()}
    return {
        "cell": {"group": plan.cell.group, "zone": plan.cell.zone, "state": str(status.state)},
        "verdict": status.reason,
        "advice": status.advice(now),
        "signals": [signal_document(signal, now) for signal in plan.signals],
        "zones": [zone_document(status, zone) for zone, status in statuses.items()],
        "rules": rule_facts(rules),
        "lookAgainInSeconds": plan.look_again_in,
        "unknown": list(_unknown(plan, status, rules)),
        "warnings": list(_ahead(plan.signals, now)),
    }


def pod_document(pod: PodFacts) -> Facts:
    """A pod in short; `node` is null for one that waits."""
    owner = None if pod.owner is None else {"kind": pod.owner.kind, "name": pod.owner.name}
    return {"phase": pod.phase, "node": pod.node or None, "owner": owner, "terminating": pod.deleting}


def node_documents(nodes: Iterable[NodeFacts], rules: NodeRebalance, now: float) -> list[Facts]:
    return [node_document(node, rules, now) for node in nodes]


def rule_facts(rules: NodeRebalance) -> Facts:
    """The settings that decide."""
    return {
        "run": rules.run,
        "nodeGroups": list(rules.node_groups),
        "maxRebalanceSignalTimeSeconds": rules.max_rebalance_signal_time,
        "holdDownSeconds": rules.hold_down,
        "minOpenZones": rules.min_open_zones,
        "maxEvictionsInFlight": rules.max_evictions_in_flight,
        "zonalVolumePolicy": rules.zonal_volume_policy,
    }


def with_evictions(found: Explanation, group: GroupFacts, plan: Plan, rules: NodeRebalance, now: float) -> Explanation:
    """The explanation of a zone with what becomes of the pods of each of its signalled nodes."""
    nodes = {signal.node.name: signal.node for signal in plan.signals}
    each = {
        name: replace(plan, evict=evict, held_back=held)
        for name, (evict, held) in evictions(group, plan.cell, rules, now).items()
    }
    told = [
        {"node": name, "evict": rules.run and one.evict is not None, "reason": eviction_words(nodes[name], one)}
        for name, one in each.items()
    ]
    return replace(
        found,
        evict=any(one["evict"] for one in told),
        held_back=(*found.held_back, *(held for one in each.values() for held in one.held_back)),
        facts={**found.facts, "evictions": told},
    )


def eviction_words(node: NodeFacts, plan: Plan) -> str:
    """Whether the pods of a node of the cell go, in a sentence about `it`."""
    if plan.evict is not None and not any(write.prevent is Change.SET for write in plan.writes):
        return "its pods are evicted"
    if plan.evict is not None:
        longest = f"{EVICT_REGARDLESS_AFTER:g} s"
        return f"its pods are evicted as soon as every node of the zone is tainted, after {longest} in any case"
    if node.deleting:
        return "it is being deleted, and its pods are left to that"
    if not any(signal.node.name == node.name for signal in plan.signals):
        return "it has no rebalance signal, and only nodes with one are emptied"
    reasons = [held.reason for held in plan.held_back if held.deed is Deed.EMPTY_NODE and held.name == node.name]
    return f"its pods stay: {'; '.join(reasons)}"


def outside(name: str, labels: Mapping[str, str], rules: NodeRebalance) -> str:
    """Why a node with these labels, which belongs to no cell, is left alone."""
    return (
        f"node {name} belongs to no zone of a node group: it lacks {' and '.join(_lacking(labels, rules))} (both "
        f"labels are needed, {rules.node_group_label} and {rules.zone_label})"
    )


def outside_advice(name: str, labels: Mapping[str, str], rules: NodeRebalance) -> str:
    """What brings such a node into a cell."""
    words = " ".join(f"{key}=VALUE" for key in _lacking(labels, rules))
    return f"kubectl label node {name} {words}; and have the node group give new nodes their labels when they register"


def _lacking(labels: Mapping[str, str], rules: NodeRebalance) -> list[str]:
    zone = labels.get(rules.zone_label) or labels.get(ZONE_LABEL_FALLBACK)
    found = {rules.node_group_label: labels.get(rules.node_group_label), rules.zone_label: zone}
    return [key for key, value in found.items() if not value]


def without_effect(what: str, value: str | None) -> list[str]:
    """An override of `what` that was meant and is none: nothing but one exact value is. None: there is no override."""
    if value in (None, BLOCK_IGNORE):
        return []
    return [f"{what}: annotation {BLOCK_ANNOTATION}={value} has no effect; only {BLOCK_ANNOTATION}={BLOCK_IGNORE} has"]


def _ahead(signals: Iterable[Signal], now: float) -> Iterable[str]:
    """A signal from the future counts as brand-new for that long, and nobody sees why."""
    for signal in signals:
        if signal.is_ahead(now):
            yield (
                f"the signal of node {signal.node.name} has a time that lies {signal.since - now:.0f} s in the future, "
                f"{format_time(signal.since)}; until then it counts as 0 s old: is a clock wrong?"
            )


def _unknown(plan: Plan, status: CellStatus, rules: NodeRebalance) -> Iterable[str]:
    """What a leader may know better."""
    if status.state is State.INEFFECTIVE:
        yield "whether the autoscaler remembers the taint; a leader that has seen it do so says `cached`"
    if plan.wish.blocks and not plan.signals:
        yield f"how much of the hold-down of {rules.hold_down:g} s is left; the leader counts, and here it begins now"
    if plan.taint:
        yield "whether another program keeps removing the taint; the leader then sets it more and more slowly"
    if any(signal.source is Source.NOW for signal in plan.signals):
        yield "since when a signal has been seen whose time stands nowhere; the leader counts from its first look"
