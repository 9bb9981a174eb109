"""Every filter of the scheduler, as a table of pods, nodes and the one right reason."""

from dataclasses import dataclass
from typing import Any

import pytest

from ebbtide.sim.actors import predicates
from ebbtide.sim.actors.predicates import missing_claim, refusals
from ebbtide.sim.actors.rooms import view
from ebbtide.sim.stored import Object
from ebbtide.vocabulary import PREVENT_TAINT_KEY, ZONE_LABEL
from tests.ebbtide.sim.actors.things import HOSTNAME, P, deleting, node, pod, taint


@dataclass(frozen=True)
class Case:
    """`pod` wants to stand on the first of `nodes`; `pods` stand already."""

    name: str
    pod: Object
    reasons: tuple[str, ...] = ()
    nodes: tuple[Object, ...] = (node("a1"),)
    pods: tuple[Object, ...] = ()
    claims: tuple[Object, ...] = ()
    volumes: tuple[Object, ...] = ()


def affinity(*terms: Object) -> Object:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def expression(key: str, operator: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def company(kind: str, key: str, **labels: str) -> Object:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(key: str, **labels: str) -> list[Object]:
    selector = {"matchLabels": labels}
    return [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]


def claim(name: str, volume: str = "") -> Object:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"volumeName": volume} if volume else {}}


def volume(name: str, zone: str) -> Object:
    required = {"nodeSelectorTerms": [expression(ZONE_LABEL, "In", zone)]}
    return {"metadata": {"name": name}, "spec": {"nodeAffinity": {"required": required}}}


def tolerating(**toleration: Any) -> Object:
    return pod("p", tolerations=[toleration])


AFFINITY = (predicates.AFFINITY,)
CASES = [
    Case("an empty node takes a pod", pod("p")),
    Case("a cordoned node takes none", pod("p"), (predicates.UNSCHEDULABLE,), (node("a1", cordoned=True),)),
    Case(
        "a cordon can be tolerated",
        tolerating(key="node.kubernetes.io/unschedulable", operator="Exists"),
        nodes=(node("a1", cordoned=True),),
    ),
    Case("a taint keeps away", pod("p"), (predicates.TAINTED,), (node("a1", P),)),
    Case("a taint can be tolerated", tolerating(key=PREVENT_TAINT_KEY, operator="Exists"), nodes=(node("a1", P),)),
    Case(
        "a toleration of another value does not help",
        tolerating(key=PREVENT_TAINT_KEY, value="true"),
        (predicates.TAINTED,),
        (node("a1", P),),
    ),
    Case("NoExecute keeps away", pod("p"), (predicates.TAINTED,), (node("a1", taint("x", effect="NoExecute")),)),
    Case("PreferNoSchedule does not", pod("p"), nodes=(node("a1", taint("x", effect="PreferNoSchedule")),)),
    Case("only the first filter is charged", pod("p"), (predicates.UNSCHEDULABLE,), (node("a1", P, cordoned=True),)),
    Case("a selected node", pod("p", nodeSelector={ZONE_LABEL: "a"})),
    Case("a node that is not selected", pod("p", nodeSelector={ZONE_LABEL: "b"}), AFFINITY),
    Case("In", pod("p", affinity=affinity(expression(ZONE_LABEL, "In", "a", "b")))),
    Case("not In", pod("p", affinity=affinity(expression(ZONE_LABEL, "In", "b"))), AFFINITY),
    Case("NotIn", pod("p", affinity=affinity(expression(ZONE_LABEL, "NotIn", "b")))),
    Case("not NotIn: the excluded zone", pod("p", affinity=affinity(expression(ZONE_LABEL, "NotIn", "a"))), AFFINITY),
    Case("NotIn holds without the label", pod("p", affinity=affinity(expression("x", "NotIn", "a")))),
    Case("Exists", pod("p", affinity=affinity(expression(ZONE_LABEL, "Exists")))),
    Case("not Exists", pod("p", affinity=affinity(expression("x", "Exists"))), AFFINITY),
    Case("DoesNotExist", pod("p", affinity=affinity(expression("x", "DoesNotExist")))),
    Case("not DoesNotExist", pod("p", affinity=affinity(expression(ZONE_LABEL, "DoesNotExist"))), AFFINITY),
    Case("Gt", pod("p", affinity=affinity(expression("n", "Gt", "4"))), nodes=(node("a1", labels={"n": "5"}),)),
    Case("not Gt", pod("p", affinity=affinity(expression("n", "Gt", "5"))), AFFINITY, (node("a1", labels={"n": "5"}),)),
    Case("Lt", pod("p", affinity=affinity(expression("n", "Lt", "6"))), nodes=(node("a1", labels={"n": "5"}),)),
    Case("Lt of no number", pod("p", affinity=affinity(expression("n", "Lt", "6"))), AFFINITY),
    Case(
        "terms are alternatives",
        pod("p", affinity=affinity(expression("x", "Exists"), expression("y", "DoesNotExist"))),
    ),
    Case("an empty term admits nothing", pod("p", affinity=affinity({})), AFFINITY),
    Case(
        "a field names one node",
        pod("p", affinity=affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a2"]}]})),
        AFFINITY,
    ),
    Case("what others use is not free", pod("p", cpu="2"), (predicates.NO_CPU,), pods=(pod("q", "a1", cpu="3"),)),
    Case("a finished pod uses nothing", pod("p", cpu="2"), pods=(pod("q", "a1", cpu="3", phase="Succeeded"),)),
    Case("exactly what is left fits", pod("p", cpu="1"), pods=(pod("q", "a1", cpu="3"),)),
    Case("all that lacks is named", pod("p", cpu="5", memory="17Gi"), (predicates.NO_CPU, predicates.NO_MEMORY)),
    Case(
        "a node holds so many pods",
        pod("p"),
        (predicates.TOO_MANY_PODS,),
        (node("a1", offers={"cpu": "4", "memory": "16Gi", "pods": "1"}),),
        (pod("q", "a1"),),
    ),
    Case("an unbound claim binds anywhere", pod("p", claims=["c"]), claims=(claim("c"),)),
    Case("a volume of the zone", pod("p", claims=["c"]), claims=(claim("c", "v"),), volumes=(volume("v", "a"),)),
    Case(
        "a volume of another zone",
        pod("p", claims=["c"]),
        (predicates.VOLUME_ELSEWHERE,),
        claims=(claim("c", "v"),),
        volumes=(volume("v", "b"),),
    ),
    Case("a volume that is gone", pod("p", claims=["c"]), (predicates.NO_VOLUME,), claims=(claim("c", "v"),)),
    Case(
        "anti-affinity by host",
        pod("p", affinity=company("podAntiAffinity", HOSTNAME, app="db")),
        (predicates.ANTI_AFFINITY,),
        pods=(pod("q", "a1", labels={"app": "db"}),),
    ),
    Case(
        "anti-affinity by host leaves the neighbour free",
        pod("p", affinity=company("podAntiAffinity", HOSTNAME, app="db")),
        nodes=(node("a1"), node("a2")),
        pods=(pod("q", "a2", labels={"app": "db"}),),
    ),
    Case(
        "anti-affinity by zone covers the neighbour",
        pod("p", affinity=company("podAntiAffinity", ZONE_LABEL, app="db")),
        (predicates.ANTI_AFFINITY,),
        (node("a1"), node("a2")),
        (pod("q", "a2", labels={"app": "db"}),),
    ),
    Case(
        "the anti-affinity of those who stand there counts, too",
        pod("p", labels={"app": "web"}),
        (predicates.EXISTING_ANTI_AFFINITY,),
        pods=(pod("q", "a1", affinity=company("podAntiAffinity", HOSTNAME, app="web")),),
    ),
    Case(
        "affinity wants company",
        pod("p", affinity=company("podAffinity", ZONE_LABEL, app="db")),
        (predicates.POD_AFFINITY,),
    ),
    Case(
        "the first of those who want each other may stand alone",
        pod("p", labels={"app": "db"}, affinity=company("podAffinity", ZONE_LABEL, app="db")),
    ),
    Case(
        "hard spread over zones",
        pod("p", labels={"app": "db"}, topologySpreadConstraints=spread(ZONE_LABEL, app="db")),
        (predicates.SPREAD,),
        (node("a1"), node("b1")),
        (pod("q", "a1", labels={"app": "db"}),),
    ),
    Case(
        "a pod that is going does not count for spread",
        pod("p", labels={"app": "db"}, topologySpreadConstraints=spread(ZONE_LABEL, app="db")),
        nodes=(node("a1"), node("b1")),
        pods=(deleting(pod("q", "a1", labels={"app": "db"})),),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_pod_may_stand_on_a_node_or_is_told_why_not(case: Case) -> None:
    around = view(case.nodes, case.pods, case.claims, case.volumes)
    assert refusals(case.pod, around.rooms[0], around) == case.reasons


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ([claim("c")], ""),
        ([], 'persistentvolumeclaim "c" not found'),
        ([deleting(claim("c"))], 'persistentvolumeclaim "c" is being deleted'),
    ],
)
def test_a_missing_claim_is_named(claims: list[Object], said: str) -> None:
    assert missing_claim(pod("p", claims=["c"]), view([node("a1")], [], claims)) == said
