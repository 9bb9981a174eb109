"""One patch for all pods of a decision and an outline, and it is the one that each would have by itself."""

import pytest
from hypothesis import given

from ebbtide import vocabulary
from ebbtide.exclusion.decide import Exclusion
from tests.ebbtide.exclusion.builders import Raw, Z, not_in, pod, term
from tests.ebbtide.exclusion.test_laws import NODES
from tests.webhook.builders import admitted
from tests.webhook.test_golden import CASES, SETTINGS, Case, named
from tests.webhook.test_laws import RULES, known, pods, unhurried
from webhook.decide import Decision
from webhook.outline import Patches, drawn, outline
from webhook.pinning import Pin
from webhook.review import encoded

# One for all pods that come, so that what one of them left behind is what the next one gets.
PATCHES = {name: Patches(rules.labels) for name, rules in SETTINGS.items()}


@pytest.mark.parametrize("case", [case for case in CASES if case.read("in")["kind"] == "Pod"], ids=named)
def test_the_patch_is_what_every_golden_pod_has_by_itself(case: Case) -> None:
    raw = case.read("in")
    _, decision, patch = admitted(raw, None, case.cluster, SETTINGS[case.rules])
    assert PATCHES[case.rules].of(raw, decision) == encoded(patch)


@unhurried
@given(pods(), NODES)
def test_and_any_other_pod(raw: Raw, nodes: list[Raw]) -> None:
    """Whatever it has, in whichever cluster, and whatever came before."""
    _, decision, patch = admitted(raw, None, known(nodes, []), RULES)
    assert PATCHES["default"].of(raw, decision) == encoded(patch)


@unhurried
@given(pods())
def test_a_pod_that_is_drawn_has_the_outline_that_it_is_drawn_after(raw: Raw) -> None:
    assert outline(drawn(outline(raw))) == outline(raw)


# All that can be added at once.
EVERYTHING = Decision(
    pool="shared",
    pin=Pin(
        pool="shared",
        group="g",
        labels=((vocabulary.POOL_LABEL, "shared"), (vocabulary.NODE_GROUP_PIN_LABEL, "g")),
        selects=True,
        tolerates=True,
        spreads=True,
        keeps_apart=True,
        warnings=(),
    ),
    exclusion=Exclusion(("a",), (Z,)),
)
PARENTS: list[Raw] = [
    {},
    {"metadata": {}},
    {"metadata": {"labels": {}}},
    {"metadata": {"annotations": {}}},
    {"metadata": {"annotations": {vocabulary.BLOCKED_ZONES_ANNOTATION: "b"}}},
    {"spec": {}},
    {"spec": {"nodeSelector": {}}},
    {"spec": {"tolerations": []}},
    {"spec": {"topologySpreadConstraints": []}},
    {"spec": {"affinity": {}}},
    {"spec": {"affinity": {"podAntiAffinity": {}}}},
    {"spec": {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}}},
    {"spec": {"affinity": {"nodeAffinity": {}}}},
    {"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}}},
]


@pytest.mark.parametrize("raw", PARENTS, ids=str)
def test_every_parent_that_is_there_counts(raw: Raw) -> None:
    """No two of these pods have one outline, and each is drawn as it is."""
    assert [outline(other) == outline(raw) for other in PARENTS].count(True) == 1
    assert outline(drawn(outline(raw))) == outline(raw)


def test_of_a_pod_only_the_outline_counts() -> None:
    """Pods that differ in all else have one patch; one that has a parent more, or other terms, has another."""
    decision, patches = EVERYTHING, Patches(RULES.labels)
    plain = patches.of({"metadata": {}, "spec": {}}, decision)
    assert patches.of({"metadata": {"name": "x"}, "spec": {"nodeName": "", "volumes": None}}, decision) is plain
    others = [each for each in PARENTS if each not in ({"metadata": {}}, {"spec": {}}, {})]
    assert plain not in [patches.of({"metadata": {}, "spec": {}} | each, decision) for each in others]
    one, two = pod(terms=[term(not_in("x"))]), pod(terms=[term(not_in("x")), term(not_in("y"))])
    assert patches.of(one, decision) != patches.of(two, decision)


@pytest.mark.parametrize("raw", [{"metadata": 1}, {"spec": {"affinity": {"nodeAffinity": []}}}], ids=str)
def test_a_wrong_type_is_an_error_here_too(raw: Raw) -> None:
    with pytest.raises(TypeError):
        Patches(RULES.labels).of(raw, EVERYTHING)
