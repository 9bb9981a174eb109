"""What people are told about zones and nodes: what happened, to which object, why, and what to do."""

from dataclasses import dataclass
from textwrap import shorten
from typing import Literal

from ebbtide.config.rebalance import NodeRebalance
from ebbtide.model import Cell, NodeFacts
from reconciler.rebalance.answers import Result
from reconciler.rebalance.decide import Plan
from reconciler.rebalance.drain import Asked
from reconciler.rebalance.verdict import State, Verdict

# Of the API server's own words, so that what to do still fits into a note's 1 kB.
_LONGEST_WORDS = 300


@dataclass(frozen=True, slots=True)
class Story:
    """The words of an event; see `reconciler.engine.events.Event`."""

    kind: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str


def changed(plan: Plan, verdict: Verdict, before: State | None, rules: NodeRebalance) -> Story | None:
    """A zone has changed its state; None where nobody needs to be told."""
    where = _place(plan.cell)
    match verdict.state:
        case State.WAITING:
            limit = f"{rules.max_rebalance_signal_time:g} s"
            note = (
                f"{where}: {plan.reason}. It is blocked when the signal gets older than {limit} or a second one comes."
            )
            return Story("Normal", "RebalanceSignalSeen", "Wait", note)
        case State.BLOCKED:
            return Story(
                "Normal", "ZoneBlocked", "Taint", f"{where} is blocked: {plan.reason}. {_capital(verdict.reason)}."
            )
        case State.CACHED:
            note = (
                f"{where} is blocked, but no node of it is schedulable any more: the block holds only as long as the "
                "Cluster Autoscaler is not restarted. Leave one node of the zone uncordoned to keep it safe."
            )
            return Story("Normal", "ZoneBlockCached", "Taint", note)
        case State.PARTIAL:
            note = f"{where} is to be blocked ({plan.reason}), but the autoscaler may still grow it: {verdict.reason}."
            return Story("Warning", "ZoneBlockPartial", "Taint", note)
        case State.INEFFECTIVE:
            note = (
                f"{where} is tainted, but the Cluster Autoscaler does not see it: no node of the zone is schedulable "
                "and Ready for long enough, so it may still add nodes there. Uncordon one node of the zone that is not "
                "signalled; its taint keeps pods away."
            )
            return Story("Warning", "ZoneBlockIneffective", "Taint", note)
        case _:
            return _opened(plan, before)


def _opened(plan: Plan, before: State | None) -> Story | None:
    if before in (None, State.OPEN):
        return None
    if before is State.WAITING:
        return Story("Normal", "RebalanceSignalGone", "Wait", f"{_place(plan.cell)} was not blocked: {plan.reason}.")
    return Story("Normal", "ZoneOpened", "Untaint", f"{_place(plan.cell)} is open again: {plan.reason}.")


def stale(cell: Cell) -> Story:
    """The last node of a blocked zone has gone."""
    note = (
        f"{_place(cell)} lost its last node while that carried the prevent taint. The Cluster Autoscaler may remember "
        "it as the template of its node group and never grow the group again. Restart the Cluster Autoscaler, or run "
        "it with --node-info-cache-expire-time=10m."
    )
    return Story("Warning", "StaleAutoscalerTemplate", "Taint", note)


def contested(node: NodeFacts, rules: NodeRebalance) -> Story:
    """Another program keeps removing our taint."""
    note = (
        f"Another program keeps removing the taint {rules.prevent_ca_scale_up_taint_key} from node {node.name}. It is "
        "put back more and more slowly; until the other program stops, the Cluster Autoscaler may grow the zone."
    )
    return Story("Warning", "PreventTaintContested", "Taint", note)


def evicting(node: NodeFacts) -> Story:
    """The first eviction of a signalled node was accepted."""
    zone = f" in zone {node.cell.zone}" if node.cell else ""
    note = f"Node {node.name}{zone} has a rebalance signal: its pods are evicted, so that they start in another zone."
    return Story("Normal", "EvictingPods", "Evict", note)


def refused(asked: Asked) -> Story | None:
    """An eviction was answered in a way that somebody has to do something about; None otherwise."""
    pod, node, words = asked.pod, asked.node.name, _quoted(asked.answer.words)
    match asked.answer.result:
        case Result.MISCONFIGURED:
            note = f"Pod {pod.key} on signalled node {node} cannot be evicted: {words} Let only one budget select it."
            return Story("Warning", "EvictionMisconfigured", "Evict", note)
        case Result.FORBIDDEN:
            note = f"Pod {pod.key} on signalled node {node} may not be evicted: {words} Permit it, or move it by hand."
            return Story("Warning", "EvictionForbidden", "Evict", note)
        case _:
            return None


def _place(cell: Cell) -> str:
    return f"Zone {cell.zone} of node group {cell.group}"


def _quoted(words: str) -> str:
    """The API server's words as one sentence of bounded length, "unknown reason" if it had none."""
    return (shorten(words, _LONGEST_WORDS, placeholder=" …") or "unknown reason").removesuffix(".") + "."


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
