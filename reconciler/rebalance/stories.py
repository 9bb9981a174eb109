"""What people are told about zones and nodes: what happened, to which object, why, and what to do."""

from collections.abc import Iterable
from textwrap import shorten

from ebbtide.config.rebalance import NodeRebalance
from ebbtide.model import Cell, NodeFacts, PodFacts
from reconciler.engine.events import Story
from reconciler.rebalance.answers import Result
from reconciler.rebalance.drain import AnsweredEviction
from reconciler.rebalance.plan import Change, NodeWrite, Plan
from reconciler.rebalance.verdict import State, Verdict

# Of the API server's own words, so that what to do still fits into a note's 1 kB.
_LONGEST_WORDS = 300


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
            note = f"{where} is blocked, but no node of it is schedulable any more. {advice(verdict.state)}"
            return Story("Normal", "ZoneBlockCached", "Taint", note)
        case State.INEFFECTIVE:
            why = ": no node of the zone is schedulable and Ready" if verdict.settles_in is None else ""
            remedy = advice(verdict.state, verdict.settles_in)
            note = f"{where} is tainted, but the Cluster Autoscaler does not see it{why}. {remedy}"
            return Story("Warning", "ZoneBlockIneffective", "Taint", note)
        case _:
            return _opened(plan, before)


def leaking(plan: Plan, verdict: Verdict) -> Story:
    """A zone that is to be blocked may still grow, and not only for a moment."""
    leak = (
        f"{_place(plan.cell)} is to be blocked ({plan.reason}), but the autoscaler may still grow it: {verdict.reason}."
    )
    return Story("Warning", "ZoneBlockPartial", "Taint", f"{leak} {advice(verdict.state)}")


def not_written(write: NodeWrite, words: str) -> Story:
    """The API server will not have our write to a node.

    With the time of a signal in it that alone may be the reason: it is left out the next time.
    """
    if write.first_seen is Change.SET:
        note = (
            f"The time at which the rebalance signal of node {write.node.name} was first seen could not be noted on "
            f"the node: {_quoted(words)} The leader remembers it; after a change of leaders the signal counts as new. "
            "Look for an admission policy or webhook that refuses it, or annotations at their limit of 256 KiB."
        )
        return Story("Warning", "NodeNotWritten", "Taint", note)
    note = (
        f"The taints of node {write.node.name} could not be written: {_quoted(words)} As long as it lacks the prevent "
        "taint the Cluster Autoscaler may grow its zone. Look for an admission policy or webhook that refuses it, a "
        "role that lacks it, or annotations at their limit of 256 KiB."
    )
    return Story("Warning", "NodeNotWritten", "Taint", note)


def _opened(plan: Plan, before: State | None) -> Story | None:
    if before in (None, State.OPEN):
        return None
    if before is State.WAITING:
        return Story("Normal", "RebalanceSignalGone", "Wait", f"{_place(plan.cell)} was not blocked: {plan.reason}.")
    return Story("Normal", "ZoneOpened", "Untaint", f"{_place(plan.cell)} is open again: {plan.reason}.")


def advice(state: State, settles_in: float | None = None) -> str:
    """What a state means for the operator, what still holds, and what to do; "" where nothing needs to be done.

    `settles_in` is that of the verdict, in seconds.
    """
    match state:
        case State.PARTIAL:
            return (
                "This passes while a reconciler leads: clean nodes are tainted within seconds, nodes that are being "
                "deleted go. Where it lasts, the events of these nodes and the reconciler's log say why."
            )
        case State.CACHED:
            return (
                "The block holds only as long as the Cluster Autoscaler is not restarted. Leave one node of the zone "
                "uncordoned to keep it safe; its taint keeps pods away."
            )
        case State.INEFFECTIVE if settles_in is not None:
            return (
                "Its schedulable nodes have not been Ready for long enough yet. "
                f"This passes by itself in about {settles_in:.0f} s."
            )
        case State.INEFFECTIVE:
            return (
                "The Cluster Autoscaler may still add nodes there; the webhook's zone exclusion, where it is "
                "installed, still keeps guarded pods out. Uncordon one node of the zone, if possible one without a "
                "signal; its taint keeps pods away."
            )
        case State.STALE_TEMPLATE:
            return (
                "The Cluster Autoscaler may remember that node as the template of its node group and never grow the "
                "group again. Restart the Cluster Autoscaler, or run it with --node-info-cache-expire-time=10m."
            )
        case _:
            return ""


def stale(cell: Cell) -> Story:
    """The last node of a blocked zone has gone."""
    note = f"{_place(cell)} lost its last node while that carried the prevent taint. {advice(State.STALE_TEMPLATE)}"
    return Story("Warning", "StaleAutoscalerTemplate", "Taint", note)


def none_open(group: str, zones: Iterable[str]) -> Story:
    """Every zone of a node group that has nodes is to be blocked."""
    note = (
        f"Every zone of node group {group} that has nodes is to be blocked: {_listed(zones)}. Pods that are evicted or "
        "created now find no node of the group until a block ends. Add nodes of the group in another zone, or "
        "let min-open-zones = 1 keep one zone open."
    )
    return Story("Warning", "AllZonesBlocked", "Taint", note)


def contested(node: NodeFacts, rules: NodeRebalance) -> Story:
    """Another program keeps removing our taint."""
    note = (
        f"Another program keeps removing the taint {rules.prevent_ca_scale_up_taint_key} from node {node.name}. It is "
        "put back more and more slowly; until the other program stops, the Cluster Autoscaler may grow the zone."
    )
    return Story("Warning", "PreventTaintContested", "Taint", note)


def outside(node: NodeFacts, rules: NodeRebalance) -> Story:
    """A signalled node belongs to no zone of a node group."""
    note = (
        f"Node {node.name} has a rebalance signal and is left alone: it belongs to no zone of a node group, since it "
        f"lacks {rules.node_group_label} or {rules.zone_label}. If ebbtide is to move its pods, give it these labels, "
        "best by way of its node group, so that new nodes have them from the start."
    )
    return Story("Normal", "SignalOutsideZones", "Wait", note)


def evicting(node: NodeFacts) -> Story:
    """The first eviction of a signalled node was accepted."""
    zone = f" in zone {node.cell.zone}" if node.cell else ""
    note = f"Node {node.name}{zone} has a rebalance signal: its pods are evicted, so that they start in another zone."
    return Story("Normal", "EvictingPods", "Evict", note)


def held(node: NodeFacts, pod: PodFacts, why: str) -> Story:
    """A pod stays on a signalled node because of its volume; `why` are the words of the decision."""
    note = (
        f"Pod {pod.key} is left on signalled node {node.name}: {why}, and zonal-volume-policy is hold. It runs until "
        "the node is taken; then it waits until its zone has nodes again."
    )
    return Story("Normal", "EvictionHeld", "Evict", note)


def refused(eviction: AnsweredEviction) -> Story | None:
    """An eviction was answered in a way that somebody has to do something about; None otherwise."""
    pod, node, words = eviction.pod, eviction.node.name, _quoted(eviction.answer.words)
    match eviction.answer.result:
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


def _listed(zones: Iterable[str]) -> str:
    return shorten(", ".join(sorted(zones)), _LONGEST_WORDS, placeholder=" …")


def _quoted(words: str) -> str:
    """The API server's words as one sentence of bounded length, "unknown reason" if it had none."""
    return (shorten(words, _LONGEST_WORDS, placeholder=" …") or "unknown reason").removesuffix(".") + "."


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
