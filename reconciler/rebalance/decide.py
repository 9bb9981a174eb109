"""What to do with a cell: facts in, plan with reasons out.

Nothing here reads a clock, logs or talks to anybody. Times are epoch seconds, durations seconds. The plan also says
what was held back and why, so that logs, status, dry run and explanations all tell the same story.
"""

from dataclasses import dataclass
from itertools import islice

from ebbtide import vocabulary
from ebbtide.config.rebalance import NodeRebalance
from ebbtide.model import Cell, format_time
from reconciler.rebalance.plan import CellFacts, Eviction, GroupFacts, HeldBack, Plan, Wish, is_prevented, soonest
from reconciler.rebalance.signal import Signal
from reconciler.rebalance.steps import JUST_AFTER, eviction, node_writes


@dataclass(frozen=True, slots=True)
class _Verdict:
    """The wish for one cell, before the other zones of its group have a say."""

    wish: Wish
    reason: str
    evicts: bool = False
    look_again_in: float | None = None

    @property
    def stay(self) -> str:
        """Why the pods of signalled nodes stay, "" if they go."""
        return "" if self.evicts else self.reason


def decide(group: GroupFacts, cell: Cell, node_name: str | None, rules: NodeRebalance, now: float) -> Plan:
    """The plan for `cell`; `node_name` is the node that is looked at for eviction, None when it is only the cell."""
    facts = group.cells[cell.zone]
    signals = signals_of(facts, rules, now)
    verdict = _limited(group, facts, rules, now)
    writes, held_writes, wait_for_write = node_writes(facts, verdict.wish, rules, now)
    looked_at = next((signal for signal in signals if signal.node.name == node_name), None)
    evict, held_eviction, wait_for_eviction = eviction(facts, looked_at, verdict.stay, now)
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
    return {
        signal.node.name: eviction(facts, signal, verdict.stay, now)[:2] for signal in signals_of(facts, rules, now)
    }


def signals_of(facts: CellFacts, rules: NodeRebalance, now: float) -> tuple[Signal, ...]:
    """The cell's signals, oldest first."""
    found = (facts.signal_of(node, rules, now) for node in facts.nodes)
    return tuple(sorted((s for s in found if s is not None), key=lambda signal: (signal.since, signal.node.name)))


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
    if not rules.manages(facts.cell.group):
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
    if signal.certain:
        return _Verdict(Wish.BLOCK, f"AWS takes the instance of node {name}", evicts=True)
    if left < 0:
        return _Verdict(Wish.BLOCK, f"the signal of node {name} is older than {limit:g} s", evicts=True)
    # A time in the future has age 0 until it is reached, and only then starts to age.
    due = max(left, signal.since + limit - now) + JUST_AFTER
    if _is_blocked(facts, rules):
        return _Verdict(Wish.KEEP, f"the zone is blocked already and node {name} is signalled", look_again_in=due)
    ahead = f", whose time {format_time(signal.since)} lies in the future" if signal.is_ahead(now) else ""
    return _Verdict(Wish.WAIT, f"one signal, of node {name}, not older than {limit:g} s{ahead}", look_again_in=due)


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
