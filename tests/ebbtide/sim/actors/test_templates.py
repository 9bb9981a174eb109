"""Whose node the autoscaler copies: the table that decides whether a block holds."""

from dataclasses import dataclass

import pytest

from ebbtide.model import format_time
from ebbtide.sim.actors import predicates
from ebbtide.sim.actors.rooms import view
from ebbtide.sim.actors.templates import Template, copied, ready_since, refuses, template_for
from ebbtide.sim.stored import Object
from ebbtide.vocabulary import TO_BE_DELETED_TAINT_KEY
from tests.ebbtide.sim.actors.things import NOW, P, S, deleting, group, node, pod, taint

A = group("a")
CACHED = {"g-a": copied(A, node("a9", P))}
CLEAN_CACHE = {"g-a": copied(A, node("a9"))}


@dataclass(frozen=True)
class Case:
    """The nodes of g/a, and what the autoscaler then takes for a new one and thinks of an ordinary pod there."""

    name: str
    nodes: tuple[Object, ...]
    source: str
    refused: bool
    cache: dict[str, Template] | None = None


CASES = [
    Case("all tainted", (node("a1", S, P), node("a2", P)), "node a1", refused=True),
    Case("NR-03 one clean node in front", (node("a3"), node("a1", S, P)), "node a3", refused=False),
    Case("NR-03 one clean node behind", (node("a1", S, P), node("a3")), "node a1", refused=True),
    Case("NR-31 all cordoned, after a restart", (node("a1", S, P, cordoned=True),), "cloud", refused=False),
    Case(
        "NR-31 all cordoned, cached", (node("a1", S, P, cordoned=True),), "cache (node a9)", refused=True, cache=CACHED
    ),
    Case(
        "NR-31 one tainted node stands open",
        (node("a1", S, P, cordoned=True), node("a2", S, P, cordoned=True), node("a3", P, ready_for=61)),
        "node a3",
        refused=True,
    ),
    Case(
        "NR-31 that node is young",
        (node("a1", S, P, cordoned=True), node("a3", P, ready_for=30)),
        "cloud",
        refused=False,
    ),
    Case("Ready for exactly a minute is not over it", (node("a3", P, ready_for=60),), "cloud", refused=False),
    Case(
        "NR-31 not Ready", (node("a1", S, P, cordoned=True), node("a2", S, P, ready_for=None)), "cloud", refused=False
    ),
    Case(
        "a clean cache opens the zone",
        (node("a1", P, cordoned=True),),
        "cache (node a9)",
        refused=False,
        cache=CLEAN_CACHE,
    ),
    Case(
        "NR-18 a fresh clean node is no template yet",
        (node("a4", ready_for=59), node("a1", P)),
        "node a1",
        refused=True,
    ),
    Case("a node that is being deleted still is one", (deleting(node("a1")), node("a2", P)), "node a1", refused=False),
    Case(
        "so is one that the autoscaler removes, without its mark",
        (node("a1", taint(TO_BE_DELETED_TAINT_KEY, "1")),),
        "node a1",
        refused=False,
    ),
    Case("NR-32 no nodes, but a memory", (), "cache (node a9)", refused=True, cache=CACHED),
    Case("no nodes, no memory", (), "cloud", refused=False),
    Case("a foreign taint counts as well", (node("a1", taint("team", "x")),), "node a1", refused=True),
    Case(
        "a taint below startup-taint is dropped",
        (node("a1", taint("startup-taint.cluster-autoscaler.kubernetes.io/x")),),
        "node a1",
        refused=False,
    ),
    Case(
        "a node with a not-ready taint is not Ready",
        (node("a1", taint("node.kubernetes.io/not-ready")),),
        "cloud",
        refused=False,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_template_decides_what_the_autoscaler_thinks_of_the_zone(case: Case) -> None:
    template = template_for(A, case.nodes, case.cache or {}, NOW)
    assert template.source == case.source
    expected = (predicates.TAINTED,) if case.refused else ()
    assert refuses(template, pod("p"), view(case.nodes, [])) == expected


def test_only_a_copy_of_a_node_that_is_there_is_live() -> None:
    assert template_for(A, [node("a1")], {}, NOW).live
    assert not template_for(A, [], CACHED, NOW).live
    assert not template_for(A, [], {}, NOW).live


def test_the_clouds_template_has_the_groups_labels_and_taints() -> None:
    special = group("a", taints=[taint("dedicated", "db")])
    made = template_for(special, [], {}, NOW).node
    assert made["spec"]["taints"] == [taint("dedicated", "db")]
    assert special.wears(made)


def test_readiness_starts_anew_with_the_latest_condition() -> None:
    """A disk that recovered lately makes the node a late template, as in the autoscaler."""
    recovered = node("a1", ready_for=600)
    when = format_time(NOW - 10)
    recovered["status"]["conditions"].append({"type": "DiskPressure", "status": "False", "lastTransitionTime": when})
    assert ready_since(recovered) == NOW - 10
    recovered["status"]["conditions"][-1]["status"] = "True"
    assert ready_since(recovered) is None


def test_a_node_without_conditions_is_not_ready() -> None:
    bare = node("a1")
    bare["status"]["conditions"] = []
    assert ready_since(bare) is None
