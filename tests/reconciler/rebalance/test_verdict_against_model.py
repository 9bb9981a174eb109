"""The verdict against the embedded cluster's autoscaler: does it refuse the zone exactly where the verdict says so?

One zone that is to be blocked lives through a random history: nodes join (young, or late with their labels), get
cordoned, not Ready, marked for deletion, lose our taint to somebody else, go; writes of ours fail; time passes. Beside
it runs the autoscaler's memory: a scan every ten seconds, in any order of the nodes, and sometimes a restart. At every
scan the two are compared.

`blocked` means that the autoscaler refuses the zone, whichever node it meets first and whatever it remembers; that is
an equivalence: with every live node tainted, it would refuse with an empty memory too exactly when the state is
`blocked`. (But for a tainted node on its way out that is the only template: the autoscaler still copies it, while the
verdict does not count on it.)

`cached` means that it refuses because of what it remembers; so it does, unless it was restarted meanwhile, which no
reconciler can know (at its next scan of a `blocked` zone it remembers again). The converse does not hold on purpose: a
memory that this process has not watched being made (a block shorter than two scans, or before its own start) is not
counted on, so `ineffective` may be wrong in the safe direction. Without that memory it is right: a restarted autoscaler
fits a pod there.

`stale-template` says that the last live nodes left tainted, and that the autoscaler may therefore refuse the zone for
ever. Where it has seen them as they were when they left (they were there, marked alike, at its last scan, and one of
them could be copied) that is an equivalence. Where it has not, either may be wrong: it may have seen no tainted node at
all, because all were cordoned, and a clean one that came last may have gone before it was copied.

The reconciler is restarted as well: it forgets what it has watched, and counts on less from then on, never on more.

`partial` says that the autoscaler may grow the zone within moments, not that it does now: the clean node may be too
young, cordoned, or not the one that it meets first. But while no clean node exists, it is not `partial`.

Not in the histories: conditions and taints of sick nodes beside Ready, and taints that the autoscaler leaves out of its
templates; the verdict reads neither, `ebbtide preflight` looks for the latter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide import vocabulary
from ebbtide.model import Cell, CellLabels, NodeFacts, format_time, node_facts
from ebbtide.sim import objects
from ebbtide.sim.actors.rooms import view
from ebbtide.sim.actors.templates import NodeGroup, Template, refuses, template_for
from reconciler.rebalance.decide import decide
from reconciler.rebalance.memory import CellMemory
from reconciler.rebalance.plan import CellFacts, Change, GroupFacts, Plan
from reconciler.rebalance.verdict import State, Verdict, is_template, judge, judge_empty
from tests.reconciler.rebalance.builders import DEFAULTS, NOW

CELL = Cell("g", "a")
GROUP = NodeGroup("g-a", {vocabulary.NODE_GROUP_LABEL: "g", vocabulary.ZONE_LABEL: "a"})
# It tolerates the signal, which every node here has: only our own taint is to keep it out.
POD = objects.changed(
    objects.pod("waiting"),
    {"spec": objects.pod_spec(tolerations=[{"key": vocabulary.SIGNAL_TAINT_KEY, "operator": "Exists"}])},
)
SCAN = 10
# Scans lie between the whole seconds at which things happen, timers of the verdict just behind them.
SCANS_AT = 0.5
Raw = dict[str, Any]

SIGNAL = objects.taint(vocabulary.SIGNAL_TAINT_KEY, "1600000000")


@dataclass
class Zone:
    """The zone, the leader's memory of it, and the autoscaler's. `seconds` since the beginning."""

    rng: Random
    seconds: float = 0.0
    nodes: dict[str, Raw] = field(default_factory=dict)
    memory: CellMemory = field(default_factory=CellMemory)
    cache: dict[str, Template] = field(default_factory=dict)
    restarted: bool = False
    # By name, whether a node was tainted: when the autoscaler copied one of them last, and as the last look left them.
    scanned: Mapping[str, bool] = field(default_factory=dict)
    left: Mapping[str, bool] = field(default_factory=dict)
    writes_fail: bool = False
    verdict: Verdict | None = None
    due: float | None = None
    joined: int = 0
    seen: set[State] = field(default_factory=set)

    @property
    def now(self) -> float:
        return NOW + self.seconds

    @property
    def facts(self) -> tuple[NodeFacts, ...]:
        return tuple(node_facts(raw, CellLabels()) for _, raw in sorted(self.nodes.items()))

    @property
    def live(self) -> list[NodeFacts]:
        return [node for node in self.facts if not node.deleting]

    # --- what happens -------------------------------------------------------------------------------------------

    def join(self, ready_for: int) -> None:
        self.joined += 1
        name = f"a{self.joined}"
        raw = objects.changed(
            objects.node(name, group="g", zone="a", taints=[SIGNAL]),
            {
                "metadata": {"uid": f"uid-{name}", "resourceVersion": "1", "creationTimestamp": "2025-01-01T00:00:00Z"},
                "status": {"conditions": [objects.ready_condition(ready=True, since=self._ago(ready_for))]},
            },
        )
        self.nodes[name] = raw

    def change(self, which: int, patch: Mapping[str, Any]) -> None:
        if self.nodes:
            name = sorted(self.nodes)[which % len(self.nodes)]
            self.nodes[name] = objects.changed(self.nodes[name], patch)

    def cordon(self, which: int, cordoned: bool) -> None:
        self.change(which, {"spec": {"unschedulable": cordoned}})

    def turn(self, which: int, ready: bool) -> None:
        since = self._ago(0)
        self.change(which, {"status": {"conditions": [objects.ready_condition(ready=ready, since=since)]}})

    def lose_taint(self, which: int) -> None:
        self.change(which, {"spec": {"taints": [SIGNAL]}})

    def delete(self, which: int) -> None:
        self.change(which, {"metadata": {"deletionTimestamp": self._ago(0)}})

    def vanish(self, which: int) -> None:
        if self.nodes:
            del self.nodes[sorted(self.nodes)[which % len(self.nodes)]]

    def restart(self) -> None:
        """The autoscaler is restarted."""
        self.cache.clear()
        self.restarted = True
        self.scanned = {}

    def forget(self) -> None:
        """The reconciler is restarted."""
        self.memory, self.left = CellMemory(), {}

    def _ago(self, seconds: float) -> str:
        return format_time(NOW + self.seconds // 1 - seconds)

    # --- the leader ---------------------------------------------------------------------------------------------

    def look(self) -> None:
        """One look of the controller: remember, decide, write, judge."""
        self.due = None
        if not self.live:
            self.memory.emptied(self.facts, DEFAULTS, self.now)
            self.verdict = judge_empty(self.memory.left_tainted)
            if self.verdict is None:
                self.memory = CellMemory()
            else:
                self.seen.add(self.verdict.state)
            return
        self.memory.look(self.facts, True, DEFAULTS, self.now)
        plan = decide(GroupFacts("g", {"a": self._cell()}), CELL, None, DEFAULTS, self.now)
        complete = self._write(plan)
        self.memory.acted(plan, self.facts, complete, DEFAULTS, self.now)
        self.left = {node.name: _prevented(node) for node in self.live}
        self.verdict = judge(self._cell(), plan, self.memory.streak(self.now), DEFAULTS, self.now)
        self.memory.judged(self.verdict, self.now)
        if self.verdict.look_again_in is not None:
            self.due = self.seconds + self.verdict.look_again_in
        self.seen.add(self.verdict.state)

    def _cell(self) -> CellFacts:
        return CellFacts(CELL, self.facts)

    def _write(self, plan: Plan) -> bool:
        wanted = [write.node.name for write in plan.writes if write.prevent is Change.SET]
        for name in wanted if not self.writes_fail else wanted[1:]:
            taint = objects.taint(vocabulary.PREVENT_TAINT_KEY, str(int(self.now)))
            taints = [*self.nodes[name]["spec"]["taints"], taint]
            self.nodes[name] = objects.changed(self.nodes[name], {"spec": {"taints": taints}})
        return not (wanted and self.writes_fail)

    # --- the autoscaler -----------------------------------------------------------------------------------------

    def scan(self) -> None:
        """One round of the autoscaler, compared with the verdict, and then its memory is renewed."""
        self.compare()
        nodes = list(self.nodes.values())
        self.rng.shuffle(nodes)
        template = template_for(GROUP, nodes, self.cache, self.now)
        if template.live:
            self.cache[GROUP.name] = template
            self.restarted = False
            self.scanned = {node.name: _prevented(node) for node in self.facts}

    def refuses(self, cache: Mapping[str, Template]) -> bool:
        """Whether it refuses the zone, whichever node comes first: only the first one that it may copy counts."""
        raws = list(self.nodes.values())
        orders = [[raw, *(other for other in raws if other is not raw)] for raw in raws] or [[]]
        return all(_refuses(order, cache, self.now) for order in orders)

    def compare(self) -> None:
        if not self.nodes:
            self._compare_empty()
        if self.verdict is None or not self.live:
            return
        state, clean = self.verdict.state, [node.name for node in self.facts if not _prevented(node)]
        leaves = any(node.deleting and is_template(node, DEFAULTS, self.now) for node in self.facts)
        fresh = self.refuses({})
        if state is State.BLOCKED:
            assert self.refuses(self.cache), self
        if state is State.CACHED and not self.restarted:
            assert self.refuses(self.cache), self
        if state is State.PARTIAL:
            assert clean, self
        else:
            assert fresh == (state is State.BLOCKED) or (leaves and fresh), self

    def _compare_empty(self) -> None:
        stale = self.verdict is not None and self.verdict.state is State.STALE_TEMPLATE
        assert stale == any(self.left.values()), self
        saw_them_leave = self.left and self.left.items() <= self.scanned.items()
        if saw_them_leave and len(set(self.scanned.values())) == 1:
            assert stale == self.refuses(self.cache), self


def _refuses(order: Sequence[Raw], cache: Mapping[str, Template], now: float) -> bool:
    template = template_for(GROUP, order, cache, now)
    return bool(refuses(template, POD, view(list(order), [])))


def _prevented(node: NodeFacts) -> bool:
    return node.taint(vocabulary.PREVENT_TAINT_KEY, vocabulary.PREVENT_TAINT_EFFECT) is not None


WHICH = st.integers(0, 4)
STEPS = st.one_of(
    st.tuples(st.just("pass"), st.integers(1, 90)),
    st.tuples(st.just("join"), st.sampled_from([0, 30, 59, 60, 61, 3600])),
    st.tuples(st.just("cordon"), WHICH, st.booleans()),
    st.tuples(st.just("turn"), WHICH, st.booleans()),
    st.tuples(st.just("lose_taint"), WHICH),
    st.tuples(st.just("delete"), WHICH),
    st.tuples(st.just("vanish"), WHICH),
    st.tuples(st.just("restart")),
    st.tuples(st.just("forget")),
    st.tuples(st.just("fail"), st.booleans()),
)


def live_through(steps: Sequence[tuple[Any, ...]], seed: int = 0) -> Zone:
    """Plays the steps; the leader looks at once after each, and when its verdict may change by itself."""
    zone = Zone(Random(seed))
    zone.join(3600)
    zone.join(3600)
    zone.look()
    for name, *arguments in steps:
        if name == "pass":
            _pass(zone, arguments[0])
        elif name == "fail":
            zone.writes_fail = arguments[0]
        else:
            getattr(zone, name)(*arguments)
        zone.look()
        zone.compare()
    return zone


def _pass(zone: Zone, seconds: int) -> None:
    """Lets time pass: scans, and the leader's timers in their order."""
    end = zone.seconds + seconds
    while True:
        scan = (zone.seconds - SCANS_AT) // SCAN * SCAN + SCAN + SCANS_AT
        looks = zone.due is not None and zone.due < scan
        at = zone.due if zone.due is not None and looks else scan
        if at > end:
            zone.seconds = end
            return
        zone.seconds = at
        if looks:
            zone.look()
        else:
            zone.scan()


@settings(max_examples=400)
@given(st.lists(STEPS, max_size=40), st.integers(0, 1 << 16))
def test_the_verdict_and_the_model_of_the_autoscaler_agree(steps: list[tuple[Any, ...]], seed: int) -> None:
    """See above for what exactly agrees."""
    live_through(steps, seed)


def test_the_histories_reach_every_state() -> None:
    """Otherwise the agreement would be about nothing."""
    cached = [("pass", 30), ("cordon", 0, True), ("cordon", 1, True)]
    ineffective = [("cordon", 0, True), ("cordon", 1, True), ("pass", 30)]
    partial = [("fail", True), ("join", 3600), ("pass", 10)]
    seen = [live_through(steps).seen for steps in (cached, ineffective, partial)]
    assert set().union(*seen) >= {State.BLOCKED, State.CACHED, State.INEFFECTIVE, State.PARTIAL}


def test_a_restarted_autoscaler_grows_a_zone_that_was_cached() -> None:
    """What the comparison leaves out, and why `cached` is told apart from `blocked`."""
    zone = live_through([("pass", 30), ("cordon", 0, True), ("cordon", 1, True), ("pass", 10)])
    assert zone.verdict is not None
    assert zone.verdict.state is State.CACHED
    assert zone.refuses(zone.cache)
    zone.restart()
    zone.look()
    assert zone.verdict.state is State.CACHED
    assert not zone.refuses(zone.cache)


def test_what_was_watched_before_a_zone_was_empty_says_nothing_of_its_next_nodes() -> None:
    """The block held for a moment, no scan saw it, and the minutes without a node are not minutes of a block."""
    zone = live_through([("vanish", 0), ("vanish", 0), ("pass", 90), ("join", 0), ("cordon", 0, True)])
    assert zone.verdict is not None
    assert zone.verdict.state is State.INEFFECTIVE
    zone = live_through([("pass", 30), ("vanish", 0), ("vanish", 0), ("pass", 90), ("join", 0), ("cordon", 0, True)])
    assert zone.verdict is not None
    assert zone.verdict.state is State.CACHED


def test_an_emptied_zone_is_refused_where_it_is_told_so() -> None:
    """Both ways round, and what a restart of either side makes of it."""
    emptied = [("vanish", 0), ("vanish", 0)]
    assert _stale_and_refused([("pass", 30), *emptied]) == (True, True)
    assert _stale_and_refused([("pass", 30), *emptied, ("forget",)]) == (False, True)
    assert _stale_and_refused([("pass", 30), *emptied, ("restart",)]) == (True, False)
    assert _stale_and_refused([("cordon", 0, True), ("cordon", 1, True), ("pass", 30), *emptied]) == (True, False)
    clean = [("fail", True), ("lose_taint", 0), ("vanish", 1), ("pass", 30), ("vanish", 0)]
    assert _stale_and_refused(clean) == (False, False)


def _stale_and_refused(steps: Sequence[tuple[Any, ...]]) -> tuple[bool, bool]:
    zone = live_through(steps)
    assert not zone.nodes
    return zone.verdict is not None, zone.refuses(zone.cache)


def test_only_the_first_copied_node_counts() -> None:
    """So asking with each node first asks for every order there is."""
    zone = live_through([("join", 3600), ("cordon", 0, True), ("fail", True), ("join", 3600)])
    raws = list(zone.nodes.values())
    every = all(_refuses(order, {}, zone.now) for order in permutations(raws))
    assert zone.refuses({}) is every
