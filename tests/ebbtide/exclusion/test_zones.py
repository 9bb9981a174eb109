"""The index of blocked zones: what it says after events is what counting all nodes anew would say."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide import vocabulary
from ebbtide.exclusion.zones import BlockedZones, GroupZones
from ebbtide.kube.store import Store
from ebbtide.model import NodeFacts, node_facts
from tests.ebbtide.exclusion.builders import LABELS, OLD_Z, Z, blocked_zones, raw_node

NAMES = st.sampled_from(["n0", "n1", "n2", "n3"])
NODES = st.builds(
    raw_node,
    NAMES,
    st.sampled_from(["g", "h", ""]),
    st.sampled_from(["a", "b", ""]),
    prevented=st.booleans(),
    key=st.sampled_from([Z, OLD_Z]),
    dying=st.booleans(),
)
EVENTS = st.lists(st.tuples(st.sampled_from(["ADDED", "MODIFIED", "DELETED"]), NODES), max_size=20)


def store_of(*events: tuple[str, dict[str, Any]]) -> Store[NodeFacts]:
    return fed(Store(lambda raw: node_facts(raw, LABELS)), *events)


def fed(store: Store[NodeFacts], *events: tuple[str, dict[str, Any]]) -> Store[NodeFacts]:
    for version, (kind, raw) in enumerate(events, store.version + 1):
        metadata = {**raw["metadata"], "resourceVersion": str(version)}
        store.apply(kind, {**raw, "metadata": metadata})
    return store


def index(store: Store[NodeFacts]) -> BlockedZones:
    return BlockedZones(store, vocabulary.PREVENT_TAINT_KEY)


def counted(nodes: list[NodeFacts]) -> dict[str, GroupZones]:
    """The plain definition."""
    live = [(node, node.cell) for node in nodes if node.cell is not None and not node.deleting]
    groups = {}
    for group in {cell.group for _, cell in live}:
        here = [(node, cell.zone) for node, cell in live if cell.group == group]
        groups[group] = GroupZones(
            live=frozenset(zone for _, zone in here),
            blocked=frozenset(zone for node, zone in here if node.taint(vocabulary.PREVENT_TAINT_KEY)),
            labels={zone: frozenset(node.zone_label for node, other in here if other == zone) for _, zone in here},
        )
    return groups


@given(EVENTS, EVENTS)
@settings(deadline=None)
def test_events_lead_to_what_counting_gives(before: Any, after: Any) -> None:
    """However nodes come, change cell, label, taint or life, and go."""
    store = store_of(*before)
    zones = index(store)
    assert zones.groups == counted(list(store.values()))
    fed(store, *after)
    assert zones.groups == counted(list(store.values()))


@given(EVENTS, EVENTS)
@settings(deadline=None)
def test_what_was_handed_out_stays_and_a_change_makes_another(before: Any, after: Any) -> None:
    """So that whoever remembers something of it can tell by identity whether it still holds."""
    store = store_of(*before)
    zones = index(store)
    for event in after:
        handed_out, copy = zones.groups, dict(zones.groups)
        fed(store, event)
        assert handed_out == copy
        assert (zones.groups is handed_out) == (zones.groups == copy)


@given(EVENTS, EVENTS)
@settings(deadline=None)
def test_a_change_is_told_once_with_its_group_and_nothing_else_is_told(before: Any, after: Any) -> None:
    """What is told is exactly what has become different, so nobody looks at pods for a heartbeat."""
    store = store_of(*before)
    zones = index(store)
    seen = dict(zones.groups)
    told: list[str] = []
    zones.on_change(told.append)
    for event in after:
        told.clear()
        fed(store, event)
        assert set(told) == {g for g in {*seen, *zones.groups} if seen.get(g) != zones.groups.get(g)}
        assert len(told) == len(set(told))
        seen = dict(zones.groups)


def test_wh_23_a_zone_is_blocked_from_its_first_taint_to_its_last() -> None:
    """One of many nodes is enough; a dying one is not."""
    assert blocked_zones("a! a a b").groups["g"].blocked == {"a"}
    assert blocked_zones("a!~ a b").groups["g"].blocked == frozenset()


def test_a_taint_of_that_key_with_another_effect_is_not_ours() -> None:
    """Somebody else's NoExecute closes no zone."""
    raw = raw_node("n", "g", "a", prevented=True)
    raw["spec"]["taints"][0]["effect"] = "NoExecute"
    assert index(store_of(("ADDED", raw))).groups["g"].blocked == frozenset()


def test_what_was_handed_out_stays_as_it_was() -> None:
    """A decision under way never sees half of a change."""
    store = store_of(("ADDED", raw_node("n", "g", "a")))
    zones = index(store)
    before = zones.groups["g"]
    fed(store, ("MODIFIED", raw_node("n", "g", "a", prevented=True)))
    assert not before.blocked
    assert zones.groups["g"].blocked == {"a"}
