"""Laws of the patch for StatefulSets: their template is pinned, once, and depends on nothing in the cluster."""

from copy import deepcopy
from typing import Any

import kubernetes_validate
from hypothesis import assume, given
from hypothesis import strategies as st

from ebbtide import vocabulary
from tests.ebbtide.exclusion.builders import Raw
from tests.ebbtide.exclusion.test_laws import NODES, PODS
from tests.webhook.builders import admitted
from tests.webhook.test_laws import ANNOTATIONS, LABELS, RULES, SCHEMAS, TOLERATIONS, keeps, known, unhurried
from webhook.decide import Decision, Untouched

# Where something may be added, below the template.
_OWN_PATHS = (
    "metadata/labels",
    "spec/affinity/podAntiAffinity",
    "spec/nodeSelector",
    "spec/tolerations",
    "spec/topologySpreadConstraints",
)
_NOTHING = st.sampled_from(["missing", "null", "empty"])
# Everything that holds something else, and can be missing, null or empty.
_PARENTS = (
    *(("metadata",), ("metadata", "labels"), ("spec",), ("spec", "template"), ("spec", "template", "metadata")),
    *(("spec", "template", "metadata", "labels"), ("spec", "template", "metadata", "annotations")),
    *(
        ("spec", "template", "spec"),
        ("spec", "template", "spec", "affinity"),
        ("spec", "template", "spec", "nodeSelector"),
    ),
    *(("spec", "template", "spec", "tolerations"), ("spec", "template", "spec", "topologySpreadConstraints")),
)
_LISTS = ("tolerations", "topologySpreadConstraints")
_LACKING = st.dictionaries(st.sampled_from(_PARENTS), _NOTHING, max_size=2)


@st.composite
def whole_sets(draw: st.DrawFn) -> Raw:
    """StatefulSets of every pool and none, as an API server has them, with fields of a newer cluster."""
    template: Raw = deepcopy(draw(PODS))
    del template["kind"], template["apiVersion"]
    template["metadata"] = {"labels": {"app": "x", **draw(LABELS)}, "annotations": draw(ANNOTATIONS)}
    template["spec"] |= {"futureField": {"a": [1, 2.5, None]}, "tolerations": draw(TOLERATIONS)}
    spec = {"serviceName": "s", "replicas": 1, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    metadata = {"name": "s", "namespace": "default", "labels": draw(st.none() | LABELS)}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}


@st.composite
def sets(draw: st.DrawFn) -> Raw:
    """The same, but for parents that are missing, null or empty."""
    raw = draw(whole_sets())
    for path, how in draw(_LACKING).items():
        _take_away(raw, path, how)
    return raw


def _take_away(raw: Raw, path: tuple[str, ...], how: str) -> None:
    *above, name = path
    place: Any = raw
    for step in above:
        place = place.get(step)
        if not place:
            return
    if how == "missing":
        place.pop(name, None)
    else:
        empty: Any = [] if name in _LISTS else {}
        place[name] = None if how == "null" else empty


def admit(raw: Raw, old: Raw | None, nodes: list[Raw]) -> tuple[Raw, Decision, list[Raw]]:
    return admitted(raw, old, known(nodes, []), RULES)


@st.composite
def updates(draw: st.DrawFn) -> tuple[Raw, Raw]:
    """A StatefulSet, and another one that has the same template, if only by lacking it in another way."""
    new = draw(sets())
    old = {**deepcopy(new), "metadata": {"name": "s", "labels": draw(LABELS), "annotations": {"scaled": "once"}}}
    if isinstance(new.get("spec"), dict):
        old["spec"] = {**deepcopy(new["spec"]), "replicas": draw(st.integers(0, 9))}
    if not (new.get("spec") or {}).get("template"):
        old["spec"] = draw(st.sampled_from([None, {}, {"template": None}, {"template": {}}]))
    return new, old


@unhurried
@given(sets(), st.none() | sets(), NODES)
def test_only_our_own_places_of_the_template_are_added_to(raw: Raw, old: Raw | None, nodes: list[Raw]) -> None:
    """Or, where they are missing, what they would be in; all else is as it was, in its order."""
    stored, _, ops = admit(raw, old, nodes)
    places = [f"/spec/template/{path}/" for path in _OWN_PATHS]
    for each in ops:
        assert each["op"] == "add"
        assert any(f"{each['path']}/".startswith(place) or place.startswith(f"{each['path']}/") for place in places)
    assert keeps(raw, stored)


@unhurried
@given(sets(), NODES, NODES)
def test_nothing_depends_on_the_cluster(raw: Raw, nodes: list[Raw], others: list[Raw]) -> None:
    """A template that did would roll its pods with every block; and no zone is ever excluded in it."""
    _, decision, ops = admit(raw, None, nodes)
    assert ops == admit(raw, None, others)[2]
    assert not decision.exclusion.zones
    assert "NotIn" not in str(ops)
    assert vocabulary.BLOCKED_ZONES_ANNOTATION not in str(ops)


@unhurried
@given(sets(), st.none() | sets(), NODES)
def test_a_second_pass_finds_nothing_to_do(raw: Raw, old: Raw | None, nodes: list[Raw]) -> None:
    """As a creation, and as an update from what there was before, or from what it has become."""
    stored, _, _ = admit(raw, old, nodes)
    assert admit(stored, None if old is None else raw, nodes)[2] == []
    assert admit(stored, old, nodes)[2] == []


@unhurried
@given(updates(), NODES)
def test_who_leaves_the_template_alone_gets_no_patch(update: tuple[Raw, Raw], nodes: list[Raw]) -> None:
    """Whatever it lacks: a StatefulSet that was there before the product is not rolled by being scaled."""
    new, old = update
    _, decision, ops = admit(new, old, nodes)
    assert (ops, decision.skipped) == ([], Untouched.TEMPLATE)


@unhurried
@given(whole_sets(), st.none() | whole_sets(), st.sets(st.sampled_from(_PARENTS[6:]), max_size=2), NODES)
def test_what_is_stored_is_a_stateful_set_by_the_real_schema(
    raw: Raw, old: Raw | None, lacking: set[tuple[str, ...]], nodes: list[Raw]
) -> None:
    """As it was one before."""
    for path in sorted(lacking - {("spec", "template", "spec")}):
        _take_away(raw, path, "missing")
    kubernetes_validate.validate(admit(raw, old, nodes)[0], SCHEMAS)


@unhurried
@given(whole_sets(), NODES)
def test_pods_of_a_pinned_template_need_no_pin(raw: Raw, nodes: list[Raw]) -> None:
    """So that a StatefulSet and its pods are of one mind, and a revision says all that will run."""
    stored, decision, _ = admit(raw, None, nodes)
    assume(decision.pin is not None)
    template = stored["spec"]["template"]
    made = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "s-0", **template["metadata"]},
        "spec": template["spec"],
    }
    _, of_pod, _ = admitted(made, None, known(nodes, []), RULES)
    if of_pod.pin is not None:
        pin = of_pod.pin
        assert (pin.labels, pin.selects, pin.tolerates, pin.spreads, pin.keeps_apart) == (
            (),
            False,
            False,
            False,
            False,
        )
