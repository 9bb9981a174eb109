"""What holds for every cell there can be, not only for those that somebody thought of."""

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import assume, example, given
from hypothesis import strategies as st

from ebbtide.config.rebalance import NodeRebalance
from ebbtide.model import NodeFacts, Taint, format_time
from reconciler.rebalance.decide import decide, evictions, signals_of
from reconciler.rebalance.plan import CellFacts, Change, Deed, GroupFacts, Plan, Wish, is_prevented
from tests.reconciler.rebalance.builders import FOREIGN, HASH, NOW, applied, cell, node, prevent_taint, signal_taint

# Around every limit, at it, and far away.
AGES = st.sampled_from([-60.0, 0.0, 1.0, 9.5, 10.0, 10.5, 299.0, 300.0, 300.001, 301.0, 5000.0])
OTHERS = st.lists(
    st.sampled_from(
        [
            FOREIGN,
            Taint("ToBeDeletedByClusterAutoscaler", "1772366340", "NoSchedule"),
            Taint("ToBeDeletedByClusterAutoscaler", "1772365499", "NoSchedule"),
            Taint("node.kubernetes.io/not-ready", "", "NoExecute", NOW),
            prevent_taint("true", "NoExecute"),
            prevent_taint("", "PreferNoSchedule"),
        ]
    ),
    max_size=2,
    unique=True,
)


def _stated(age: float) -> Taint:
    return signal_taint(str(int(NOW - age)))


SIGNALS = st.one_of(
    AGES.map(_stated), AGES.map(lambda age: signal_taint(added=NOW - age)), st.just(signal_taint()), st.none()
)
FIRST_SEEN = st.one_of(st.none(), st.sampled_from(["", "nonsense"]), AGES.map(lambda age: format_time(NOW - age)))


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeFacts:
    return node(
        name,
        signal=draw(SIGNALS),
        prevent=draw(st.booleans()),
        taints=draw(OTHERS),
        deleting=draw(st.sampled_from([False, False, False, True])),
        cordoned=draw(st.booleans()),
        ready_for=draw(st.sampled_from([None, 0.0, 30.0, 61.0])),
        ignored=draw(st.sampled_from([False] * 9 + [True])),
        first_seen=draw(FIRST_SEEN),
        # A node may be younger than its annotation, and, where clocks differ, than this very moment.
        created=NOW + draw(st.sampled_from([-86400.0, -5.0, 0.0, 7.0])),
    )


@st.composite
def cells(draw: st.DrawFn, zone: str = "a") -> CellFacts:
    count = draw(st.integers(1, 4))
    return cell(
        *(draw(nodes(f"{zone}{number}")) for number in range(count)),
        quiet_for=draw(st.sampled_from([0.0, 1.0, 59.0, 60.0, 1000.0])),
        incomplete_for=draw(st.sampled_from([0.0, 0.0, 1.0, 60.0])),
        restrained=draw(st.dictionaries(st.sampled_from([f"{zone}0", f"{zone}1"]), st.sampled_from([0.5, 60.0]))),
        seen_for=draw(st.dictionaries(st.sampled_from([f"{zone}0", f"{zone}1"]), st.sampled_from([0.0, 30.0, 301.0]))),
        unnoted=draw(st.dictionaries(st.sampled_from([f"{zone}0", f"{zone}1"]), st.sampled_from([-1.0, 30.0]))),
    )


@st.composite
def groups(draw: st.DrawFn) -> GroupFacts:
    zones = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True))
    return GroupFacts("g", {zone: draw(cells(zone)) for zone in zones})


RULES = st.builds(
    NodeRebalance,
    max_rebalance_signal_time=st.sampled_from([0.0, 10.0, 300.0]),
    hold_down=st.sampled_from([0.0, 60.0]),
    min_open_zones=st.integers(0, 2),
    node_groups=st.sampled_from([("*",), ("*",), ("*",), ("other",)]),
)


def _plans(group: GroupFacts, rules: NodeRebalance, now: float = NOW) -> Iterable[tuple[CellFacts, Plan]]:
    """Every plan that any look at the group as it stands can give."""
    for facts in group.cells.values():
        for look_at in (None, *(n.name for n in facts.nodes)):
            yield facts, decide(group, facts.cell, look_at, rules, now)


def _put(group: GroupFacts, facts: CellFacts) -> GroupFacts:
    return replace(group, cells={**group.cells, facts.cell.zone: facts})


def _blocked_zones(group: GroupFacts, rules: NodeRebalance) -> set[str]:
    return {zone for zone, facts in group.cells.items() if any(is_prevented(n, rules) for n in facts.live)}


@given(groups(), RULES)
def test_a_plan_that_was_carried_out_leaves_nothing_to_write(group: GroupFacts, rules: NodeRebalance) -> None:
    """NR-06: no flapping, no write that answers to the one before."""
    for facts, plan in _plans(group, rules):
        after = decide(_put(group, applied(plan, facts, rules, NOW)), facts.cell, None, rules, NOW)
        assert not after.writes
        assert after.wish.blocks is plan.wish.blocks


@given(groups(), RULES)
def test_equal_input_gives_an_equal_plan(group: GroupFacts, rules: NodeRebalance) -> None:
    """NR-06: whatever the order in which nodes and zones are known."""
    turned = replace(
        group,
        cells={zone: replace(facts, nodes=facts.nodes[::-1]) for zone, facts in reversed(tuple(group.cells.items()))},
    )
    for (facts, plan), again in zip(_plans(group, rules), (p for _, p in _plans(group, rules)), strict=True):
        assert plan == again
        look_at = plan.evict.node.name if plan.evict else None
        other = decide(turned, facts.cell, look_at, rules, NOW)
        assert (other.wish, set(other.taint), set(other.untaint)) == (plan.wish, set(plan.taint), set(plan.untaint))
        assert other.signals == plan.signals
        assert other.evict == plan.evict


@given(groups(), RULES)
def test_only_live_nodes_of_the_cell_are_touched(group: GroupFacts, rules: NodeRebalance) -> None:
    """NR-06: no node that is being deleted, none of another cell."""
    for facts, plan in _plans(group, rules):
        touched = [write.node for write in plan.writes] + ([plan.evict.node] if plan.evict else [])
        assert all(n in facts.live for n in touched)


@given(groups(), RULES)
def test_only_our_own_marks_change(group: GroupFacts, rules: NodeRebalance) -> None:
    """NR-06: our taint is set only where it is missing and removed only where it is."""
    for _, plan in _plans(group, rules):
        for write in plan.writes:
            assert write.prevent is not Change.SET or not is_prevented(write.node, rules)
            assert write.prevent is not Change.REMOVE or is_prevented(write.node, rules)
            assert write.first_seen is not Change.REMOVE or write.node.first_seen is not None


@given(groups(), RULES)
def test_a_plan_does_not_both_close_and_open(group: GroupFacts, rules: NodeRebalance) -> None:
    """All live nodes of a cell go the same way."""
    for facts, plan in _plans(group, rules):
        assert not (plan.taint and plan.untaint)
        if plan.wish.blocks:
            missing = {n.name for n in facts.live if not is_prevented(n, rules)}
            assert set(plan.taint) == missing - facts.restrained.keys()
        assert set(plan.untaint) in (set(), {n.name for n in facts.live if is_prevented(n, rules)})


@given(groups(), RULES, st.data())
def test_one_more_signal_never_opens_a_zone(group: GroupFacts, rules: NodeRebalance, data: st.DataObject) -> None:
    """NR-06: neither in its own zone nor in another one."""
    facts = data.draw(st.sampled_from(list(group.cells.values())))
    unsignalled = [n for n in facts.live if not any(s.node is n for s in signals_of(facts, rules, NOW))]
    assume(unsignalled)
    more = data.draw(st.sampled_from(unsignalled))
    taint = data.draw(st.one_of(AGES.map(_stated), st.just(signal_taint(HASH))))
    signalled = replace(more, taints=(*more.taints, taint), first_seen=None)
    changed = replace(facts, nodes=tuple(signalled if n is more else n for n in facts.nodes), quiet_for=0.0)
    for zone, before in group.cells.items():
        old = decide(group, before.cell, None, rules, NOW)
        new = decide(_put(group, changed), before.cell, None, rules, NOW)
        assert set(new.untaint) <= set(old.untaint)
        if zone == facts.cell.zone and old.wish.blocks:
            assert new.wish.blocks or zone not in _blocked_zones(group, rules)


@given(groups(), RULES, st.permutations("abc"))
def test_no_new_block_goes_below_the_zones_that_stay_open(
    group: GroupFacts, rules: NodeRebalance, order: list[str]
) -> None:
    """NR-41: in whatever order the zones are looked at, each plan carried out before the next look."""
    before = _blocked_zones(group, rules)
    most = max(len(before), sum(bool(facts.live) for facts in group.cells.values()) - rules.min_open_zones)
    for zone in (zone for zone in order if zone in group.cells):
        facts = group.cells[zone]
        group = _put(group, applied(decide(group, facts.cell, None, rules, NOW), facts, rules, NOW))
        blocked = _blocked_zones(group, rules)
        assert rules.min_open_zones == 0 or blocked <= before or len(blocked) <= most


@given(groups(), RULES)
def test_pods_go_only_from_the_node_that_was_looked_at(group: GroupFacts, rules: NodeRebalance) -> None:
    """NR-01: never from every signalled node at once, never without a signal, never from a zone that stays open."""
    for facts in group.cells.values():
        for look_at in (None, "z9", *(n.name for n in facts.nodes)):
            plan = decide(group, facts.cell, look_at, rules, NOW)
            if plan.evict is not None:
                assert plan.wish is Wish.BLOCK
                assert plan.evict.node.name == look_at
                assert plan.evict.node in [signal.node for signal in plan.signals]


@given(groups(), RULES)
def test_the_node_looked_at_decides_about_pods_alone(group: GroupFacts, rules: NodeRebalance) -> None:
    """Taints are the same whoever is looked at."""
    for facts in group.cells.values():
        looks = [decide(group, facts.cell, n, rules, NOW) for n in (None, *(n.name for n in facts.nodes))]
        assert len({(plan.wish, plan.reason, plan.writes) for plan in looks}) == 1


@given(groups(), RULES)
def test_a_signal_node_that_keeps_its_pods_is_held_back_with_a_reason(group: GroupFacts, rules: NodeRebalance) -> None:
    """So that nobody has to guess why nothing happens."""
    for facts in group.cells.values():
        for signal in signals_of(facts, rules, NOW):
            plan = decide(group, facts.cell, signal.node.name, rules, NOW)
            held = [h for h in plan.held_back if (h.deed, h.name) == (Deed.EMPTY_NODE, signal.node.name)]
            assert len(held) == (plan.evict is None)
            assert all(h.reason for h in held)


@given(groups(), RULES)
@example(GroupFacts("g", {"a": cell(node("a0", signal=signal_taint("1772366460")))}), NodeRebalance())
def test_a_waiting_zone_is_closed_at_the_look_it_asked_for(group: GroupFacts, rules: NodeRebalance) -> None:
    """NR-02, NR-36: at most one look in between, whatever the age was and wherever it was read.

    Where the server refuses to note that, there are looks in between that try again.
    """
    assume(rules.min_open_zones == 0)
    group = replace(group, cells={zone: replace(facts, unnoted={}) for zone, facts in group.cells.items()})
    for facts in group.cells.values():
        plan = decide(group, facts.cell, None, rules, NOW)
        if plan.wish is Wish.WAIT:
            assert plan.look_again_in is not None
            due = NOW + plan.look_again_in
            then = _put(group, applied(plan, facts, rules, NOW))
            assert decide(then, facts.cell, None, rules, due - 0.01).wish is Wish.WAIT
            assert decide(then, facts.cell, None, rules, due).wish is Wish.BLOCK


@given(cells(), st.sampled_from([0.25, 59.5, 60.0]))
def test_a_held_zone_opens_at_the_look_it_asked_for(facts: CellFacts, quiet_for: float) -> None:
    """NR-37: not before, and without any event."""
    rules = NodeRebalance(hold_down=60.5)
    quiet = (replace(n, taints=(FOREIGN, prevent_taint()), ignored=False) for n in facts.nodes)
    held = replace(facts, nodes=(*quiet, node("a9", prevent=True)), quiet_for=quiet_for)
    plan = decide(GroupFacts("g", {"a": held}), held.cell, None, rules, NOW)
    assert plan.wish is Wish.KEEP
    assert plan.look_again_in is not None
    for after, wish in ((plan.look_again_in - 0.01, Wish.KEEP), (plan.look_again_in, Wish.OPEN)):
        later = replace(applied(plan, held, rules, NOW), quiet_for=quiet_for + after)
        assert decide(GroupFacts("g", {"a": later}), held.cell, None, rules, NOW + after).wish is wish


@given(groups(), RULES)
def test_every_timer_lies_ahead(group: GroupFacts, rules: NodeRebalance) -> None:
    """A look that asks for another one at once would never rest."""
    for _, plan in _plans(group, rules):
        assert plan.look_again_in is None or plan.look_again_in > 0


@given(groups(), RULES)
def test_all_evictions_of_a_cell_are_those_of_its_nodes_looked_at_one_by_one(
    group: GroupFacts, rules: NodeRebalance
) -> None:
    """An explanation of a zone tells of them together."""
    for facts in group.cells.values():
        plans = {node.name: decide(group, facts.cell, node.name, rules, NOW) for node in facts.nodes}
        for name, (evict, held) in evictions(group, facts.cell, rules, NOW).items():
            assert evict == plans[name].evict
            assert set(held) <= set(plans[name].held_back)
        assert {s.node.name for s in signals_of(facts, rules, NOW)} == set(evictions(group, facts.cell, rules, NOW))
