"""Which pods must not be evicted at a moment, and why."""

from ebbtide.config.rebalance import NodeRebalance
from ebbtide.sim.kinds import NODES, PODS
from ebbtide.sim.stored import Object, Stored
from tests.simulation.draws import is_live, is_signalled
from tests.simulation.facts import SLACK, Facts
from tests.simulation.oracle import (
    REMOVED_WITHIN,
    CellName,
    cell_of,
    held_by,
    is_ready,
    manages,
    must_stay,
    removed_since,
)
from tests.simulation.stage import Stage
from tests.simulation.wiretap import Request

# Seconds for which nobody is evicted from a zone that cannot be tainted; after them a node may be taken at any moment.
WAITED_FOR = 60.0


class Stays:
    """Judges evictions. `begun` is when each replica's present term began."""

    def __init__(self, stage: Stage, facts: Facts) -> None:
        self.begun: dict[str, float] = {}
        self._stage = stage
        self._facts = facts

    @property
    def _rules(self) -> NodeRebalance:
        return self._stage.settings.node_rebalance

    def always(self, pod: Stored) -> str:
        """Why the pod may not be evicted whatever a replica knows or does not know yet; "" if it may."""
        reason = must_stay(pod.body, bare_too=self._rules.evict_bare_pods)
        node = self._stage.storage.peek(NODES, pod.body["spec"]["nodeName"])
        cell = None if node is None else cell_of(node.body)
        if not reason and cell is not None and not manages(self._rules, cell[0]):
            return f"group {cell[0]} is not looked after"
        return reason

    def known(self, request: Request, pod: Stored, calm_since: float) -> str:
        """Why everybody should know by now that this pod stays, "" if they need not."""
        versions = self._lately(pod.name, PODS, pod)
        if all(version["metadata"].get("deletionTimestamp") for version in versions):
            return "it is terminating"
        if all(version["status"].get("phase") in ("Succeeded", "Failed") for version in versions):
            return "it has finished"
        if self._facts.namespace_is_ignored(pod.namespace):
            return "its namespace is to be left alone"
        node = self._stage.storage.peek(NODES, pod.body["spec"]["nodeName"])
        return "" if node is None else self._of_node(request, pod, node, calm_since)

    def _of_node(self, request: Request, pod: Stored, node: Stored, calm_since: float) -> str:
        versions = self._lately(node.name, NODES, node)
        if not any(is_signalled(version) for version in versions):
            return "its node is not signalled"
        if not any(is_live(version) for version in versions):
            return "its node is being deleted"
        if all(self._is_being_removed(version, request.who) for version in versions):
            return "the autoscaler removes its node"
        if self._rules.zonal_volume_policy == "hold" and all(map(is_ready, versions)):
            held = self._facts.claims_are_known() and held_by(self._stage.storage, pod.body, node.body)
            if held:
                return f"volume {held} holds it"
        cell = cell_of(node.body)
        return "" if cell is None else self._of_cell(request, node, cell, calm_since)

    def _of_cell(self, request: Request, node: Stored, cell: CellName, calm_since: float) -> str:
        if self._facts.cell_is_ignored(cell):
            return "its zone is to be left alone"
        signalled, cell_signalled = self._facts.signalled_since(node), self._facts.cell_signalled_since(cell)
        if signalled is None or cell_signalled is None:
            return ""
        begun = self.begun.get(request.who, 0.0)
        since, waits_since = max(signalled, begun), max(cell_signalled, begun)
        was_complete = self._facts.complete_at(cell) >= since - SLACK
        waited = self._stage.time - waits_since
        if calm_since < since and not was_complete and waited < WAITED_FOR - SLACK:
            return f"its zone is not tainted, and that for {waited:g} s only"
        return ""

    def _is_being_removed(self, node: Object, who: str) -> bool:
        """By the clock of whoever evicts."""
        since = removed_since(node)
        (clock,) = (each.clock for each in self._stage.replicas if each.name == who)
        return since is not None and clock.now() - since < REMOVED_WITHIN

    def _lately(self, name: str, kind: object, now: Stored) -> list[Object]:
        """The object as it is, and as it was at any moment within the slack."""
        versions = [now.body]
        for change in reversed(self._stage.journal.changes):
            if change.time < self._stage.time - SLACK:
                break
            if change.name == name and change.event.kind is kind and change.before:
                versions.append(change.before)
        return versions
