"""Why things are as they are: the decision about a zone, a node or a pod, from the very functions that act.

Only what is on the cluster is read. What a leader alone remembers (hold-downs, a fight over a taint, whether the
autoscaler has cached a tainted template) is not known here, which the facts say.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ebbtide.clock import Clock
from ebbtide.config import Settings
from ebbtide.errors import EbbtideError
from ebbtide.kube.resources import NAMESPACES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from ebbtide.model import Cell, NodeFacts, PodFacts, claim_facts, namespace_facts, pod_facts, volume_facts
from reconciler.inquiry import Inquiry
from reconciler.rebalance.decide import HeldBack, Plan, decide
from reconciler.rebalance.describe import group_nodes, inferred, node_document, signal_document
from reconciler.rebalance.evictions import judge_pod
from reconciler.rebalance.report import CellStatus
from reconciler.rebalance.snapshot import PodSurroundings


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is decided about `subject` now, and why. `facts` are JSON-able."""

    subject: str
    state: str
    reason: str
    taint: tuple[str, ...]
    untaint: tuple[str, ...]
    evict: bool
    held_back: tuple[HeldBack, ...]
    facts: Mapping[str, Any]

    def document(self) -> dict[str, Any]:
        """The JSON form of the contract."""
        return {
            "subject": self.subject,
            "state": self.state,
            "reason": self.reason,
            "plan": {"taint": list(self.taint), "untaint": list(self.untaint), "evict": self.evict},
            "heldBack": [{"what": held.what, "reason": held.reason} for held in self.held_back],
            "facts": dict(self.facts),
        }


class Explainer:
    """Answers one question after the other; every answer reads the cluster anew."""

    def __init__(self, inquiry: Inquiry, settings: Settings, clock: Clock) -> None:
        self._inquiry = inquiry
        self._settings = settings
        self._rules = settings.node_rebalance
        self._clock = clock

    async def zone(self, cell: Cell) -> Explanation:
        """A zone of a node group. Raises EbbtideError if it has no node."""
        now = self._clock.now()
        groups = group_nodes((await self._inquiry.nodes()).values())
        group = groups.get(cell.group)
        if group is None or cell.zone not in group.cells:
            known = ", ".join(str(facts.cell) for each in groups.values() for facts in each.cells.values())
            raise EbbtideError(f"there is no node in {cell}; zones with nodes: {known or 'none'}")
        plan = decide(group, cell, None, self._rules, now)
        nodes = group.cells[cell.zone].nodes
        return self._of_cell(f"zone {cell}", plan, inferred(group, cell, self._rules, now), nodes, now)

    async def node(self, name: str) -> Explanation:
        """A node and its zone. Raises EbbtideError if there is no such node."""
        now = self._clock.now()
        nodes = await self._inquiry.nodes()
        node = nodes.get(name)
        if node is None:
            raise EbbtideError(f"there is no node {name}")
        if node.cell is None:
            return self._outside(f"node {name}", node, now)
        group = group_nodes(nodes.values())[node.cell.group]
        plan = decide(group, node.cell, name, self._rules, now)
        status = inferred(group, node.cell, self._rules, now)
        found = self._of_cell(f"node {name}", plan, status, group.cells[node.cell.zone].nodes, now)
        alone = await self._pods_left_alone(node) if plan.evict else ()
        return replace(found, held_back=(*found.held_back, *alone))

    async def pod(self, namespace: str, name: str) -> Explanation:
        """A pod, as far as it stands on a node. Raises EbbtideError if there is no such pod."""
        pod = pod_facts(await self._inquiry.pod(namespace, name))
        if not pod.node:
            unbound = {"phase": pod.phase, "node": None}
            return Explanation(f"pod {pod.key}", "unscheduled", "it stands on no node yet", (), (), False, (), unbound)
        of_node = await self.node(pod.node)
        reason, evict = of_node.reason, of_node.evict
        if evict:
            alone = await self._left_alone(pod)
            evict, reason = not alone, f"it {alone}" if alone else f"its node {pod.node} is signalled: {reason}"
        held = () if evict else (HeldBack(f"evict pod {pod.key}", _why_stays(of_node, reason)),)
        facts: dict[str, Any] = {
            "phase": pod.phase,
            "node": of_node.facts,
            "owner": pod.owner.kind if pod.owner else None,
        }
        return Explanation(f"pod {pod.key}", of_node.state, reason, (), (), evict, held, facts)

    def _of_cell(
        self, subject: str, plan: Plan, status: CellStatus, nodes: tuple[NodeFacts, ...], now: float
    ) -> Explanation:
        facts = {
            "cell": {"group": plan.cell.group, "zone": plan.cell.zone},
            "verdict": status.reason,
            "signals": [signal_document(signal, now) for signal in plan.signals],
            "nodes": [node_document(node, self._rules, now) for node in nodes],
            "lookAgainInSeconds": plan.look_again_in,
            "unknown": ["hold-down", "fights over the taint", "the autoscaler's cached template"],
        }
        evict = plan.evict is not None
        return Explanation(
            subject, str(status.state), plan.reason, plan.taint, plan.untaint, evict, plan.held_back, facts
        )

    def _outside(self, subject: str, node: NodeFacts, now: float) -> Explanation:
        labels = f"{self._rules.node_group_label} and {self._rules.zone_label}"
        reason = f"it belongs to no zone of a node group: it needs the labels {labels}"
        facts = {"nodes": [node_document(node, self._rules, now)]}
        return Explanation(subject, "outside", reason, (), (), False, (), facts)

    async def _pods_left_alone(self, node: NodeFacts) -> tuple[HeldBack, ...]:
        pods = await self._inquiry.pods_of(node.name)
        around = (await self._surroundings()).of(node, pods)
        judged = ((pod, judge_pod(pod, around, self._rules)) for pod in pods)
        return tuple(HeldBack(f"evict pod {pod.key}", reason) for pod, reason in judged if reason)

    async def _left_alone(self, pod: PodFacts) -> str:
        node = (await self._inquiry.nodes()).get(pod.node)
        if node is None:
            return "stands on a node that is gone"
        return judge_pod(pod, (await self._surroundings()).of(node, (pod,)), self._rules)

    async def _surroundings(self) -> PodSurroundings:
        namespaces = await self._inquiry.collect(NAMESPACES, namespace_facts)
        if self._rules.zonal_volume_policy == "evict":
            return PodSurroundings(namespaces)
        claims = await self._inquiry.collect(PERSISTENT_VOLUME_CLAIMS, claim_facts)
        return PodSurroundings(namespaces, claims, await self._inquiry.collect(PERSISTENT_VOLUMES, volume_facts))


def _why_stays(of_node: Explanation, reason: str) -> str:
    """The node's own reason for holding evictions back, if it has one."""
    for held in of_node.held_back:
        if held.what == f"evict the pods of {of_node.subject}":
            return held.reason
    return reason
