"""Laws of the patch, for any object among any nodes: another applier, the real schemas, the scheduler's reading."""

from copy import deepcopy
from typing import Any

import kubernetes_validate
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide import vocabulary
from ebbtide.exclusion.zones import GroupZones
from tests.ebbtide.exclusion.builders import G, Raw, traits
from tests.ebbtide.exclusion.test_laws import NODES, PODS, VOLUMES, group, live, schedulable, zone, zones_of
from tests.webhook.builders import Cluster, admitted
from tests.webhook.test_golden import CASES, FOLDER, Case, named
from webhook.decide import Decision, Rules
from webhook.pointer import Draft, pointer

SCHEMAS = "1.35"
RULES = Rules()
PIN, POOL, GUARD = vocabulary.NODE_GROUP_PIN_LABEL, vocabulary.POOL_LABEL, vocabulary.GUARD_LABEL
OWN_PATHS = (
    "/metadata/annotations",
    "/metadata/labels",
    "/spec/affinity",
    "/spec/nodeSelector",
    "/spec/tolerations",
    "/spec/topologySpreadConstraints",
)
LABELS = st.one_of(
    st.just({GUARD: "enabled"}),
    st.fixed_dictionaries(
        {POOL: st.sampled_from(["shared", "dedicated"])}, optional={PIN: st.sampled_from(["g", "h"])}
    ),
)
TOLERATIONS = st.none() | st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "key": st.sampled_from([G, "other"]),
            "value": st.sampled_from(["g", "h"]),
            "effect": st.sampled_from(["NoSchedule", "NoExecute"]),
        },
    ).filter(lambda each: "key" in each),
    max_size=2,
)
ANNOTATIONS = st.none() | st.dictionaries(
    st.sampled_from(["x", vocabulary.BLOCKED_ZONES_ANNOTATION]), st.sampled_from(["a", "a,b", "c"]), max_size=2
)
NULLS = st.sets(st.sampled_from(["affinity", "tolerations", "nodeSelector"]))


@st.composite
def pods(draw: st.DrawFn) -> Raw:
    """Pods of every pool and none, with parents that are missing, null or empty, and fields of a newer cluster."""
    raw: Raw = deepcopy(draw(PODS))
    raw["metadata"]["labels"] = draw(LABELS)
    raw["metadata"]["annotations"] = draw(ANNOTATIONS)
    raw["spec"]["futureField"] = {"a": [1, 2.5, None]}
    tolerations = draw(TOLERATIONS)
    if tolerations is not None:
        raw["spec"]["tolerations"] = tolerations
    for name in draw(NULLS):
        raw["spec"].setdefault(name, None)
    return raw


def known(nodes: list[Raw], volumes: list[frozenset[str]]) -> Cluster:
    cluster = Cluster(volumes=volumes)
    zones: dict[str, GroupZones] = dict(zones_of(nodes).groups)
    object.__setattr__(cluster, "zones", zones)
    return cluster


def admit(raw: Raw, nodes: list[Raw], volumes: list[frozenset[str]] | None = None) -> tuple[Raw, Decision, list[Raw]]:
    return admitted(raw, None, known(nodes, volumes or []), RULES)


def unhurried(test: Any) -> Any:
    return settings(deadline=None, max_examples=200)(test)


@unhurried
@given(pods(), NODES, VOLUMES)
def test_only_our_own_places_are_added_to(raw: Raw, nodes: list[Raw], volumes: list[frozenset[str]]) -> None:
    """By `add`, or `replace` of what an earlier call put there; all else is as it was, in its order."""
    stored, _, ops = admit(raw, nodes, volumes)
    for each in ops:
        assert each["op"] in ("add", "replace")
        assert each["path"].startswith(OWN_PATHS)
        if each["op"] == "replace":
            assert each["path"].endswith(("/values", pointer((vocabulary.BLOCKED_ZONES_ANNOTATION,))))
    assert keeps(raw, stored)


def keeps(before: Any, after: Any) -> bool:
    """Whether everything of `before` is still there; what an earlier call of ours excluded may have changed."""
    pairs = [(before, after)]
    for old, new in pairs:
        if type(old) is dict:
            ours = {vocabulary.BLOCKED_ZONES_ANNOTATION, *(("values",) if old.get("operator") == "NotIn" else ())}
            if type(new) is not dict or not old.keys() <= new.keys():
                return False
            pairs += [(old[key], new[key]) for key in old if key not in ours]
        elif type(old) is list:
            if type(new) is not list or len(new) < len(old):
                return False
            pairs += zip(old, new, strict=False)
        elif old is not None and old != new:
            return False
    return True


@unhurried
@given(pods(), NODES, VOLUMES)
def test_a_second_pass_finds_nothing_to_do(raw: Raw, nodes: list[Raw], volumes: list[frozenset[str]]) -> None:
    """However the object came to be as it is."""
    stored, _, _ = admit(raw, nodes, volumes)
    assert admit(stored, nodes, volumes)[2] == []


@unhurried
@given(pods(), NODES)
def test_the_scheduler_puts_the_pod_into_no_excluded_zone(raw: Raw, nodes: list[Raw]) -> None:
    """Whichever of its alternatives it takes; and a pod that is only guarded may go wherever else it could before."""
    plain = deepcopy(raw)
    plain["metadata"]["annotations"] = None
    stored, decision, _ = admit(plain, nodes)
    excluded = decision.exclusion.zones
    for node in live(nodes):
        if zone(node) in excluded and group(node) in _usable(plain, nodes):
            assert not schedulable(_filled(stored), node)
        elif zone(node) not in excluded and decision.pin is None:
            assert schedulable(_filled(stored), node) == schedulable(_filled(plain), node)


def _filled(raw: Raw) -> Raw:
    return {**raw, "spec": {**raw["spec"], "nodeSelector": raw["spec"].get("nodeSelector") or {}}}


def _usable(raw: Raw, nodes: list[Raw]) -> set[str]:
    return set(traits(raw).groups()) or {group(node) for node in nodes}


@unhurried
@given(pods(), NODES)
def test_what_is_stored_is_a_pod_by_the_real_schema(raw: Raw, nodes: list[Raw]) -> None:
    """As far as it was one before."""
    kubernetes_validate.validate(admit(raw, nodes)[0], SCHEMAS)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_every_golden_object_is_valid_by_the_real_schema(case: Case) -> None:
    """So that the files beside it show what a cluster would take."""
    assert (FOLDER / case.name / "out.json").exists()
    kubernetes_validate.validate(case.read("out"), SCHEMAS)


@pytest.mark.parametrize(
    ("key", "written"), [("a.b/c~d", "/a.b~1c~0d"), ("x~1y", "/x~01y"), ("plain", "/plain"), ("", "/")]
)
def test_wh_05_keys_are_escaped_in_the_right_order(key: str, written: str) -> None:
    """First the tilde, then the slash."""
    assert pointer((key,)) == written


@pytest.mark.parametrize("root", [{"spec": "text"}, {"spec": []}, {"spec": {"list": {}}}])
def test_an_object_of_another_shape_is_an_error(root: Raw) -> None:
    """Never a patch that might apply somewhere else."""
    with pytest.raises(TypeError):
        Draft(root).append(("spec", "list"), 1)
