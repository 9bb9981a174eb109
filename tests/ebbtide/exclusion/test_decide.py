"""Which zones a pod is kept out of: one row per case."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from ebbtide import vocabulary
from ebbtide.exclusion.decide import LONGEST_WARNING, Concern, Skip
from tests.ebbtide.exclusion.builders import (
    DEFAULT_NODES,
    GUARDED,
    OLD_Z,
    POOL,
    G,
    Raw,
    Z,
    answer,
    expression,
    not_in,
    pod,
    required,
    term,
)

PREVENT = vocabulary.PREVENT_TAINT_KEY
PIN = vocabulary.NODE_GROUP_PIN_LABEL
DISABLED = {vocabulary.GUARD_LABEL: "disabled"}
NONE: dict[str, str] = {}


@dataclass(frozen=True)
class Case:
    """A pod among nodes, the zones it is kept out of, and if none why."""

    name: str
    pod: Raw
    zones: str = ""
    skipped: Skip | None = None
    nodes: str = DEFAULT_NODES
    warns: Concern | None = None
    around: dict[str, Any] = field(default_factory=dict)


def owner(kind: str) -> Raw:
    return {"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "u", "controller": True}


def tolerating(**toleration: str) -> Raw:
    return pod(tolerations=[toleration])


OPT_IN = [
    Case("WH-01 guarded", pod(), "a"),
    Case("a shared pool", pod(labels=POOL), "a"),
    Case("a dedicated pool", pod(labels={vocabulary.POOL_LABEL: "dedicated"}), "a"),
    Case("WH-18 neither pool nor guard", pod(labels=NONE), skipped=Skip.NOT_OPTED_IN),
    Case("another value of the guard", pod(labels={vocabulary.GUARD_LABEL: "yes"}), skipped=Skip.NOT_OPTED_IN),
    Case("WH-18 opted out", pod(labels=DISABLED), skipped=Skip.OPTED_OUT),
    Case("WH-18 opted out with a pool", pod(labels={**POOL, **DISABLED}), skipped=Skip.OPTED_OUT),
    Case("WH-63 a plain pod of a guarded namespace", pod(labels=NONE), "a", around={"guarded": True}),
    Case("WH-63 with the label too", pod(), "a", around={"guarded": True}),
    Case("WH-63 opted out there", pod(labels=DISABLED), skipped=Skip.OPTED_OUT, around={"guarded": True}),
]

LEFT_ALONE = [
    Case("WH-18 bound", pod(nodeName="n1"), skipped=Skip.BOUND),
    Case("nodeName empty", pod(nodeName=""), "a"),
    Case("WH-18 static", pod(annotations={vocabulary.MIRROR_POD_ANNOTATION: "x"}), skipped=Skip.STATIC),
    Case("static by its owner", pod(owner={"kind": "Node", "name": "n", "uid": "u"}), skipped=Skip.STATIC),
    Case("WH-18 of a DaemonSet", pod(owner=owner("DaemonSet")), skipped=Skip.DAEMON_SET),
    Case("a DaemonSet owns, another controls", pod(owner={**owner("DaemonSet"), "controller": False}), "a"),
    Case("of a ReplicaSet", pod(owner=owner("ReplicaSet")), "a"),
    Case("WH-18 tolerates by key", tolerating(key=PREVENT, operator="Exists"), skipped=Skip.TOLERATES),
    Case("WH-18 tolerates everything", tolerating(operator="Exists"), skipped=Skip.TOLERATES),
    Case(
        "tolerates with the effect",
        tolerating(key=PREVENT, operator="Exists", effect="NoSchedule"),
        skipped=Skip.TOLERATES,
    ),
    Case("tolerates another effect", tolerating(key=PREVENT, operator="Exists", effect="NoExecute"), "a"),
    Case("tolerates one value, which is one node's", tolerating(key=PREVENT, value="1772366400"), "a"),
    Case("tolerates something else", tolerating(key="team", operator="Exists"), "a"),
    Case("tolerations null", pod(tolerations=None), "a"),
    Case("WH-08 only empty terms", pod(terms=[{}]), skipped=Skip.FITS_NO_NODE),
    Case("WH-07 an empty term beside another", pod(terms=[{}, term(expression("x", "Exists"))]), "a"),
    Case("WH-02 affinity null", pod(affinity=None), "a"),
    Case("WH-02 affinity empty", pod(affinity={"nodeAffinity": None}), "a"),
]

MANY = "a! b! c"
ZONES = [
    Case("WH-23 one of ten nodes", pod(), "a", nodes="a! a a a a a a a a a b"),
    Case("WH-23 only a dying node", pod(), nodes="a!~ a b"),
    Case("WH-23 another group's", pod(), nodes="a b h/a! h/b"),
    Case("WH-23 two zones", pod(), "a,c", nodes="a! b c!"),
    Case("nothing is blocked", pod(), nodes="a b c"),
    Case("no node of the group", pod(), nodes="h/a!"),
    Case("no node at all", pod(), nodes=""),
    Case("sorted as text", pod(), "z10,z2", nodes="z2! z10! z3"),
    Case("WH-26 every zone", pod(), nodes="a! b! c!", skipped=Skip.LAST_ZONE, warns=Concern.LAST_ZONE),
    Case("WH-26 all but one", pod(), "a,b", nodes=MANY),
    Case("WH-26 the group's only zone", pod(), nodes="a!", skipped=Skip.LAST_ZONE, warns=Concern.LAST_ZONE),
    Case(
        "the open zone has only a dying node",
        pod(),
        nodes="a! b~",
        skipped=Skip.LAST_ZONE,
        warns=Concern.LAST_ZONE,
    ),
    Case("WH-13 the user pins by selector", pod(selector={G: "g", Z: "a"}), "a", warns=Concern.PINNED),
    Case("WH-13 pins by the old label", pod(selector={G: "g", OLD_Z: "a"}), "a", warns=Concern.PINNED),
    Case("WH-13 pins by affinity", pod(terms=[term(expression(Z, "In", "a"))]), "a", warns=Concern.PINNED),
    Case("pins into an open zone", pod(selector={G: "g", Z: "b"}), "a"),
    Case("limits to a blocked and an open zone", pod(terms=[term(expression(Z, "In", "a", "b"))]), "a"),
    Case(
        "one of two terms leads elsewhere",
        pod(terms=[term(expression(Z, "In", "a")), term(expression("x", "Exists"))]),
        "a",
    ),
    Case("WH-10 the user excludes it already", pod(terms=[term(not_in("b", "a"))]), "a"),
]

H_CLEAN = "a! a b c h/a h/b"
H_BLOCKED = "a! a b c h/a! h/b"


def in_groups(*groups: str) -> Raw:
    return term(expression(G, "In", *groups))


GROUPS = [
    Case("WH-24 the selector before the label", pod(labels={**GUARDED, PIN: "h"}), "a", nodes=H_CLEAN),
    Case(
        "WH-24 the affinity before the label",
        pod(selector={}, labels={**GUARDED, PIN: "h"}, terms=[in_groups("g")]),
        "a",
        nodes=H_CLEAN,
    ),
    Case("WH-24 the selector before the affinity", pod(selector={G: "h"}, terms=[in_groups("g")]), nodes=H_CLEAN),
    Case("WH-24 only the label", pod(selector={}, labels={**GUARDED, PIN: "g"}), "a", nodes=H_CLEAN),
    Case("WH-24 several groups", pod(selector={}, terms=[in_groups("g", "h")]), nodes=H_CLEAN),
    Case("WH-24 several groups, blocked for both", pod(selector={}, terms=[in_groups("g", "h")]), "a", nodes=H_BLOCKED),
    Case("several groups in several terms", pod(selector={}, terms=[in_groups("g"), in_groups("h")]), nodes=H_CLEAN),
    Case(
        "several expressions of one term leave one group",
        pod(selector={}, terms=[term(expression(G, "In", "g", "h"), expression(G, "In", "g", "i"))]),
        "a",
        nodes=H_CLEAN,
    ),
    Case(
        "a term without a group leaves the label",
        pod(selector={}, labels={**GUARDED, PIN: "g"}, terms=[in_groups("h"), term(expression("x", "Exists"))]),
        "a",
        nodes=H_CLEAN,
    ),
    Case(
        "a group of several that has no node there",
        pod(selector={}, terms=[in_groups("g", "h")]),
        "a",
        nodes="a! b h/b",
    ),
    Case("WH-24 no group", pod(selector={}), nodes=H_CLEAN),
    Case("WH-24 no group, blocked for every one there", pod(selector={}), "a", nodes=H_BLOCKED),
    Case("no group, a third one there is clean", pod(selector={}), nodes=f"{H_BLOCKED} i/a"),
    Case("no group, a third one elsewhere", pod(selector={}), "a", nodes=f"{H_BLOCKED} i/c"),
    Case("WH-22 the pool's default", pod(selector={}, labels=POOL), "a", nodes=H_CLEAN, around={"shared_group": "g"}),
    Case("the pool has no default", pod(selector={}, labels=POOL), nodes=H_CLEAN),
    Case("a default is for the pool only", pod(selector={}), nodes=H_CLEAN, around={"shared_group": "g"}),
    Case(
        "a default is for the shared pool only",
        pod(selector={}, labels={vocabulary.POOL_LABEL: "dedicated"}),
        nodes=H_CLEAN,
        around={"shared_group": "g"},
    ),
    Case(
        "the label before the pool's default",
        pod(selector={}, labels={**POOL, PIN: "h"}),
        nodes=H_CLEAN,
        around={"shared_group": "g"},
    ),
    Case("a selector for something else", pod(selector={"disk": "ssd"}), nodes=H_CLEAN),
]


def lying(*volumes: str) -> dict[str, Any]:
    return {"volumes": [zones.split(",") for zones in volumes]}


def held(name: str, *volumes: str, nodes: str = DEFAULT_NODES) -> Case:
    """Nothing is excluded, because of these volumes."""
    return Case(name, pod(labels=POOL), "", Skip.VOLUME, nodes, Concern.VOLUME, lying(*volumes))


VOLUMES = [
    held("WH-27 a volume in the blocked zone", "a"),
    Case("WH-27 and another zone", pod(), "b", nodes=MANY, around=lying("a"), warns=Concern.VOLUME),
    Case("WH-27 nothing known of volumes", pod(), "a,b", nodes=MANY),
    Case("a volume in an open zone", pod(), "a", around=lying("b")),
    Case("a volume that an open zone reaches too", pod(), "a", around=lying("a,b")),
    held("a volume in both blocked zones", "a,b", nodes=MANY),
    held("two volumes that meet in the blocked zone", "a,b", "a,c"),
    held("two volumes that meet nowhere", "a", "b", nodes=MANY),
    held("two volumes of which one is elsewhere", "a", "c"),
    Case(
        "every zone is blocked",
        pod(),
        nodes="a! b!",
        around=lying("a"),
        skipped=Skip.LAST_ZONE,
        warns=Concern.LAST_ZONE,
    ),
]


@pytest.mark.parametrize("case", [*OPT_IN, *LEFT_ALONE, *ZONES, *GROUPS, *VOLUMES], ids=lambda case: case.name)
def test_a_pod_is_kept_out_of_exactly_these_zones(case: Case) -> None:
    """And the answer says why it is of none, and what its owner should know."""
    exclusion = answer(case.pod, case.nodes, **case.around)
    assert ",".join(exclusion.zones) == case.zones == exclusion.annotation
    assert exclusion.skipped is case.skipped
    assert [caution.concern for caution in exclusion.warnings] == [case.warns] * (case.warns is not None)


@pytest.mark.parametrize(
    ("nodes", "labels"),
    [
        ("a! b", (Z,)),
        ("a'! b'", (OLD_Z,)),
        ("a! a' b", (OLD_Z, Z)),
        ("a! b'", (Z,)),
        ("a! b a'~", (Z,)),
    ],
)
def test_wh_25_the_label_is_the_one_that_nodes_of_the_zone_carry(nodes: str, labels: tuple[str, ...]) -> None:
    """All of them where nodes differ: an expression on a label that a node lacks would let the pod in."""
    assert answer(pod(), nodes).zone_labels == labels


@pytest.mark.parametrize("reason", Skip)
def test_each_reason_for_excluding_nothing_has_words(reason: Skip) -> None:
    """Explanations of waiting pods and of admission put them into a sentence of theirs."""
    assert reason.words.split()[0] in ("it", "its", "every", "all", "nothing")


def test_wh_58_a_warning_is_short_however_many_zones_there_are() -> None:
    """Twenty zones with names of sixty characters still make one line."""
    names = [f"{letter * 58}-1" for letter in "abcdefghijklmnopqrst"]
    for raw, nodes in (
        (pod(terms=[term(expression(Z, "In", *names))]), " ".join(f"{name}!" for name in names) + " z"),
        (pod(), " ".join(f"{name}!" for name in names)),
    ):
        warnings = answer(raw, nodes).warnings
        assert len(warnings) == 1
        assert len(warnings[0].words) <= LONGEST_WARNING


@pytest.mark.parametrize(
    "broken",
    [
        {"tolerations": "all"},
        {"tolerations": ["all"]},
        {"affinity": []},
        {"nodeSelector": "g"},
        {"nodeSelector": {G: 1}},
        {"volumes": {}},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": {}}}}},
        {"affinity": required(term({"key": Z, "operator": "NotIn", "values": {"a": "b"}}))},
        {"affinity": required(term({"key": Z, "operator": "NotIn", "values": "a"}))},
        {"affinity": required(term({"key": Z, "operator": "In", "values": [1]}))},
    ],
)
def test_wh_32_what_makes_no_sense_is_an_error_and_no_answer(broken: dict[str, Any]) -> None:
    """Never a guess: who asked must be able to tell a fault from 'nothing to exclude'."""
    with pytest.raises(TypeError):
        answer(pod(**broken))
