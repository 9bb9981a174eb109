"""What one process remembers of a cell, and that forgetting it errs on the safe side."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.model import Cell, NodeFacts
from reconciler.rebalance.memory import CellMemory, Fight, Memory
from reconciler.rebalance.plan import Change, NodeWrite, Wish
from reconciler.rebalance.verdict import State, Streak, Verdict
from tests.reconciler.rebalance.builders import DEFAULTS, node, plan, seen, signal_taint

TAINTED, CLEAN = node("a3", prevent=True), node("a3")
BLOCK, OPEN = plan(Wish.BLOCK), plan(Wish.OPEN)


def _looked(memory: CellMemory, seen: NodeFacts, after: NodeFacts, at: float, wish: Wish = Wish.BLOCK) -> None:
    """One look at a cell with one node: as it was found, as it was left."""
    memory.look([seen], signalled=True, rules=DEFAULTS, monotonic=at)
    memory.acted(plan(wish), (after,), after is TAINTED, DEFAULTS, at)


# --- hold-down --------------------------------------------------------------------------------------------------


def test_quiet_is_counted_from_the_first_look_without_a_signal() -> None:
    """NR-37: later looks do not prolong it."""
    memory = CellMemory()
    memory.look([], signalled=False, rules=DEFAULTS, monotonic=10)
    memory.look([], signalled=False, rules=DEFAULTS, monotonic=50)
    assert memory.quiet_since == 10


def test_a_signal_in_between_starts_a_new_count() -> None:
    """NR-37: once it has gone."""
    memory = CellMemory()
    memory.look([], signalled=False, rules=DEFAULTS, monotonic=10)
    memory.look([], signalled=True, rules=DEFAULTS, monotonic=20)
    assert memory.quiet_since is None
    memory.look([], signalled=False, rules=DEFAULTS, monotonic=30)
    assert memory.quiet_since == 30


# --- incomplete -------------------------------------------------------------------------------------------------


def test_a_cell_is_incomplete_from_its_first_failed_write_to_its_last() -> None:
    """NR-30: so long evictions wait."""
    memory = CellMemory()
    for at, complete, since in ((1, False, 1), (5, False, 1), (9, True, None), (12, False, 12)):
        memory.acted(BLOCK, (CLEAN,), complete, DEFAULTS, at)
        assert memory.incomplete_since == since


@pytest.mark.parametrize("wish", [Wish.OPEN, Wish.WAIT])
def test_a_cell_that_is_not_to_be_blocked_is_never_incomplete(wish: Wish) -> None:
    """A failed untainting holds up no eviction later on."""
    memory = CellMemory()
    memory.acted(BLOCK, (CLEAN,), False, DEFAULTS, 1)
    memory.acted(plan(wish), (TAINTED,), False, DEFAULTS, 2)
    assert memory.incomplete_since is None


# --- the last node ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "left_tainted"),
    [
        pytest.param((TAINTED,), True, id="NR-32 tainted"),
        pytest.param((CLEAN,), False, id="clean"),
        pytest.param((node("a1"), TAINTED), True, id="one of two tainted"),
        pytest.param((node("a1"), replace(TAINTED, deleting=True)), False, id="the tainted one is not live"),
    ],
)
def test_a_cell_remembers_how_its_last_nodes_left(nodes: tuple[NodeFacts, ...], left_tainted: bool) -> None:
    """NR-32: with the taint, the autoscaler has it in its cache."""
    memory = CellMemory()
    memory.acted(BLOCK, nodes, True, DEFAULTS, 1)
    memory.acted(OPEN, (), True, DEFAULTS, 2)
    assert memory.left_tainted is left_tainted
    assert memory.last_node in nodes


def test_a_new_node_ends_what_the_last_one_left() -> None:
    """NR-32: it is the autoscaler's new template."""
    memory = CellMemory()
    memory.acted(BLOCK, (TAINTED,), True, DEFAULTS, 1)
    memory.acted(OPEN, (node("a9"),), True, DEFAULTS, 2)
    assert not memory.left_tainted
    assert memory.last_node == node("a9")


# --- the streak -------------------------------------------------------------------------------------------------


def test_a_streak_runs_while_the_cell_is_blocked() -> None:
    """NR-31: and is over with any other state."""
    memory = CellMemory()
    assert memory.streak(5) == Streak(None, False)
    memory.judged(Verdict(State.BLOCKED, ""), 10)
    memory.judged(Verdict(State.BLOCKED, ""), 25)
    assert memory.streak(30) == Streak(20, False)
    memory.judged(Verdict(State.INEFFECTIVE, ""), 31)
    assert memory.streak(32) == Streak(None, False)


def test_what_the_autoscaler_has_cached_is_remembered_until_a_break() -> None:
    """NR-31: `cached` goes on by itself, `partial` ends it."""
    memory = CellMemory()
    memory.judged(Verdict(State.BLOCKED, "", remembered=True), 10)
    memory.judged(Verdict(State.CACHED, "", remembered=True), 20)
    assert memory.streak(25) == Streak(None, True)
    memory.judged(Verdict(State.PARTIAL, ""), 30)
    assert memory.streak(35) == Streak(None, False)


# --- fights -----------------------------------------------------------------------------------------------------


def _fought(moments: list[float]) -> tuple[CellMemory, list[tuple[float, float]]]:
    """Somebody removes the taint at these moments; returns when it was removed and when it was put back."""
    memory, story = CellMemory(), []
    _looked(memory, CLEAN, TAINTED, 0)
    for at in moments:
        memory.look([CLEAN], signalled=True, rules=DEFAULTS, monotonic=at)
        wait = memory.restrained([CLEAN], at).get("a3", 0.0)
        if wait:
            memory.acted(BLOCK, (CLEAN,), False, DEFAULTS, at)
        memory.look([CLEAN], signalled=True, rules=DEFAULTS, monotonic=at + wait)
        assert not memory.restrained([CLEAN], at + wait)
        assert memory.restored("uid-a3") is not None
        memory.acted(BLOCK, (TAINTED,), True, DEFAULTS, at + wait)
        story.append((at, at + wait))
    return memory, story


def test_a_first_removal_is_mended_at_once() -> None:
    """NR-24."""
    _, story = _fought([100])
    assert story == [(100, 100)]


@pytest.mark.parametrize(
    ("second", "wait"),
    [(100.1, 5), (159, 5), (160, 5), (160.1, 0), (500, 0)],
)
def test_a_second_removal_within_a_minute_is_a_fight(second: float, wait: float) -> None:
    """NR-25: later it is another accident."""
    _, story = _fought([100, second])
    assert story[-1][1] - second == pytest.approx(wait)


def test_a_fight_is_fought_more_and_more_slowly() -> None:
    """NR-25: a Warning is told once, at its first round."""
    moments, rounds = [100.0], []
    story: list[tuple[float, float]] = []
    for _ in range(8):
        memory, story = _fought(moments)
        rounds.append(memory.fights["uid-a3"].rounds)
        moments = [*moments, story[-1][1] + 0.1]
    assert [back - gone for gone, back in story] == pytest.approx([0, 5, 10, 20, 40, 60, 60, 60])
    assert rounds == [0, 1, 2, 3, 4, 5, 6, 7]


@given(st.lists(st.floats(0.01, 30), min_size=2, max_size=40))
def test_there_are_few_writes_in_any_minute_of_a_fight(gaps: list[float]) -> None:
    """NR-25: at most six in the minute that follows the second removal, however quick the other program is."""
    moments, writes = [0.0], []
    for gap in gaps:
        _, story = _fought(moments)
        writes = [back for _, back in story]
        moments = [*moments, story[-1][1] + gap]
    second = moments[1]
    assert sum(second <= write < second + 60 for write in writes) <= 6


@given(st.lists(st.floats(0, 100), min_size=1, max_size=10))
def test_a_restraint_is_never_longer_than_a_minute(gaps: list[float]) -> None:
    """The cell stays open meanwhile, so the taint has to come back."""
    fight, at = Fight(removed_at=0.0), 0.0
    for gap in gaps:
        at += gap
        fight.removed(at)
        assert 0 <= fight.restraint <= 60
        assert fight.restore_at == at + fight.restraint


def test_a_fight_may_last_for_days() -> None:
    """The taint comes back a minute after its five thousandth removal as well."""
    fight, at = Fight(removed_at=0.0), 0.0
    for _ in range(5000):
        at += 1.0
        fight.removed(at)
    assert (fight.rounds, fight.restraint, fight.restore_at) == (5000, 60.0, at + 60.0)


def test_a_long_peace_makes_an_accident_of_the_next_removal() -> None:
    """Counted from the moment at which the taint was back."""
    fight = Fight(removed_at=0.0)
    for at in (1.0, 2.0, 3.0):
        fight.removed(at)
    assert fight.rounds == 3
    fight.removed(3.0 + 20 + 60 + 0.1)
    assert (fight.rounds, fight.restraint) == (0, 0)


def test_looks_during_a_restraint_do_not_count_as_removals() -> None:
    """One removal is one, however many events follow."""
    memory, _ = _fought([100, 101])
    memory.look([CLEAN], signalled=True, rules=DEFAULTS, monotonic=110)
    rounds = memory.fights["uid-a3"].rounds
    for at in (111.0, 112.0, 113.0):
        memory.acted(BLOCK, (CLEAN,), False, DEFAULTS, at)
        memory.look([CLEAN], signalled=True, rules=DEFAULTS, monotonic=at)
    assert memory.fights["uid-a3"].rounds == rounds


def test_our_own_removal_is_no_fight() -> None:
    """NR-24: what the table opens nobody has taken away."""
    memory = CellMemory()
    _looked(memory, CLEAN, TAINTED, 0)
    _looked(memory, TAINTED, CLEAN, 10, Wish.OPEN)
    memory.look([CLEAN], signalled=True, rules=DEFAULTS, monotonic=11)
    assert not memory.fights
    assert memory.restored("uid-a3") is None


def test_a_removal_that_the_table_agrees_with_is_not_mended_nor_counted() -> None:
    """NR-24: the next block sets the taint for its own reasons."""
    memory = CellMemory()
    _looked(memory, CLEAN, TAINTED, 0)
    _looked(memory, CLEAN, CLEAN, 10, Wish.OPEN)
    memory.look([CLEAN], signalled=True, rules=DEFAULTS, monotonic=11)
    assert memory.restored("uid-a3") is None


def test_a_first_taint_restores_nothing() -> None:
    """NR-24: only what was taken away is counted."""
    memory = CellMemory()
    memory.look([CLEAN], signalled=True, rules=DEFAULTS, monotonic=0)
    assert memory.restored("uid-a3") is None


def test_a_restored_taint_is_counted_once() -> None:
    """NR-24: and nothing is left of it but the fight's history."""
    memory, _ = _fought([100])
    assert memory.restored("uid-a3") is None


def test_another_node_of_the_name_inherits_no_fight() -> None:
    """NR-12."""
    memory, _ = _fought([100, 101])
    memory.look([replace(CLEAN, uid="uid-2")], signalled=True, rules=DEFAULTS, monotonic=102)
    assert not memory.fights
    assert not memory.restrained([replace(CLEAN, uid="uid-2")], 102)


def test_a_node_that_is_being_deleted_fights_no_more() -> None:
    """NR-16: it is not written any more."""
    memory, _ = _fought([100, 101])
    memory.look([replace(CLEAN, deleting=True)], signalled=True, rules=DEFAULTS, monotonic=102)
    assert not memory.fights


def test_each_node_fights_for_itself() -> None:
    """NR-25: the others are set as ever."""
    memory = CellMemory()
    both = (node("a1", prevent=True), TAINTED)
    memory.acted(BLOCK, both, True, DEFAULTS, 0)
    for at in (1.0, 2.0):
        memory.look([node("a1", prevent=True), CLEAN], signalled=True, rules=DEFAULTS, monotonic=at)
        memory.restored("uid-a3")
        memory.acted(BLOCK, both, True, DEFAULTS, at)
    memory.look([node("a1"), CLEAN], signalled=True, rules=DEFAULTS, monotonic=3)
    assert memory.restrained([node("a1"), CLEAN], 3).keys() == {"a3"}


@given(st.lists(st.floats(0, 400), min_size=2, max_size=20).map(sorted))
def test_the_taint_is_put_back_after_every_removal(moments: list[float]) -> None:
    """NR-25: slowly, but always; the order of events stays."""
    apart = [moments[0], *(later for earlier, later in pairwise(moments) if later - earlier > 61)]
    _, story = _fought(apart)
    assert all(gone <= back <= gone + 60 for gone, back in story)


# --- all cells --------------------------------------------------------------------------------------------------


def test_cells_are_remembered_apart() -> None:
    """NR-15."""
    memory = Memory()
    memory.of(Cell("g", "a")).quiet_since = 1
    assert memory.of(Cell("g", "a")).quiet_since == 1
    assert memory.of(Cell("g", "b")).quiet_since is None


def test_asking_leaves_no_trace() -> None:
    """NR-56: a cell that was only read about takes no room."""
    memory = Memory()
    memory.known(Cell("g", "a")).quiet_since = 1
    assert memory.known(Cell("g", "a")).quiet_since is None


def test_a_forgotten_cell_begins_anew() -> None:
    """NR-32, NR-37: longer rather than shorter, and never `cached`."""
    memory = Memory()
    memory.of(Cell("g", "a")).remembered = True
    memory.forget(Cell("g", "a"))
    memory.forget(Cell("g", "never known"))
    assert memory.known(Cell("g", "a")) == CellMemory()


# --- what an earlier leader has told ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "state"),
    [
        ((TAINTED, node("a1", prevent=True, signal=10)), State.BLOCKED),
        ((TAINTED, replace(CLEAN, name="a4", deleting=True)), State.BLOCKED),
        ((TAINTED, node("a1")), None),
        ((TAINTED, node("a1", signal=10)), State.WAITING),
        ((node("a1", signal=10), node("a2")), State.WAITING),
        ((node("a1", first_seen=seen(10)), node("a2")), State.WAITING),
        ((node("a1", first_seen=seen(100_000)), node("a2")), None),
        ((node("a1", signal=signal_taint()), node("a2")), None),
        ((), None),
    ],
    ids=[
        "every node is tainted",
        "every live node is tainted",
        "half tainted",
        "half tainted, and noted",
        "noted",
        "noted, the signal has gone since",
        "noted by an earlier node of that name",
        "not noted",
        "no node",
    ],
)
def test_the_marks_on_its_nodes_say_what_was_told_of_a_cell(nodes: tuple[NodeFacts, ...], state: State | None) -> None:
    memory = CellMemory()
    memory.look(nodes, signalled=False, rules=DEFAULTS, monotonic=1)
    assert memory.inherited is state


def test_only_the_first_look_of_a_term_finds_marks_of_others() -> None:
    memory = CellMemory()
    memory.look([CLEAN], signalled=False, rules=DEFAULTS, monotonic=1)
    memory.look([TAINTED], signalled=False, rules=DEFAULTS, monotonic=2)
    assert memory.inherited is None


# --- signals whose time stands nowhere --------------------------------------------------------------------------

SIGNALLED = node("a1", signal=signal_taint())
NOTE = NodeWrite(SIGNALLED, Change.LEAVE, Change.SET, signalled=True)


def seen_by(memory: CellMemory, *nodes: NodeFacts, at: float) -> dict[str, float]:
    memory.look(nodes, signalled=True, rules=DEFAULTS, monotonic=at)
    return memory.seen


def test_a_signal_is_as_old_as_the_first_look_at_it() -> None:
    memory = CellMemory()
    seen_by(memory, SIGNALLED, at=10)
    assert seen_by(memory, SIGNALLED, CLEAN, at=99) == {SIGNALLED.uid: 10}


@pytest.mark.parametrize(
    "between",
    [node("a1"), replace(SIGNALLED, deleting=True), replace(SIGNALLED, uid="another")],
    ids=["the signal has gone", "the node is going", "another node of that name"],
)
def test_a_signal_that_comes_back_is_seen_for_the_first_time(between: NodeFacts) -> None:
    memory = CellMemory()
    seen_by(memory, SIGNALLED, at=10)
    seen_by(memory, between, at=20)
    assert seen_by(memory, SIGNALLED, at=30) == {SIGNALLED.uid: 30}


def test_only_a_refused_annotation_is_left_out_for_longer_and_longer() -> None:
    memory = CellMemory()
    memory.refused([NodeWrite(SIGNALLED, Change.SET, Change.LEAVE, signalled=True)], monotonic=5)
    assert memory.unnoted == {}
    pauses = []
    for _ in range(6):
        memory.refused([NOTE], monotonic=5)
        pauses.append(memory.unnoted[SIGNALLED.uid].until - 5)
    assert pauses == [10, 20, 40, 80, 120, 120]


def test_with_the_signal_it_is_forgotten_that_it_could_not_be_noted() -> None:
    memory = CellMemory()
    memory.refused([NOTE], monotonic=5)
    seen_by(memory, SIGNALLED, at=10)
    assert memory.unnoted
    seen_by(memory, node("a1"), at=20)
    assert not memory.unnoted
