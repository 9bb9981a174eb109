from random import Random

from ebbtide.sim.actors.growth import Candidate, Expander, Growth, decide, still_waiting
from ebbtide.sim.actors.rooms import view
from ebbtide.sim.actors.templates import NodeGroup, Template, copied, template_for
from ebbtide.sim.stored import Object
from tests.ebbtide.sim.actors.things import HOSTNAME, NOW, P, group, node, pod

NOWHERE = view([], [])


def candidate(who: NodeGroup, template: Template | None = None, size: int = 0) -> Candidate:
    return Candidate(who, template or template_for(who, [], {}, NOW), size)


def grown(pods: list[Object], *candidates: Candidate, expander: Expander = Expander.LEAST_WASTE) -> Growth:
    return decide(pods, candidates, NOWHERE, expander, Random(0))


def test_the_free_zone_grows_while_the_other_is_tainted() -> None:
    a, b = group("a"), group("b")
    growth = grown([pod("p")], candidate(a, copied(a, node("a1", P))), candidate(b))
    assert (growth.grown, growth.nodes) == ("g-b", 1)
    assert growth.considered[0].against == "node(s) had untolerated taint(s)"


def test_a_growth_says_why_in_one_line() -> None:
    a, b = group("a"), group("b")
    growth = grown([pod("p")], candidate(a, copied(a, node("a1", P))), candidate(b))
    assert str(growth) == (
        "grow g-b by 1 for default/p [g-a: no, node(s) had untolerated taint(s) (template: node a1); "
        "g-b: fits 1 with 1 more (template: cloud)]"
    )


def test_nothing_grows_when_every_zone_is_tainted() -> None:
    a = group("a")
    assert not grown([pod("p")], candidate(a, copied(a, node("a1", P)))).grown


def test_a_full_group_does_not_grow() -> None:
    growth = grown([pod("p")], candidate(group("a", largest=3), size=3))
    assert growth.considered[0].against == "max node group size reached (3)"


def test_as_many_nodes_as_the_pods_need() -> None:
    assert grown([pod(f"p{n}", cpu="3") for n in range(3)], candidate(group("a"))).nodes == 3
    assert grown([pod(f"p{n}", cpu="2") for n in range(3)], candidate(group("a"))).nodes == 2


def test_a_group_grows_to_its_limit_and_helps_whom_it_can() -> None:
    growth = grown([pod(f"p{n}", cpu="3") for n in range(3)], candidate(group("a", largest=2)))
    assert (growth.nodes, growth.considered[0].pods) == (2, ("default/p0", "default/p1"))


def test_pods_that_avoid_each_other_need_a_node_each() -> None:
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "db"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [pod(f"p{n}", labels={"app": "db"}, affinity=affinity) for n in range(3)]
    assert grown(pods, candidate(group("a"))).nodes == 3


def test_least_waste_takes_the_smaller_instance() -> None:
    small, large = group("a", offers={"cpu": "2", "memory": "4Gi"}), group("b")
    assert grown([pod("p")], candidate(large), candidate(small)).grown == "g-a"


def test_priority_takes_the_preferred_group() -> None:
    a, b = group("a", priority=1), group("b", priority=2)
    assert grown([pod("p")], candidate(a), candidate(b), expander=Expander.PRIORITY).grown == "g-b"


def test_random_takes_each_at_times() -> None:
    candidates = [candidate(group("a")), candidate(group("b"))]
    chosen = {decide([pod("p")], candidates, NOWHERE, Expander.RANDOM, Random(seed)).grown for seed in range(20)}
    assert chosen == {"g-a", "g-b"}


def test_a_pod_that_has_room_already_does_not_wait() -> None:
    waiting, _ = still_waiting([pod("p"), pod("q", cpu="8")], view([node("a1")], []), [])
    assert [each["metadata"]["name"] for each in waiting] == ["q"]


def test_a_node_on_its_way_takes_one_load_of_pods() -> None:
    template = template_for(group("a"), [], {}, NOW)
    waiting, world = still_waiting([pod("p", cpu="3"), pod("q", cpu="3")], NOWHERE, [(template, 1)])
    assert [each["metadata"]["name"] for each in waiting] == ["q"]
    assert len(world.rooms) == 1


def test_a_tainted_template_makes_nodes_on_their_way_worthless() -> None:
    a = group("a")
    waiting, _ = still_waiting([pod("p")], NOWHERE, [(copied(a, node("a1", P)), 5)])
    assert len(waiting) == 1
