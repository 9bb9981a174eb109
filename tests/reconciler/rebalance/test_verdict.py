"""Does the block hold: exactly one state for every cell, and a timer where time alone changes it."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.config.rebalance import NodeRebalance
from ebbtide.model import NodeFacts
from reconciler.rebalance.plan import CellFacts, Wish
from reconciler.rebalance.verdict import State, Streak, is_template, judge, judge_empty, leaves_none_open
from tests.reconciler.rebalance.builders import DEFAULTS, NOW, applied, cell, node, plan, plan_of, prevent_taint, rules

NEVER = Streak()
JUST_AFTER = 0.001


@dataclass(frozen=True)
class Case:
    """The nodes of a cell that is to be blocked, for how long it has been, and what that is worth."""

    name: str
    nodes: tuple[NodeFacts, ...]
    state: State
    streak: Streak = NEVER
    again: float | None = None
    remembered: bool = False
    wish: Wish = Wish.BLOCK
    settings: dict[str, Any] = field(default_factory=dict)


def _tainted(name: str, **special: Any) -> NodeFacts:
    return node(name, prevent=True, **special)


CORDONED = (_tainted("a1", signal=10, cordoned=True), _tainted("a2", signal=10, cordoned=True))

CASES = [
    Case("NR-31 all cordoned before they were tainted", CORDONED, State.INEFFECTIVE),
    Case("NR-31 cordoned after 30 s blocked", CORDONED, State.CACHED, Streak(30), remembered=True),
    Case("NR-31 cordoned after 15 s blocked", CORDONED, State.INEFFECTIVE, Streak(15)),
    Case("exactly two scan intervals", CORDONED, State.CACHED, Streak(20), remembered=True),
    Case("a moment less than two scan intervals", CORDONED, State.INEFFECTIVE, Streak(19.999)),
    Case("still cached later on", CORDONED, State.CACHED, Streak(None, True), remembered=True),
    Case(
        "a longer scan interval",
        CORDONED,
        State.INEFFECTIVE,
        Streak(59),
        settings={"cluster_autoscaler_scan_interval": 30},
    ),
    Case(
        "a shorter scan interval",
        CORDONED,
        State.CACHED,
        Streak(2),
        remembered=True,
        settings={"cluster_autoscaler_scan_interval": 1},
    ),
    Case("NR-31 a third node, Ready for 61 s", (*CORDONED, _tainted("a3", ready_for=61)), State.BLOCKED),
    Case("NR-31 a third node, Ready for 30 s", (*CORDONED, _tainted("a3", ready_for=30)), State.INEFFECTIVE, again=30),
    Case("a third node, Ready for exactly 60 s", (*CORDONED, _tainted("a3", ready_for=60)), State.INEFFECTIVE, again=0),
    Case("a third node, Ready for a moment more", (*CORDONED, _tainted("a3", ready_for=60.001)), State.BLOCKED),
    Case(
        "the earliest of several that settle",
        (*CORDONED, _tainted("a3", ready_for=10), _tainted("a4", ready_for=40), _tainted("a5", ready_for=0)),
        State.INEFFECTIVE,
        again=20,
    ),
    Case(
        "a cordoned one that settles is none",
        (_tainted("a1", ready_for=30, cordoned=True), _tainted("a2", ready_for=10)),
        State.INEFFECTIVE,
        again=50,
    ),
    Case(
        "NR-31 one cordoned, one not Ready",
        (_tainted("a1", signal=10, cordoned=True), _tainted("a2", signal=10, ready_for=None)),
        State.INEFFECTIVE,
    ),
    Case(
        "NR-31 one lacks the taint",
        (_tainted("a1", signal=10), _tainted("a2", signal=10), node("a3")),
        State.PARTIAL,
    ),
    Case("all lack it", (node("a1", signal=10), node("a2", signal=10)), State.PARTIAL),
    Case("a cordoned one lacks it", (_tainted("a1"), node("a2", cordoned=True)), State.PARTIAL),
    Case("one that is not Ready lacks it", (_tainted("a1"), node("a2", ready_for=None)), State.PARTIAL),
    Case("NR-28 one of fifty lacks it", (*(_tainted(f"a{n}") for n in range(49)), node("a49")), State.PARTIAL),
    Case(
        "our key with another effect is not it",
        (_tainted("a1"), node("a2", taints=[prevent_taint("true", "NoExecute")])),
        State.PARTIAL,
    ),
    Case("partial breaks the streak", (*CORDONED, node("a3")), State.PARTIAL, Streak(500, True)),
    Case("every node tainted and seen", (_tainted("a1", signal=10), _tainted("a2", signal=10)), State.BLOCKED),
    Case("the only node of its cell", (_tainted("a1"),), State.BLOCKED),
    Case("blocked for long, remembered", (_tainted("a1"),), State.BLOCKED, Streak(25), remembered=True),
    Case("blocked for a short while, not yet", (_tainted("a1"),), State.BLOCKED, Streak(5)),
    Case("remembered from before", (_tainted("a1"),), State.BLOCKED, Streak(0, True), remembered=True),
    Case(
        "cached until a node settles",
        (*CORDONED, _tainted("a3", ready_for=45)),
        State.CACHED,
        Streak(None, True),
        again=15,
        remembered=True,
    ),
    Case("NR-37 within hold-down like any block", (_tainted("a1"), _tainted("a2")), State.BLOCKED, wish=Wish.KEEP),
    Case("kept, and not complete", (_tainted("a1"), node("a2")), State.PARTIAL, wish=Wish.KEEP),
    Case("kept, and all cordoned", CORDONED, State.INEFFECTIVE, wish=Wish.KEEP),
    Case(
        "no stabilization: Ready is enough, but it has to have passed",
        (_tainted("a1", ready_for=0.5),),
        State.BLOCKED,
        settings={"cluster_autoscaler_stabilization": 0},
    ),
    Case(
        "a longer stabilization",
        (_tainted("a1", ready_for=100),),
        State.INEFFECTIVE,
        again=20,
        settings={"cluster_autoscaler_stabilization": 120},
    ),
    Case(
        "Ready since the future, where clocks differ",
        (_tainted("a1", ready_for=-5),),
        State.INEFFECTIVE,
        again=65,
    ),
    Case(
        "a clean node that is being deleted is still the template",
        (_tainted("a1"), node("a2", deleting=True)),
        State.PARTIAL,
    ),
    Case("a tainted one is none", (_tainted("a1"), _tainted("a2", deleting=True)), State.BLOCKED),
    Case("a cordoned one is none", (_tainted("a1"), node("a2", deleting=True, cordoned=True)), State.BLOCKED),
    Case("one that is not Ready is none", (_tainted("a1"), node("a2", deleting=True, ready_for=None)), State.BLOCKED),
    Case(
        "one that has just become Ready becomes one",
        (_tainted("a1"), node("a2", deleting=True, ready_for=25)),
        State.BLOCKED,
        again=35,
    ),
    Case(
        "also while nothing else is one",
        (*CORDONED, _tainted("a3", ready_for=10), node("a4", deleting=True, ready_for=25)),
        State.INEFFECTIVE,
        again=35,
    ),
    Case(
        "a tainted template that is being deleted does not hold the block",
        (_tainted("a1", cordoned=True), _tainted("a2", deleting=True)),
        State.INEFFECTIVE,
    ),
    Case("NR-33 one fresh signal", (node("a1", signal=20), node("a2")), State.WAITING, wish=Wish.WAIT),
    Case("waiting forgets a streak", (node("a1", signal=20),), State.WAITING, Streak(90, True), wish=Wish.WAIT),
    Case("nothing to block", (node("a1"), node("a2")), State.OPEN, wish=Wish.OPEN),
    Case("to be opened, not all untainted yet", (node("a1"), _tainted("a2")), State.OPEN, wish=Wish.OPEN),
    Case("open forgets a streak", (node("a1"),), State.OPEN, Streak(90, True), wish=Wish.OPEN),
    Case("NR-32 a new clean node ends a stale template", (node("a1", ready_for=None),), State.OPEN, wish=Wish.OPEN),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_cell_is_in_the_state_of_its_row(case: Case) -> None:
    """State, what is remembered of it, and when time alone may change it."""
    verdict = judge(cell(*case.nodes), plan(case.wish), case.streak, rules(**case.settings), NOW)
    assert verdict.state is case.state
    assert verdict.remembered is case.remembered
    assert verdict.look_again_in == (None if case.again is None else pytest.approx(case.again + JUST_AFTER, abs=1e-5))
    assert verdict.reason


def test_a_block_settles_by_its_own_nodes_and_not_by_one_that_is_being_deleted() -> None:
    """That one makes the cell leak: there is a time to look again, and nothing that passes by itself."""
    leaving = node("a4", deleting=True, ready_for=25)
    cordoned, young = (*CORDONED, leaving), (*CORDONED, leaving, _tainted("a3", ready_for=10))
    settling = [
        judge(cell(*nodes), plan(Wish.BLOCK), Streak(), DEFAULTS, NOW).settles_in for nodes in (cordoned, young)
    ]
    assert settling == [None, pytest.approx(50 + JUST_AFTER, abs=1e-5)]


@pytest.mark.parametrize("case", [c for c in CASES if c.again is not None], ids=lambda case: case.name)
def test_the_timer_meets_the_change(case: Case) -> None:
    """NR-31: at the look that was asked for the state has changed, without any event."""
    facts, settings = cell(*case.nodes), rules(**case.settings)
    verdict = judge(facts, plan(case.wish), case.streak, settings, NOW)
    assert verdict.look_again_in is not None
    later = judge(facts, plan(case.wish), case.streak, settings, NOW + verdict.look_again_in)
    assert later.state is not verdict.state


@pytest.mark.parametrize(
    ("state", "fully_tainted"),
    [
        (State.OPEN, False),
        (State.WAITING, False),
        (State.BLOCKED, True),
        (State.CACHED, True),
        (State.PARTIAL, False),
        (State.INEFFECTIVE, True),
        (State.STALE_TEMPLATE, False),
    ],
)
def test_the_gauge_says_whether_every_node_carries_the_taint(state: State, fully_tainted: bool) -> None:
    """NR-28, NR-32, NR-33: not whether the block holds, which is the state's matter."""
    assert state.fully_tainted is fully_tainted


def test_a_cell_that_ended_tainted_is_stale_until_a_node_comes() -> None:
    """NR-32: nothing is left that could be untainted."""
    verdict = judge_empty(left_tainted=True)
    assert verdict is not None
    assert verdict.state is State.STALE_TEMPLATE
    assert verdict.reason
    assert judge_empty(left_tainted=False) is None


@pytest.mark.parametrize(
    ("nodes", "settings", "reason"),
    [
        ([node("a1", signal=400), node("a2", ignored=True)], {}, "node a2 is annotated ebbtide/block=ignore"),
        ([node("a1", signal=400)], {"node_groups": ("prod-*",)}, "group g is outside node-groups"),
        ([node("a1", signal=400)], {"min_open_zones": 1}, "min-open-zones = 1 keeps the zone open"),
        ([node("a1")], {}, "no node is signalled"),
    ],
)
def test_an_open_cell_says_why_it_is_not_blocked(nodes: list[NodeFacts], settings: dict[str, Any], reason: str) -> None:
    """NR-39 to NR-41: status and explanation name the override."""
    facts, settled = cell(*nodes), rules(**settings)
    verdict = judge(facts, plan_of(facts, None, settled), NEVER, settled, NOW)
    assert verdict.state is State.OPEN
    assert reason in verdict.reason


def test_an_open_cell_says_how_many_taints_are_left() -> None:
    """NR-04: until the last one is off."""
    facts = cell(node("a1", prevent=True), node("a2", prevent=True), node("a3"))
    verdict = judge(facts, plan(Wish.OPEN, "no node is signalled"), NEVER, DEFAULTS, NOW)
    assert verdict.reason == "no node is signalled; nodes that still carry the prevent taint: 2"


def test_a_waiting_cell_names_its_signal() -> None:
    """NR-33: what is waited for."""
    facts = cell(node("a1", signal=20), node("a2"))
    verdict = judge(facts, plan_of(facts), NEVER, DEFAULTS, NOW)
    assert "node a1" in verdict.reason


def test_a_partial_cell_names_a_node_that_leaks() -> None:
    """So that somebody can look at it."""
    lacking = judge(cell(node("a1", prevent=True), node("a37")), plan(Wish.BLOCK), NEVER, DEFAULTS, NOW)
    assert lacking.reason == "1 of 2 nodes lacks the prevent taint: a37"
    none = judge(cell(node("a1"), node("a37")), plan(Wish.BLOCK), NEVER, DEFAULTS, NOW)
    assert none.reason == "2 of 2 nodes lack the prevent taint, among them a1"
    leaving = judge(cell(node("a1", prevent=True), node("a9", deleting=True)), plan(Wish.BLOCK), NEVER, DEFAULTS, NOW)
    assert "a9" in leaving.reason


@pytest.mark.parametrize(
    ("ready_for", "cordoned", "template"),
    [
        (600, False, True),
        (600, True, False),
        (60.5, False, True),
        (60, False, False),
        (0, False, False),
        (-10, False, False),
        (None, False, False),
        (None, True, False),
    ],
)
def test_the_autoscaler_s_template_is_settled_and_schedulable(
    ready_for: float | None, cordoned: bool, template: bool
) -> None:
    """What the autoscaler looks for before it falls back to its cache."""
    assert is_template(node("a1", ready_for=ready_for, cordoned=cordoned), DEFAULTS, NOW) is template


# --- laws -------------------------------------------------------------------------------------------------------

NODES = st.builds(
    node,
    st.sampled_from(["a1", "a2", "a3", "a4"]),
    prevent=st.booleans(),
    cordoned=st.booleans(),
    deleting=st.booleans(),
    signal=st.sampled_from([None, 10.0, 400.0]),
    ready_for=st.sampled_from([None, 0.0, 30.0, 60.0, 61.0, 600.0]),
)
CELLS = st.lists(NODES, min_size=1, max_size=4, unique_by=lambda node: node.name).map(
    lambda nodes: cell(node("a0", prevent=True, signal=20), *nodes)
)
STREAKS = st.builds(Streak, st.sampled_from([None, 0.0, 19.0, 20.0, 100.0]), st.booleans())


@given(CELLS, st.sampled_from(Wish), STREAKS)
def test_a_cell_to_be_blocked_is_never_called_open_and_an_open_one_never_blocked(
    facts: CellFacts, wish: Wish, streak: Streak
) -> None:
    """Exactly one state, of those that the wish allows; stale-template is only for cells without a node."""
    allowed = {
        Wish.OPEN: {State.OPEN},
        Wish.WAIT: {State.WAITING},
        Wish.KEEP: {State.BLOCKED, State.CACHED, State.PARTIAL, State.INEFFECTIVE},
        Wish.BLOCK: {State.BLOCKED, State.CACHED, State.PARTIAL, State.INEFFECTIVE},
    }
    verdict = judge(facts, plan(wish), streak, DEFAULTS, NOW)
    assert verdict.state in allowed[wish]
    assert verdict.look_again_in is None or verdict.look_again_in > 0


@given(CELLS, STREAKS)
def test_fully_tainted_means_just_that(facts: CellFacts, streak: Streak) -> None:
    """NR-28: a clean node that is leaving can only make it worse."""
    verdict = judge(facts, plan(Wish.BLOCK), streak, DEFAULTS, NOW)
    if verdict.state.fully_tainted:
        assert all(n.taint("ebbtide/prevent-ca-scale-up", "NoSchedule") for n in facts.live)
    elif all(n.taint("ebbtide/prevent-ca-scale-up", "NoSchedule") for n in facts.live):
        assert any(n.deleting for n in facts.nodes)


@given(CELLS, STREAKS, st.sampled_from([1.0, 29.9, 60.0, 3600.0]))
def test_without_an_event_a_verdict_changes_only_at_its_timer(facts: CellFacts, streak: Streak, passed: float) -> None:
    """A cell that is looked at again for nothing, or too late, would be shown wrong."""
    first = judge(facts, plan(Wish.BLOCK), streak, DEFAULTS, NOW)
    if first.look_again_in is None or passed < first.look_again_in - 0.01:
        assert judge(facts, plan(Wish.BLOCK), streak, DEFAULTS, NOW + passed).state is first.state


@given(CELLS, STREAKS)
def test_one_more_uncordoned_settled_node_never_weakens_a_block(facts: CellFacts, streak: Streak) -> None:
    """The cure that people are told must be one."""
    better = replace(facts, nodes=(*facts.nodes, node("a9", prevent=True)))
    before = judge(facts, plan(Wish.BLOCK), streak, DEFAULTS, NOW).state
    after = judge(better, plan(Wish.BLOCK), streak, DEFAULTS, NOW).state
    assert after is (State.PARTIAL if before is State.PARTIAL else State.BLOCKED)


@given(CELLS)
def test_a_block_that_was_carried_out_is_not_partial(facts: CellFacts) -> None:
    """Except for what may not be written: nodes that are being deleted."""
    decided = plan_of(facts)
    after = applied(decided, facts, NodeRebalance(), NOW)
    verdict = judge(after, decided, NEVER, DEFAULTS, NOW)
    assert verdict.state is not State.PARTIAL or any(n.deleting for n in facts.nodes)


@pytest.mark.parametrize(
    ("states", "none_open"),
    [
        ([], False),
        ([State.BLOCKED], True),
        ([State.BLOCKED, State.CACHED, State.INEFFECTIVE, State.PARTIAL], True),
        ([State.BLOCKED, State.OPEN], False),
        ([State.BLOCKED, State.WAITING], False),
        ([State.BLOCKED, None], False),
        ([None], False),
    ],
)
def test_no_zone_is_open_when_every_one_is_to_be_blocked(states: list[State | None], none_open: bool) -> None:
    """A zone that nobody has looked at yet may be open."""
    assert leaves_none_open(states) is none_open
