"""Laws of the exclusion, for any pod among any nodes, with the embedded cluster's scheduler as the judge."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide import vocabulary
from ebbtide.exclusion.carried import difference
from ebbtide.exclusion.decide import Around, Exclusion, Rules, Skip, exclude
from ebbtide.exclusion.zones import BlockedZones
from ebbtide.kube.store import Store
from ebbtide.model import node_facts
from ebbtide.sim.actors.node_selectors import admits
from tests.ebbtide.exclusion.builders import LABELS, OLD_Z, G, Raw, Z, not_in, pod, raw_node, term, traits
from tests.ebbtide.exclusion.injector import REQUIRED, injected

ZONES = st.sampled_from(["a", "b", "c"])
ZONE_LISTS = st.lists(ZONES, min_size=1, max_size=2, unique=True)
EXPRESSIONS = st.one_of(
    st.builds(lambda values, key: not_in(*values, key=key), ZONE_LISTS, st.sampled_from([Z, OLD_Z])),
    st.builds(lambda values: {"key": Z, "operator": "In", "values": values}, ZONE_LISTS),
    st.builds(
        lambda values: {"key": G, "operator": "In", "values": values},
        st.lists(st.sampled_from(["g", "h"]), min_size=1, unique=True),
    ),
    st.just({"key": "disk", "operator": "Exists"}),
)
TERMS: st.SearchStrategy[Raw] = st.one_of(
    st.just({}),
    st.builds(lambda expressions: term(*expressions), st.lists(EXPRESSIONS, min_size=1, max_size=3)),
    st.just({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}),
)
SELECTORS = st.fixed_dictionaries({}, optional={G: st.sampled_from(["g", "h"]), Z: ZONES, "disk": st.just("ssd")})
PODS = st.builds(
    lambda selector, terms: pod(selector=selector, terms=terms),
    SELECTORS,
    st.none() | st.lists(TERMS, min_size=1, max_size=3),
)
NODES = st.lists(
    st.builds(
        lambda group, zone, prevented, key, dying, disk: _labelled(
            raw_node("n", group, zone, prevented=prevented, key=key, dying=dying), disk
        ),
        st.sampled_from(["g", "h"]),
        ZONES,
        st.booleans(),
        st.sampled_from([Z, Z, Z, OLD_Z]),
        st.sampled_from([False, False, False, True]),
        st.booleans(),
    ),
    max_size=8,
)
VOLUMES = st.lists(st.frozensets(ZONES, min_size=1), max_size=2)


def _labelled(node: Raw, disk: bool) -> Raw:
    if disk:
        node["metadata"]["labels"]["disk"] = "ssd"
    return node


def zones_of(nodes: list[Raw]) -> BlockedZones:
    store = Store(lambda raw: node_facts(raw, LABELS))
    for number, node in enumerate(nodes):
        named = {**node["metadata"], "name": f"n{number}", "uid": f"n{number}", "resourceVersion": str(number + 1)}
        node["metadata"] = named
        store.apply("ADDED", node)
    return BlockedZones(store, vocabulary.PREVENT_TAINT_KEY)


def decided(raw: Raw, nodes: list[Raw], volumes: list[frozenset[str]] | None = None) -> Exclusion:
    return exclude(traits(raw), zones_of(nodes).groups, Around(volumes=volumes or ()), Rules())


def schedulable(raw: Raw, node: Raw) -> bool:
    """Whether selector and required affinity let the pod stand on the node."""
    labels = node["metadata"]["labels"]
    if any(labels.get(key) != value for key, value in raw["spec"]["nodeSelector"].items()):
        return False
    affinity = (raw["spec"].get("affinity") or {}).get("nodeAffinity", {}).get(REQUIRED)
    return affinity is None or admits(affinity, node)


def zone(node: Raw) -> str:
    labels = node["metadata"]["labels"]
    return str(labels.get(Z) or labels.get(OLD_Z))


def group(node: Raw) -> str:
    return str(node["metadata"]["labels"][G])


def live(nodes: list[Raw]) -> list[Raw]:
    return [node for node in nodes if "deletionTimestamp" not in node["metadata"]]


def unhurried(test: Any) -> Any:
    return settings(deadline=None, max_examples=300)(test)


@unhurried
@given(PODS, NODES)
def test_no_live_node_of_an_excluded_zone_takes_the_pod_and_every_other_does_as_before(
    raw: Raw, nodes: list[Raw]
) -> None:
    """The scheduler's reading of what admission makes of the answer: exactly those zones, never more."""
    exclusion = decided(raw, nodes)
    kept_out = injected(raw, exclusion)
    for node in live(nodes):
        if zone(node) in exclusion.zones and group(node) in _usable(raw, nodes):
            assert not schedulable(kept_out, node)
        elif zone(node) not in exclusion.zones:
            assert schedulable(kept_out, node) == schedulable(raw, node)


def _usable(raw: Raw, nodes: list[Raw]) -> set[str]:
    return set(traits(raw).groups()) or {group(node) for node in nodes}


@unhurried
@given(PODS, NODES)
def test_only_blocked_zones_are_excluded_and_all_of_them_unless_none_is(raw: Raw, nodes: list[Raw]) -> None:
    """By the plain definition: blocked for each group that the pod may use and that has live nodes there."""
    groups = {name: zones for name, zones in zones_of(nodes).groups.items() if name in _usable(raw, nodes)}
    zones = {zone for each in groups.values() for zone in each.live}
    blocked = {zone for zone in zones if all(zone in g.blocked for g in groups.values() if zone in g.live)}
    exclusion = decided(raw, nodes)
    assert set(exclusion.zones) in (blocked, set())
    if exclusion.skipped is None:
        assert set(exclusion.zones) == blocked


@unhurried
@given(PODS, NODES, VOLUMES)
def test_some_zone_of_the_pods_groups_always_stays_open(
    raw: Raw, nodes: list[Raw], volumes: list[frozenset[str]]
) -> None:
    """A pod that fitted nowhere because of us would bring no node either."""
    zones = {zone(node) for node in live(nodes) if group(node) in _usable(raw, nodes)}
    assert not zones or zones - set(decided(raw, nodes, volumes).zones)


@unhurried
@given(PODS, NODES, VOLUMES)
def test_where_all_volumes_can_be_reached_the_pod_may_go(
    raw: Raw, nodes: list[Raw], volumes: list[frozenset[str]]
) -> None:
    """Unless there is such a place that is not blocked."""
    exclusion = decided(raw, nodes, volumes)
    reach = frozenset.intersection(*volumes) if volumes else frozenset()
    assert not reach or reach - set(exclusion.zones)
    assert set(exclusion.zones) <= set(decided(raw, nodes).zones)


@unhurried
@given(PODS, NODES, st.lists(st.tuples(st.sampled_from(["g", "h"]), ZONES), max_size=3))
def test_more_blocked_zones_never_shrink_the_answer_but_for_the_last_one(
    raw: Raw, nodes: list[Raw], more: list[tuple[str, str]]
) -> None:
    """A second zone at risk never lets pods back into the first."""
    before = decided(raw, nodes)
    for node in nodes:
        if (group(node), zone(node)) in more:
            labels = node["metadata"]["labels"]
            tainted = raw_node("n", group(node), zone(node), prevented=True)
            node["spec"], node["metadata"]["labels"] = tainted["spec"], labels
    after = decided(raw, nodes)
    assert set(before.zones) <= set(after.zones) or after.skipped is Skip.LAST_ZONE


@unhurried
@given(PODS, NODES, VOLUMES)
def test_equal_questions_have_equal_answers(raw: Raw, nodes: list[Raw], volumes: list[frozenset[str]]) -> None:
    """Whatever the order in which nodes were heard of."""
    assert decided(raw, nodes, volumes) == decided(raw, list(reversed(nodes)), volumes)


@unhurried
@given(PODS, NODES, VOLUMES)
def test_what_was_admitted_carries_the_answer(raw: Raw, nodes: list[Raw], volumes: list[frozenset[str]]) -> None:
    """So that a pod that came back right is never taken for one that did not, and nothing is decided for it twice."""
    exclusion = decided(raw, nodes, volumes)
    admitted = injected(raw, exclusion)
    assert decided(admitted, nodes, volumes).zones == exclusion.zones
    assert difference(traits(admitted), decided(admitted, nodes, volumes)) is None


@unhurried
@given(PODS, NODES, NODES)
def test_a_pod_without_a_difference_needs_no_admission(raw: Raw, then: list[Raw], now: list[Raw]) -> None:
    """Where no difference is seen, no live node of a zone to be avoided takes the pod as it is."""
    admitted = injected(raw, decided(raw, then))
    exclusion = decided(admitted, now)
    if difference(traits(admitted), exclusion) is not None:
        return
    for node in live(now):
        if zone(node) in exclusion.zones and group(node) in _usable(raw, now):
            assert not schedulable(admitted, node)
