"""Which events lead to which look, and what a look is.

A key is a cell, or a signalled node: both look at the whole cell and mend its taints, a node's look also decides about
the eviction of that node's pods. Events of a signalled node bring its own key, all others that of their cell.
"""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from weakref import WeakValueDictionary

from ebbtide.clock import Clock
from ebbtide.config.rebalance import NodeRebalance
from ebbtide.kube.errors import Conflict
from ebbtide.kube.store import Store
from ebbtide.model import Cell, NodeFacts
from reconciler.engine.beside import running
from reconciler.engine.controller import Again, Controller
from reconciler.engine.informer import connect
from reconciler.rebalance.act import Act, Outcome
from reconciler.rebalance.decide import decide
from reconciler.rebalance.drain import Drain
from reconciler.rebalance.memory import CellMemory, Memory
from reconciler.rebalance.plan import Change, Plan, Wish, soonest
from reconciler.rebalance.report import Look, Report
from reconciler.rebalance.snapshot import Cells, Snapshot
from reconciler.rebalance.status import CellStatus, Statuses
from reconciler.rebalance.verdict import Verdict, judge, judge_empty

# Looks mostly wait for the API server; more of them let many cells be written at the same time.
WORKERS = 32
# What rounding leaves of a wait would ring before the clock has moved, and find nothing to do again and again.
SHORTEST_WAIT = 0.001
# Seconds. Cloud controllers label a node within moments of its registration; people take longer, and are to be told.
LABELS_WITHIN = 60.0


@dataclass(frozen=True, slots=True)
class CellKey:
    """Look at a cell."""

    cell: Cell

    def __str__(self) -> str:
        return f"zone {self.cell}"


@dataclass(frozen=True, slots=True)
class NodeKey:
    """Look at a signalled node, and its cell."""

    node: str

    def __str__(self) -> str:
        return f"node {self.node}"


Key = CellKey | NodeKey


@dataclass(frozen=True, slots=True)
class Hands:
    """What acts on the cluster; the drain has to run while the controller does."""

    act: Act
    drain: Drain


class Rebalance:
    """Zone rebalance. `hands` is None in a dry run: everything is decided and reported, nothing is done."""

    def __init__(
        self,
        nodes: Store[NodeFacts],
        rules: NodeRebalance,
        clock: Clock,
        statuses: Statuses,
        report: Report,
        hands: Hands | None,
    ) -> None:
        self.name = "rebalance"
        self._nodes = nodes
        self._rules = rules
        self._clock = clock
        self._statuses = statuses
        self._report = report
        self._hands = hands
        self._cells = Cells.following(nodes)
        self._memory = Memory()
        # By UID of a signalled node without group or zone: since when.
        self._outside: dict[str, float] = {}
        # A lock is there as long as somebody holds it or waits for it: cells come and go.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.controller: Controller[Key] = Controller(
            "rebalance",
            self.reconcile,
            workers=WORKERS,
            everything=self._everything,
            resync_period=rules.resync_period,
            measure=report.measure,
        )
        report.depth_of(lambda: self.controller.queue.depth)
        nodes.subscribe(self._end_signal)
        connect(nodes, self._keys, self.controller.queue)

    async def run(self) -> None:
        """Looks and acts until drained or cancelled.

        Each run starts with an empty memory, since others may have led in between.
        """
        self._memory = Memory()
        self._outside.clear()
        self._statuses.clear()
        self._report.clear()
        await self._nodes.wait_synced()
        if self._hands is None:
            await self.controller.run()
            return
        async with running((self._hands.drain,)):
            await self.controller.run()
            await self._hands.drain.finish()

    @property
    def statuses(self) -> Mapping[Cell, CellStatus]:
        """Every cell as it was last looked at."""
        return self._statuses

    def drain(self) -> None:
        """Begins no further look and no further eviction, finishes what is under way."""
        self.controller.drain()

    def longest(self) -> float:
        """Seconds for which the oldest look under way has been running."""
        return self.controller.longest()

    async def reconcile(self, key: Key) -> Again | None:
        """Looks at a cell, or at a signalled node and its cell. Raises what its writes raised."""
        if isinstance(key, CellKey):
            async with self._serialised(key.cell):
                return await self._look(key, key.cell, None)
        node = self._nodes.get(key.node)
        if node is None or node.cell is None:
            self._leave(key.node)
            return None if node is None else self._look_outside(node)
        self._outside.pop(node.uid, None)
        async with self._serialised(node.cell):
            return await self._look(key, node.cell, node.name)

    def _look_outside(self, node: NodeFacts) -> Again | None:
        """A node may get its labels late; a signalled one that does not get them is told of."""
        if not self._is_signalled((node,)):
            return None
        now = self._clock.monotonic()
        left = self._outside.setdefault(node.uid, now) + LABELS_WITHIN - now
        if left > 0:
            return Again(max(left, SHORTEST_WAIT))
        self._report.outside(node)
        return None

    def _serialised(self, cell: Cell) -> AbstractAsyncContextManager[None]:
        """One look at a cell at a time; with `min-open-zones`, one look at a group."""
        name = cell.group if self._rules.min_open_zones else str(cell)
        return self._locks.setdefault(name, asyncio.Lock())

    async def _look(self, key: Key, cell: Cell, node_name: str | None) -> Again | None:
        now, monotonic = self._clock.now(), self._clock.monotonic()
        memory = self._memory.of(cell)
        snapshot = Snapshot(self._cells, self._memory, self._rules)
        if not snapshot.cell(cell, monotonic).live:
            self._look_at_empty(cell, memory)
            return None
        nodes = self._cells.nodes(cell)
        memory.look(nodes, self._is_signalled(nodes), self._rules, monotonic)
        plan = decide(snapshot.group_of(cell, monotonic), cell, node_name, self._rules, now)
        wish_before = memory.wish
        self._stop_evictions(plan, node_name)
        outcome = Outcome() if self._hands is None else await self._hands.act.write(plan)
        if not snapshot.cell(cell, monotonic).live:
            # The last node went while it was written; its event has brought the cell back into the queue.
            return None
        verdict = self._judged(plan, outcome, memory, snapshot)
        if memory.wish is not wish_before:
            self._look_at_signalled(plan, but=node_name)
        self._evict(plan, complete=memory.incomplete_since is None)
        return self._when_again(key, plan, outcome, verdict)

    def _judged(self, plan: Plan, outcome: Outcome, memory: CellMemory, snapshot: Snapshot) -> Verdict:
        """What the cell is after the writes, remembered and reported."""
        monotonic = self._clock.monotonic()
        sets = [write.node for write in outcome.written if write.prevent is Change.SET]
        fights = [(node, fight) for node in sets if (fight := memory.restored(node.uid)) is not None]
        complete = outcome.complete and not memory.restrained(self._cells.nodes(plan.cell), monotonic)
        memory.refused(outcome.refused_for_good(plan), monotonic)
        memory.acted(plan, self._cells.nodes(plan.cell), complete, self._rules, monotonic)
        facts = snapshot.cell(plan.cell, monotonic)
        verdict = judge(facts, plan, memory.streak(monotonic), self._rules, self._clock.now())
        memory.judged(verdict, monotonic)
        before = self._statuses.note(plan.cell, verdict, plan.signals)
        dry_run, inherited = self._hands is None, memory.inherited
        self._report.looked(Look(plan, outcome, verdict, before, inherited, facts, tuple(fights), dry_run))
        self._report.surveyed(plan.cell.group, self._cells.live(plan.cell.group))
        return verdict

    def _look_at_empty(self, cell: Cell, memory: CellMemory) -> None:
        """The cell has no live node: forget it, unless its last one took our taint into the autoscaler's cache."""
        memory.emptied(self._cells.nodes(cell), self._rules, self._clock.monotonic())
        verdict = judge_empty(memory.left_tainted)
        if verdict is None or memory.last_node is None:
            self._memory.forget(cell)
            self._statuses.forget(cell)
        else:
            before = self._statuses.note(cell, verdict, ())
            self._report.emptied(cell, verdict, memory.last_node, before)
        self._report.surveyed(cell.group, self._cells.live(cell.group))

    def _evict(self, plan: Plan, *, complete: bool) -> None:
        if plan.evict is None or self._hands is None or not (complete or plan.evict.at_once):
            return
        node = self._nodes.get(plan.evict.node.name)
        # During the writes the node may have gone, or its signal.
        if node is not None and node.uid == plan.evict.node.uid and self._is_signalled((node,)):
            self._hands.drain.empty(plan.evict, plan.cell)

    def _stop_evictions(self, plan: Plan, node_name: str | None) -> None:
        """Before the writes, which may take long: pods that are to stay must not go meanwhile."""
        if node_name is not None and plan.evict is None:
            self._leave(node_name)
        if plan.wish is not Wish.BLOCK:
            for signal in plan.signals:
                self._leave(signal.node.name)

    def _leave(self, node: str) -> None:
        if self._hands is not None:
            self._hands.drain.leave(node)

    def _when_again(self, key: Key, plan: Plan, outcome: Outcome, verdict: Verdict) -> Again | None:
        """When to look again by itself; a failure is raised, so that the queue's back-off decides, but not later."""
        soon = soonest((plan.look_again_in, verdict.look_again_in))
        after = None if soon is None else max(soon, SHORTEST_WAIT)
        if outcome.complete:
            return None if after is None else Again(after)
        if after is not None:
            self.controller.queue.add_after(key, after)
        if outcome.failed:
            raise ExceptionGroup("some nodes were not written", [error for _, error in outcome.failed])
        raise Conflict(
            f"write nodes of {plan.cell}", 409, "Conflict", f"{', '.join(outcome.refused)} changed meanwhile"
        )

    def _look_at_signalled(self, plan: Plan, but: str | None) -> None:
        """What the cell is to be has changed, so each of its signalled nodes is looked at for itself."""
        for signal in plan.signals:
            if signal.node.name != but:
                self.controller.queue.add(NodeKey(signal.node.name))

    def _everything(self) -> Iterable[Key]:
        keys: dict[Key, None] = {}
        for node in self._nodes.values():
            keys.update(dict.fromkeys(self._keys(None, node)))
        keys.update(dict.fromkeys(CellKey(cell) for cell in self._cells))
        return tuple(keys)

    def _keys(self, old: NodeFacts | None, new: NodeFacts | None) -> Iterable[Key]:
        """The keys that a node's appearing, changing or going concerns."""
        cells = {facts.cell for facts in (old, new) if facts is not None and facts.cell is not None}
        if self._rules.min_open_zones:
            cells.update(other for cell in tuple(cells) for other in self._cells.of_group(cell.group))
        nodes = {facts.name for facts in (old, new) if facts is not None and self._is_signalled((facts,))}
        if new is not None and self._is_signalled((new,)):
            cells -= {new.cell}
        return [*map(NodeKey, sorted(nodes)), *map(CellKey, sorted(cells))]

    def _end_signal(self, old: NodeFacts | None, new: NodeFacts | None) -> None:
        """At once, not at the next look: the pods of a node that takes its name over are in the same watch."""
        if old is not None and (new is None or new.uid != old.uid or not self._is_signalled((new,))):
            self._leave(old.name)
            self._outside.pop(old.uid, None)
            self._report.signal_ended(old, gone=new is None)

    def _is_signalled(self, nodes: Iterable[NodeFacts]) -> bool:
        key = self._rules.rebalance_signal_taint_key
        return any(node.taint(key) is not None and not node.deleting for node in nodes)
