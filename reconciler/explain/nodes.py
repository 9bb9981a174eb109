"""Why things are as they are: the decision about a zone, a node or a pod, from the very functions that act.

Only what is on the cluster is read. What a leader alone remembers is not known here; the facts say where that matters.
"""

from dataclasses import dataclass, replace
from typing import Any

from ebbtide.clock import Clock
from ebbtide.config import Settings
from ebbtide.errors import EbbtideError
from ebbtide.exclusion.volumes import BoundVolumes
from ebbtide.kube.errors import Forbidden
from ebbtide.kube.resources import NAMESPACES, NODES, PDBS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from ebbtide.kube.store import Store
from ebbtide.model import Cell, NodeFacts, PodFacts, claim_facts, namespace_facts, pod_facts, volume_facts
from ebbtide.vocabulary import BLOCK_ANNOTATION
from reconciler.explain.budgets import refusal
from reconciler.explain.explanation import (
    SWITCHED_OFF,
    Explanation,
    Facts,
    cell_facts,
    eviction_words,
    node_documents,
    of_cell,
    outside,
    outside_advice,
    pod_document,
    with_evictions,
    without_effect,
)
from reconciler.explain.near import missing, nearest
from reconciler.explain.waiting import WaitingPods
from reconciler.inquiry import Inquiry
from reconciler.rebalance.decide import decide
from reconciler.rebalance.describe import group_nodes, inferred
from reconciler.rebalance.evictions import judge_pod
from reconciler.rebalance.plan import Deed, HeldBack
from reconciler.rebalance.snapshot import PodSurroundings


@dataclass(frozen=True, slots=True)
class Judged:
    """A pod of a node that is emptied: why it stays for good, or for now; both "" if it goes."""

    pod: PodFacts
    stays: str
    refused: str

    @property
    def why(self) -> str:
        return self.stays or self.refused


class Explainer:
    """Answers one question after the other; every answer reads the cluster anew. Raises KubeError, EbbtideError."""

    def __init__(self, inquiry: Inquiry, settings: Settings, clock: Clock) -> None:
        self._inquiry = inquiry
        self._settings = settings
        self._rules = settings.node_rebalance
        self._clock = clock

    async def zone(self, cell: Cell) -> Explanation:
        """A zone of a node group. Raises EbbtideError if it has no node."""
        nodes, overrides = await self._inquiry.nodes_and_overrides()
        groups = group_nodes(nodes.values())
        group = groups.get(cell.group)
        if group is None or cell.zone not in group.cells:
            known = [str(facts.cell) for each in groups.values() for facts in each.cells.values()]
            none = "; no node has the labels of a group and a zone" if not known else ""
            raise EbbtideError(f"{missing('node in zone', str(cell), known)}{none}")
        now = self._clock.now()
        plan = decide(group, cell, None, self._rules, now)
        found = with_evictions(of_cell(f"zone {cell}", group, plan, self._rules, now), group, plan, self._rules, now)
        names = [node.name for node in group.cells[cell.zone].live if node.name in overrides]
        vain = [words for name in names for words in without_effect(f"node {name}", overrides[name])]
        return replace(found, facts={**found.facts, "warnings": [*found.facts["warnings"], *vain]})

    async def node(self, name: str) -> Explanation:
        """A node and its zone. Raises EbbtideError if there is no such node."""
        nodes = await self._inquiry.nodes()
        node = nodes.get(name)
        if node is None:
            raise EbbtideError(missing("node", name, (each.name for each in nodes.values())))
        now, own = self._clock.now(), await self._inquiry.metadata(NODES, name)
        warnings = without_effect(f"node {name}", own["annotations"].get(BLOCK_ANNOTATION))
        if node.cell is None:
            labels, documents = own["labels"], node_documents((node,), self._rules, now)
            advice = outside_advice(name, labels, self._rules)
            alone = {"nodes": documents, "advice": advice, "warnings": warnings}
            return Explanation(f"node {name}", "outside", outside(name, labels, self._rules), alone)
        group = group_nodes(nodes.values())[node.cell.group]
        plan = decide(group, node.cell, name, self._rules, now)
        found = of_cell(f"node {name}", group, plan, self._rules, now)
        judged, unknown = await self._pods_of(node) if plan.evict is not None else ((), ())
        stays = tuple(HeldBack(Deed.EVICT, each.pod.key, each.why) for each in judged if each.why)
        facts: Facts = {
            "eviction": eviction_words(node, plan),
            "pods": [{"pod": each.pod.key, "evict": not each.stays, "reason": each.why} for each in judged],
            "unknown": [*found.facts["unknown"], *unknown],
            "warnings": [*found.facts["warnings"], *warnings],
        }
        return replace(found, held_back=(*found.held_back, *stays), facts={**found.facts, **facts})

    async def pod(self, namespace: str, name: str) -> Explanation:
        """A pod, on a node or waiting for one. Raises EbbtideError if there is no such pod."""
        raw = await self._inquiry.pod(namespace, name)
        if raw is None:
            raise EbbtideError(await self._no_pod(namespace, name))
        pod, nodes = pod_facts(raw), await self._inquiry.nodes()
        if not pod.node and pod.phase in ("Succeeded", "Failed"):
            return Explanation(
                f"pod {pod.key}", "stays", "it has finished, without ever having a node", {"pod": pod_document(pod)}
            )
        if not pod.node:
            return await WaitingPods(self._inquiry, self._settings).explain(pod, raw, nodes)
        node = nodes.get(pod.node)
        facts: Facts = {"pod": pod_document(pod)}
        if node is None or node.cell is None:
            gone = f"its node {pod.node} does not exist any more; the cluster's pod garbage collector removes it"
            labels = (await self._inquiry.metadata(NODES, pod.node))["labels"]
            reason = gone if node is None else f"its {outside(pod.node, labels, self._rules)}"
            return Explanation(f"pod {pod.key}", "stays", reason, facts)
        return await self._standing(pod, raw, node, nodes)

    async def _standing(
        self, pod: PodFacts, raw: dict[str, Any], node: NodeFacts, nodes: Store[NodeFacts]
    ) -> Explanation:
        assert node.cell is not None
        now = self._clock.now()
        group = group_nodes(nodes.values())[node.cell.group]
        plan = decide(group, node.cell, node.name, self._rules, now)
        (judged,), unknown = await self._judged(node, [raw])
        words = eviction_words(node, plan)
        status = inferred(group, node.cell, self._rules, now)
        facts = {"pod": pod_document(pod), **cell_facts(group, plan, status, self._rules, now)}
        facts |= {"nodes": node_documents((node,), self._rules, now), "eviction": words, "wouldStay": judged.stays}
        facts["unknown"] = [*facts["unknown"], *unknown]
        space = await self._inquiry.metadata(NAMESPACES, pod.namespace)
        vain = without_effect(f"namespace {pod.namespace}", space["annotations"].get(BLOCK_ANNOTATION))
        facts["warnings"] = [*facts["warnings"], *vain]
        subject = f"pod {pod.key}"
        if plan.evict is None:
            held = tuple(
                HeldBack(Deed.EVICT, pod.key, each.reason) for each in plan.held_back if each.name == node.name
            )
            return Explanation(subject, "stays", f"it stands on node {node.name}: {words}", facts, held_back=held)
        reason = f"its node {node.name} is emptied, because {plan.reason}"
        held = (HeldBack(Deed.EVICT, pod.key, judged.why),) if judged.why else ()
        if not self._rules.run:
            return Explanation(subject, "held-back", reason, facts, held_back=(SWITCHED_OFF, *held))
        state = "held-back" if held else "to-be-evicted"
        return Explanation(subject, state, reason, facts, evict=not judged.stays, held_back=held)

    async def _pods_of(self, node: NodeFacts) -> tuple[tuple[Judged, ...], tuple[str, ...]]:
        return await self._judged(node, await self._inquiry.pods_of(node.name))

    async def _judged(self, node: NodeFacts, pods: list[dict[str, Any]]) -> tuple[tuple[Judged, ...], tuple[str, ...]]:
        """What becomes of pods if their node is emptied, and what could not be found out."""
        facts = tuple(pod_facts(raw) for raw in pods)
        around = (await self._surroundings()).of(node, facts)
        unknown: tuple[str, ...] = ()
        try:
            budgets = await self._inquiry.objects(PDBS) if pods else []
        except Forbidden as error:
            budgets, unknown = [], (f"whether a PodDisruptionBudget refuses now: {error}",)
        found = (
            Judged(pod, judge_pod(pod, around, self._rules), self._refused(raw, budgets))
            for pod, raw in zip(facts, pods, strict=True)
        )
        return tuple(sorted(found, key=lambda each: each.pod.key)), unknown

    def _refused(self, raw: dict[str, Any], budgets: list[dict[str, Any]]) -> str:
        found = refusal(raw, budgets)
        return f"{found}; it is asked again every {self._rules.retry_too_many_requests_time:g} s" if found else ""

    async def _surroundings(self) -> PodSurroundings:
        namespaces = await self._inquiry.collect(NAMESPACES, namespace_facts)
        if self._rules.zonal_volume_policy == "evict":
            return PodSurroundings(namespaces)
        claims = await self._inquiry.collect(PERSISTENT_VOLUME_CLAIMS, claim_facts)
        volumes = await self._inquiry.collect(PERSISTENT_VOLUMES, volume_facts)
        return PodSurroundings(namespaces, BoundVolumes(claims, volumes))

    async def _no_pod(self, namespace: str, name: str) -> str:
        names = await self._inquiry.pod_names(namespace)
        near = [f"{namespace}/{each}" for each in nearest(name, names)]
        empty = "" if names else f"; namespace {namespace} has no pods"
        return f"there is no pod {namespace}/{name}" + (f"; the nearest: {', '.join(near)}" if near else empty)
