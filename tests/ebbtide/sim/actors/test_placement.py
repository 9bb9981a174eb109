from random import Random

import pytest

from ebbtide.sim.actors.placement import Placement, place
from ebbtide.sim.actors.rooms import view
from ebbtide.sim.stored import Object
from ebbtide.vocabulary import ZONE_LABEL
from tests.ebbtide.sim.actors.things import P, node, owner, pod


def placed(wanted: Object, nodes: list[Object], pods: list[Object] | None = None) -> Placement:
    return place(wanted, view(nodes, pods or []), Random(0))


def test_no_nodes_at_all_has_words_of_its_own() -> None:
    assert placed(pod("p"), []) == Placement(message="no nodes available to schedule pods")


def test_the_refusal_counts_reasons_as_the_real_scheduler_writes_it() -> None:
    nodes = [node("a1", P), node("a2", P), node("a3", P, cordoned=True), node("b1", offers={"cpu": "1"})]
    assert placed(pod("p", cpu="2", memory="1Gi"), nodes).message == (
        "0/4 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, "
        "1 node(s) were unschedulable, 2 node(s) had untolerated taint(s)."
    )


def test_a_missing_claim_is_the_whole_reason() -> None:
    wanted = pod("p", claims=["c"])
    said = '0/1 nodes are available: persistentvolumeclaim "c" not found.'
    assert placed(wanted, [node("a1")]).message == said


def test_the_emptier_node_wins() -> None:
    assert placed(pod("p"), [node("a1"), node("b1")], [pod("q", "a1", cpu="2")]).node == "b1"


def test_pods_of_one_owner_spread_over_zones_before_hosts() -> None:
    """The second host of a used zone is worse than a fresh zone, though both are empty."""
    labels, owned = {"app": "db"}, owner()
    standing = [pod("db-0", "a1", labels=labels, owner=owned, cpu="0", memory="0")]
    wanted = pod("db-1", labels=labels, owner=owned)
    assert placed(wanted, [node("a1"), node("a2"), node("b1")], standing).node == "b1"


def test_schedule_anyway_prefers_and_does_not_insist() -> None:
    selector = {"matchLabels": {"app": "db"}}
    soft = [{"maxSkew": 1, "topologyKey": ZONE_LABEL, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}]
    wanted = pod("p", labels={"app": "db"}, topologySpreadConstraints=soft)
    standing = [pod("q", "a1", labels={"app": "db"})]
    assert placed(wanted, [node("a1"), node("b1")], standing).node == "b1"
    assert placed(wanted, [node("a1"), node("b1", P)], standing).node == "a1"


def test_a_preferred_zone_wins_over_an_emptier_node() -> None:
    preference = {"matchExpressions": [{"key": ZONE_LABEL, "operator": "In", "values": ["a"]}]}
    preferred = [{"weight": 1, "preference": preference}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    standing = [pod("q", "a1", cpu="2")]
    assert placed(pod("p", affinity=affinity), [node("a1"), node("b1")], standing).node == "a1"


@pytest.mark.parametrize("seed", range(5))
def test_the_same_generator_chooses_the_same_node(seed: int) -> None:
    around = view([node("a1"), node("a2"), node("b1")], [])
    assert place(pod("p"), around, Random(seed)) == place(pod("p"), around, Random(seed))
