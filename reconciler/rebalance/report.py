"""Outcomes → metrics, events and log lines.

Series depend on groups, zones and living nodes only, so their number is bounded by the cluster as it is. Every event
is told on a change, never again in a loop; what they say lies in `stories`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ebbtide.clock import Clock
from ebbtide.config.rebalance import NodeRebalance
from ebbtide.kube.errors import ApiError
from ebbtide.kube.resources import NODES, PODS
from ebbtide.model import Cell, NodeFacts, PodFacts
from reconciler.engine.events import Recorder, Regarding, Story
from reconciler.rebalance import stories
from reconciler.rebalance.act import Outcome
from reconciler.rebalance.answers import Result
from reconciler.rebalance.drain import AnsweredEviction
from reconciler.rebalance.memory import Fight
from reconciler.rebalance.plan import CellFacts, Change, Plan
from reconciler.rebalance.status import CellStatus
from reconciler.rebalance.verdict import State, Verdict, leaves_none_open

log = structlog.stdlib.get_logger(__name__)

# Seconds: a conflict, or a node that has just joined, is mended well within them.
_LASTING = 5.0


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a cell: what was decided, what became of it, and what the cell is now, and was (None: unknown).

    `inherited` is what an earlier leader told of it, where that can be seen.
    """

    plan: Plan
    outcome: Outcome
    verdict: Verdict
    before: State | None
    inherited: State | None
    facts: CellFacts
    fights: tuple[tuple[NodeFacts, Fight], ...]
    dry_run: bool


class Report:
    """Tells the world of the cells as they are. Without a recorder (a dry run) no event is written."""

    def __init__(
        self,
        registry: CollectorRegistry,
        clock: Clock,
        rules: NodeRebalance,
        recorder: Recorder | None,
        cells: Mapping[Cell, CellStatus],
    ) -> None:
        self._rules = rules
        self._recorder = recorder
        self._cells = cells
        # UIDs of nodes counted for their present signal; outlives a term, since the signal does.
        self._counted: set[str] = set()
        self._without_open_zone: set[str] = set()
        self._leaks: set[Cell] = set()
        # Cells blocked since before this term.
        self._inherited: set[Cell] = set()
        # UIDs of signalled nodes outside of any cell that were told of.
        self._outside: set[str] = set()
        registry.register(_CellFigures(cells, clock))
        cell = ["node_group", "node_zone"]
        self._evicted = Counter(
            "noderebalance_evict_node",
            "Signalled nodes whose pods were evicted: one for each signal, at the first eviction that was accepted.",
            ["node", *cell],
            registry=registry,
        )
        self._evictions = Counter(
            "noderebalance_evictions", "Answers to evictions.", [*cell, "result"], registry=registry
        )
        self._restored = Counter(
            "noderebalance_taint_restored",
            "Prevent taints put back after another program had removed them.",
            registry=registry,
        )
        self._looks = Counter(
            "noderebalance_reconcile", "Looks at a cell or node, by how they ended.", ["result"], registry=registry
        )
        self._duration = Histogram(
            "noderebalance_reconcile_duration_seconds",
            "Duration of one look at a cell or node, its writes included.",
            registry=registry,
        )
        self._depth = Gauge("noderebalance_queue_depth", "Looks that are due and not begun.", registry=registry)

    # --- what the controller's machinery tells -------------------------------------------------------------------

    def measure(self, seconds: float, result: str) -> None:
        """One reconcile took this long; `result` is one of `reconciler.engine.verdict.RESULTS`."""
        self._looks.labels(result).inc()
        self._duration.observe(seconds)

    def depth_of(self, depth: Callable[[], int]) -> None:
        """Where the queue's depth is read when somebody asks."""
        self._depth.set_function(depth)

    # --- cells ---------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Nothing is known of any group or zone (a new term begins)."""
        self._without_open_zone.clear()
        self._leaks.clear()
        self._inherited.clear()
        self._outside.clear()

    def looked(self, look: Look) -> None:
        """One look is over."""
        self._restored.inc(len(look.fights))
        for node, fight in look.fights:
            if fight.rounds == 1:
                self._emit(node, stories.contested(node, self._rules))
        if look.before is not look.verdict.state:
            self._changed(look)
        self._inherit(look)
        self._leaking(look)
        if look.plan.writes:
            self._log_writes(look)
        self._failed(look)

    def emptied(self, cell: Cell, verdict: Verdict, last: NodeFacts, before: State | None) -> None:
        """The last live node has left the cell, tainted."""
        if before is not verdict.state:
            log.warning("zone state", zone=str(cell), state=verdict.state, reason=verdict.reason)
            self._emit(last, stories.stale(cell))

    def surveyed(self, group: str, live: Mapping[Cell, NodeFacts]) -> None:
        """A group after a look at one of its zones; `live` are its zones with live nodes, each with one of them."""
        known = {cell: self._cells.get(cell) for cell in live}
        if not leaves_none_open(None if status is None else status.state for status in known.values()):
            self._without_open_zone.discard(group)
        elif group not in self._without_open_zone:
            self._without_open_zone.add(group)
            if self._inherited.issuperset(live):
                return
            zones = sorted(cell.zone for cell in live)
            log.warning("no zone is open", group=group, zones=zones)
            signals = [signal for status in known.values() if status is not None for signal in status.signals]
            newest = max(signals, key=lambda signal: signal.since, default=None)
            about = next(iter(live.values())) if newest is None else newest.node
            self._emit(about, stories.none_open(group, zones))

    def outside(self, node: NodeFacts) -> None:
        """A signalled node has belonged to no zone of a node group for a while. Told once for each signal."""
        if node.uid not in self._outside:
            self._outside.add(node.uid)
            log.info("signal outside of any zone", node=node.name)
            self._emit(node, stories.outside(node, self._rules))

    def _inherit(self, look: Look) -> None:
        """Notes whether an earlier leader has told of the block that stands."""
        if look.before is None and look.inherited is State.BLOCKED:
            self._inherited.add(look.plan.cell)
        if not look.verdict.state.to_be_blocked:
            self._inherited.discard(look.plan.cell)

    def _leaking(self, look: Look) -> None:
        """Tells of a leak that lasts: one that is closed within moments concerns nobody."""
        cell = look.plan.cell
        if look.verdict.state is not State.PARTIAL:
            self._leaks.discard(cell)
        elif cell not in self._leaks and (look.outcome.complete or look.facts.incomplete_for >= _LASTING):
            self._leaks.add(cell)
            self._emit_about(look, stories.leaking(look.plan, look.verdict))

    def _failed(self, look: Look) -> None:
        """Tells of nodes that were not written, and of those that never will be unless somebody does something."""
        nodes = {node.name: node for node in look.facts.nodes}
        refused = {write.node.name: write for write in look.outcome.refused_for_good(look.plan)}
        for name, error in look.outcome.failed:
            log.warning("node not written", node=name, zone=str(look.plan.cell), answer=str(error))
            if name in nodes and name in refused and isinstance(error, ApiError):
                self._emit(nodes[name], stories.not_written(refused[name], error.message))

    def _emit_about(self, look: Look, story: Story) -> None:
        """An event about a zone goes to its oldest signal's node, without a signal to the first one."""
        self._emit(look.plan.signals[0].node if look.plan.signals else look.facts.live[0], story)

    def _changed(self, look: Look) -> None:
        cell, verdict, before = look.plan.cell, look.verdict, look.before
        told = before or look.inherited
        if told is None and verdict.state is State.OPEN:
            return
        log.info(
            "zone state",
            zone=str(cell),
            state=verdict.state,
            before=before,
            reason=verdict.reason,
            why=look.plan.reason,
        )
        story = stories.changed(look.plan, verdict, told, self._rules)
        if told is not verdict.state and story is not None:
            self._emit_about(look, story)

    def _log_writes(self, look: Look) -> None:
        written = look.plan.writes if look.dry_run else look.outcome.written
        log.info(
            "would write nodes" if look.dry_run else "nodes written",
            zone=str(look.plan.cell),
            taint=[write.node.name for write in written if write.prevent is Change.SET],
            untaint=[write.node.name for write in written if write.prevent is Change.REMOVE],
            evict=look.plan.evict.node.name if look.plan.evict else None,
            refused=look.outcome.refused,
            why=look.plan.reason,
        )

    # --- evictions -----------------------------------------------------------------------------------------------

    def answered(self, eviction: AnsweredEviction) -> None:
        """An eviction was answered."""
        cell, result, pod = eviction.cell, eviction.answer.result, eviction.pod
        self._evictions.labels(cell.group, cell.zone, result).inc()
        log.info("eviction", pod=pod.key, node=eviction.node.name, result=result, answer=eviction.answer.words)
        # A node whose signal has ended meanwhile is counted no more: its series may be gone for good.
        if result is Result.ACCEPTED and eviction.still_meant and eviction.node.uid not in self._counted:
            self._counted.add(eviction.node.uid)
            self._evicted.labels(eviction.node.name, cell.group, cell.zone).inc()
            self._emit(eviction.node, stories.evicting(eviction.node))
        story = stories.refused(eviction)
        if story is not None:
            self._tell(Regarding(PODS, pod.name, pod.uid, pod.namespace), story)

    def held(self, node: NodeFacts, pod: PodFacts, why: str) -> None:
        """A pod is left on its node because of a volume."""
        log.info("pod is held", pod=pod.key, node=node.name, why=why)
        self._tell(Regarding(PODS, pod.name, pod.uid, pod.namespace), stories.held(node, pod, why))

    def signal_ended(self, node: NodeFacts, *, gone: bool) -> None:
        """The node's signal, or the node, has gone: its next signal counts anew, and a dead node has no series."""
        self._counted.discard(node.uid)
        self._outside.discard(node.uid)
        if gone and node.cell is not None:
            self._evicted.remove(node.name, node.cell.group, node.cell.zone)

    def _emit(self, node: NodeFacts, story: Story) -> None:
        self._tell(Regarding(NODES, node.name, node.uid), story)

    def _tell(self, regarding: Regarding, story: Story) -> None:
        if self._recorder is not None:
            self._recorder.emit(story.about(regarding))


class _CellFigures(Collector):
    """Gauges of all cells, made when somebody asks, so that ages are right and gone cells leave nothing behind."""

    def __init__(self, cells: Mapping[Cell, CellStatus], clock: Clock) -> None:
        self._cells = cells
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        labels = ["node_group", "node_zone"]
        prevent = GaugeMetricFamily(
            "noderebalance_prevent_ca_scale_up",
            "1 while every live node of a zone that is to be blocked carries the prevent taint.",
            labels=labels,
        )
        state = GaugeMetricFamily(
            "noderebalance_block_state", "1 for the state that the zone is in.", labels=[*labels, "state"]
        )
        nodes = GaugeMetricFamily("noderebalance_signal_nodes", "Live nodes with a rebalance signal.", labels=labels)
        age = GaugeMetricFamily(
            "noderebalance_signal_age_seconds", "Age of the zone's oldest signal, 0 without any.", labels=labels
        )
        now = self._clock.now()
        for cell, status in self._cells.items():
            names = [cell.group, cell.zone]
            prevent.add_metric(names, float(status.state.fully_tainted))
            for each in State:
                state.add_metric([*names, each], float(status.state is each))
            nodes.add_metric(names, len(status.signals))
            age.add_metric(names, max((signal.age(now) for signal in status.signals), default=0.0))
        return (prevent, state, nodes, age)
