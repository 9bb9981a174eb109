"""Does the block hold? What the autoscaler sees is not what the taint says.

Cluster Autoscaler's template of a group is a node that has been Ready for longer than a minute, is not cordoned and
not being deleted last; without one it is the template it cached before; without that, the cloud's, which is clean.
So a cell in which every node is cordoned stays attractive to it although every node is tainted.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ebbtide.config.rebalance import NodeRebalance
from ebbtide.counting import count
from ebbtide.model import NodeFacts
from reconciler.rebalance.plan import CellFacts, Plan, Wish, is_prevented, soonest


class State(StrEnum):
    """States of a cell, as in `noderebalance_block_state`."""

    OPEN = "open"
    WAITING = "waiting"
    BLOCKED = "blocked"
    CACHED = "cached"
    PARTIAL = "partial"
    INEFFECTIVE = "ineffective"
    STALE_TEMPLATE = "stale-template"

    @property
    def fully_tainted(self) -> bool:
        """Whether the cell is to be blocked and every live node carries the prevent taint."""
        return self in (State.BLOCKED, State.CACHED, State.INEFFECTIVE)

    @property
    def to_be_blocked(self) -> bool:
        """Whether the cell is blocked, or would be if every write had succeeded."""
        return self.fully_tainted or self is State.PARTIAL


@dataclass(frozen=True, slots=True)
class Streak:
    """For how long the autoscaler has seen a tainted template without a break.

    `blocked_for` is the seconds since the cell became `blocked`, None while it is not. `remembered` says that it was
    for two scan intervals in this streak, so that the autoscaler must have cached the tainted template.
    """

    blocked_for: float | None = None
    remembered: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state with its reason; `look_again_in` seconds it may change without any event.

    `settles_in` seconds a block that is ineffective now holds by the passing of time alone; None when it does not.
    """

    state: State
    reason: str
    remembered: bool = False
    look_again_in: float | None = None
    settles_in: float | None = None


def judge(facts: CellFacts, plan: Plan, streak: Streak, rules: NodeRebalance, now: float) -> Verdict:
    """The verdict on a cell that has at least one live node, as it stands after `plan` was carried out."""
    if plan.wish is Wish.WAIT:
        return Verdict(State.WAITING, plan.reason)
    if not plan.wish.blocks:
        return _open(facts, plan, rules)
    leak = _leak(facts, rules, now)
    if leak:
        return Verdict(State.PARTIAL, leak)
    return _tainted(facts, streak, rules, now)


def judge_empty(left_tainted: bool) -> Verdict | None:
    """The verdict on a cell without a live node, None if there is nothing to say about it any more."""
    if not left_tainted:
        return None
    return Verdict(State.STALE_TEMPLATE, "the last node left while it carried the prevent taint")


def leaves_none_open(states: Iterable[State | None]) -> bool:
    """Whether every zone of a group is to be blocked.

    `states` are those of its zones with live nodes, None for one that has not been looked at: it may be open.
    """
    known = tuple(states)
    return bool(known) and all(state is not None and state.to_be_blocked for state in known)


def is_template(node: NodeFacts, rules: NodeRebalance, now: float) -> bool:
    """Whether Cluster Autoscaler would take this node as its group's template now."""
    settled = node.ready_since is not None and now - node.ready_since > rules.cluster_autoscaler_stabilization
    return settled and not node.unschedulable


def is_remembered(streak: Streak, rules: NodeRebalance) -> bool:
    """Whether the autoscaler must have cached the tainted template by now."""
    return streak.remembered or (streak.blocked_for or 0.0) >= 2 * rules.cluster_autoscaler_scan_interval


def _open(facts: CellFacts, plan: Plan, rules: NodeRebalance) -> Verdict:
    left = sum(is_prevented(node, rules) for node in facts.live)
    rest = f"; nodes that still carry the prevent taint: {left}" if left else ""
    return Verdict(State.OPEN, plan.reason + rest)


def _leak(facts: CellFacts, rules: NodeRebalance, now: float) -> str:
    clean = [node.name for node in facts.live if not is_prevented(node, rules)]
    if clean:
        lacking = "lacks the prevent taint:" if len(clean) == 1 else "lack the prevent taint, among them"
        return f"{len(clean)} of {count(len(facts.live), 'node')} {lacking} {clean[0]}"
    for node in facts.nodes:
        if node.deleting and not is_prevented(node, rules) and is_template(node, rules, now):
            return f"node {node.name} is being deleted, clean and still the autoscaler's template"
    return ""


def _tainted(facts: CellFacts, streak: Streak, rules: NodeRebalance, now: float) -> Verdict:
    remembered = is_remembered(streak, rules)
    leaks = soonest(_settles_in(n, rules, now) for n in facts.nodes if n.deleting and not is_prevented(n, rules))
    if any(is_template(node, rules, now) for node in facts.live):
        return Verdict(State.BLOCKED, "every node is tainted and the autoscaler sees it", remembered, leaks)
    settles = soonest(_settles_in(node, rules, now) for node in facts.live)
    again = soonest((leaks, settles))
    if remembered:
        return Verdict(State.CACHED, "no schedulable node is left; the autoscaler remembers the taint", True, again)
    reason = "every node is tainted, but none is schedulable and Ready for long enough for the autoscaler to see it"
    return Verdict(State.INEFFECTIVE, reason, look_again_in=again, settles_in=settles)


def _settles_in(node: NodeFacts, rules: NodeRebalance, now: float) -> float | None:
    """Seconds until the node becomes the autoscaler's template by the passing of time alone."""
    if node.ready_since is None or node.unschedulable:
        return None
    return max(0.0, node.ready_since + rules.cluster_autoscaler_stabilization - now) + 0.001
