"""What a write does to a node as the API server stores it."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.model import CellLabels, NodeFacts, node_facts
from reconciler.rebalance.act import patch_of
from reconciler.rebalance.plan import Change, NodeWrite
from tests.reconciler.rebalance.builders import DEFAULTS, NOW, PREVENT, plan_of, rules
from tests.reconciler.rebalance.builders import cell as cell_of

Raw = dict[str, Any]
OURS = {"key": PREVENT, "value": "1772366000", "effect": "NoSchedule"}
NEW = {"key": PREVENT, "value": "1772366400", "effect": "NoSchedule"}
X, Y, Z = ({"key": key, "value": "1", "effect": "NoSchedule"} for key in ("x", "y", "z"))
OTHER_EFFECT = {"key": PREVENT, "value": "true", "effect": "NoExecute"}
DATED = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-03-01T11:00:00Z"}
SEEN = "ebbtide/rebalance-signal-first-seen"
LEAVE, SET, REMOVE = Change.LEAVE, Change.SET, Change.REMOVE
ABSENT = object()


def raw_node(taints: object = ABSENT, annotations: object = ABSENT, **metadata: Any) -> Raw:
    """A Node as the API server gives it, with or without these fields."""
    node: Raw = {
        "metadata": {
            "name": "a1",
            "uid": "u1",
            "resourceVersion": "4711",
            "creationTimestamp": "2026-02-01T00:00:00Z",
            "labels": {"serverless.tidbcloud.com/node": "g", "topology.kubernetes.io/zone": "a"},
            **metadata,
        },
        "spec": {"providerID": "aws:///a/i-1"},
        "status": {},
    }
    if taints is not ABSENT:
        node["spec"]["taints"] = taints
    if annotations is not ABSENT:
        node["metadata"]["annotations"] = annotations
    return node


def facts_of(raw: Mapping[str, Any]) -> NodeFacts:
    return node_facts(raw, CellLabels())


def written(raw: Raw, prevent: Change = LEAVE, first_seen: Change = LEAVE, now: float = NOW) -> Raw:
    """The node after the write."""
    patch = patch_of(NodeWrite(facts_of(raw), prevent, first_seen, signalled=False), DEFAULTS, now)
    result: Raw = jsonpatch.apply_patch(deepcopy(raw), patch)
    return result


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        pytest.param(ABSENT, SET, [NEW], id="no taints field"),
        pytest.param(None, SET, [NEW], id="taints null"),
        pytest.param([], SET, [NEW], id="taints empty"),
        pytest.param([X], SET, [X, NEW], id="behind another"),
        pytest.param([X, Y, Z], SET, [X, Y, Z, NEW], id="NR-20 behind all others"),
        pytest.param([OTHER_EFFECT], SET, [OTHER_EFFECT, NEW], id="NR-23 beside one with another effect"),
        pytest.param([DATED], SET, [DATED, NEW], id="a dated one keeps its date"),
        pytest.param([OURS], REMOVE, [], id="the only one"),
        pytest.param([OURS, X], REMOVE, [X], id="the first"),
        pytest.param([X, OURS, Y], REMOVE, [X, Y], id="NR-21 in the middle"),
        pytest.param([X, Y, OURS], REMOVE, [X, Y], id="the last"),
        pytest.param([OTHER_EFFECT, OURS], REMOVE, [OTHER_EFFECT], id="NR-23 the one with our effect, behind"),
        pytest.param([OURS, OTHER_EFFECT], REMOVE, [OTHER_EFFECT], id="NR-23 the one with our effect, in front"),
        pytest.param([DATED, OURS], REMOVE, [DATED], id="beside a dated one"),
    ],
)
def test_foreign_taints_stay_as_and_where_they_are(before: object, change: Change, after: list[Raw]) -> None:
    """NR-20, NR-21: ours goes to the end, and only ours goes."""
    assert written(raw_node(before), prevent=change)["spec"]["taints"] == after


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        pytest.param(ABSENT, SET, {SEEN: "2026-03-01T12:00:00Z"}, id="no annotations field"),
        pytest.param(None, SET, {SEEN: "2026-03-01T12:00:00Z"}, id="annotations null"),
        pytest.param({}, SET, {SEEN: "2026-03-01T12:00:00Z"}, id="annotations empty"),
        pytest.param({"a": "b"}, SET, {"a": "b", SEEN: "2026-03-01T12:00:00Z"}, id="beside others"),
        pytest.param({SEEN: "nonsense"}, SET, {SEEN: "2026-03-01T12:00:00Z"}, id="in place of an unreadable one"),
        pytest.param({SEEN: "x"}, REMOVE, {}, id="the only one"),
        pytest.param({"a": "b", SEEN: "x"}, REMOVE, {"a": "b"}, id="one of several"),
    ],
)
def test_foreign_annotations_stay(before: object, change: Change, after: Raw) -> None:
    """The parent is made where there is none, and never over one that has something in it."""
    assert written(raw_node(annotations=before), first_seen=change)["metadata"]["annotations"] == after


@pytest.mark.parametrize("prevent", [SET, REMOVE, LEAVE])
@pytest.mark.parametrize("first_seen", [SET, REMOVE, LEAVE])
def test_a_write_relies_on_the_version_that_was_decided_on(prevent: Change, first_seen: Change) -> None:
    """NR-22: its first operation, so that a changed node is refused before anything else is looked at."""
    raw = raw_node([X, OURS], {SEEN: "x"})
    patch = patch_of(NodeWrite(facts_of(raw), prevent, first_seen, signalled=True), DEFAULTS, NOW)
    assert patch[0] == {"op": "replace", "path": "/metadata/resourceVersion", "value": "4711"}
    assert len(patch) == 1 + (prevent is not LEAVE) + (first_seen is not LEAVE)


def test_taint_and_annotation_are_one_request() -> None:
    """NR-23."""
    after = written(raw_node([X]), prevent=SET, first_seen=SET)
    assert after["spec"]["taints"] == [X, NEW]
    assert after["metadata"]["annotations"] == {SEEN: "2026-03-01T12:00:00Z"}


@pytest.mark.parametrize(("now", "value"), [(NOW, "1772366400"), (NOW + 0.999, "1772366400"), (1e9, "1000000000")])
def test_the_taint_s_value_is_the_second_it_was_set(now: float, value: str) -> None:
    """Whole seconds: a label value has no room for more."""
    assert written(raw_node(), prevent=SET, now=now)["spec"]["taints"][0]["value"] == value


def test_the_configured_key_is_written() -> None:
    """With the one effect that it always has."""
    settings = rules(prevent_ca_scale_up_taint_key="example.com/closed")
    patch = patch_of(NodeWrite(facts_of(raw_node()), SET, LEAVE, signalled=False), settings, NOW)
    assert patch[1]["value"] == [{"key": "example.com/closed", "value": "1772366400", "effect": "NoSchedule"}]


def test_a_first_seen_time_is_never_before_the_node() -> None:
    """Where our clock is behind the API server's, it would be taken for an earlier node's, and written for ever."""
    raw = raw_node([{"key": DEFAULTS.rebalance_signal_taint_key, "effect": "NoSchedule"}])
    raw["metadata"]["creationTimestamp"] = "2026-03-01T12:00:07Z"
    plan = plan_of(cell_of(facts_of(raw)))
    assert [write.first_seen for write in plan.writes] == [SET]
    after = written(raw, first_seen=SET)
    assert after["metadata"]["annotations"][SEEN] == "2026-03-01T12:00:07Z"
    assert not plan_of(cell_of(facts_of(after))).writes


def test_a_first_seen_time_that_is_known_is_written_however_late() -> None:
    write = NodeWrite(facts_of(raw_node()), LEAVE, SET, signalled=True, seen_at=NOW - 90)
    (_, annotation) = patch_of(write, DEFAULTS, NOW)
    assert "2026-03-01T11:58:30Z" in str(annotation["value"])


KEYS = st.sampled_from(["x", "y", "team/owner", PREVENT, DEFAULTS.rebalance_signal_taint_key, "a~b"])
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
# The API server allows one entry per key and effect.
TAINTS = st.lists(
    st.fixed_dictionaries(
        {"key": KEYS, "effect": EFFECTS},
        optional={"value": st.sampled_from(["", "1"]), "timeAdded": st.just("2026-03-01T11:00:00Z")},
    ),
    unique_by=lambda taint: (taint["key"], taint["effect"]),
    max_size=8,
)


def _is_ours(taint: Mapping[str, Any]) -> bool:
    return (taint["key"], taint["effect"]) == (PREVENT, "NoSchedule")


@given(TAINTS, st.dictionaries(st.sampled_from(["a", "b/c", "d~e", SEEN]), st.text(max_size=3)))
def test_whatever_the_node_carries_only_our_marks_change(taints: list[Raw], annotations: dict[str, str]) -> None:
    """NR-20: foreign taints, their order and everything else of the node survive, and ours is as planned."""
    raw = raw_node(taints, annotations)
    facts = facts_of(raw)
    carries = any(map(_is_ours, taints))
    for prevent in (REMOVE, LEAVE) if carries else (SET, LEAVE):
        for first_seen in (SET, LEAVE, *([REMOVE] if facts.first_seen is not None else [])):
            after = written(raw, prevent, first_seen)
            assert [t for t in after["spec"]["taints"] if not _is_ours(t)] == [t for t in taints if not _is_ours(t)]
            assert any(map(_is_ours, after["spec"]["taints"])) is (prevent is SET or (carries and prevent is LEAVE))
            noted = {SEEN} if first_seen is SET or (SEEN in annotations and first_seen is LEAVE) else set()
            assert after["metadata"]["annotations"].keys() == (annotations.keys() - {SEEN}) | noted
            assert all(after["metadata"]["annotations"][k] == v for k, v in annotations.items() if k != SEEN)
            after["spec"]["taints"], after["metadata"]["annotations"] = taints, annotations
            assert after == raw


@given(TAINTS, st.booleans(), st.integers(-5, 5))
def test_a_plan_written_and_read_back_leaves_nothing_to_write(taints: list[Raw], annotated: bool, younger: int) -> None:
    """From the stored object to the stored object: no second write for one change."""
    raw = raw_node(taints, {SEEN: "2026-03-01T11:59:00Z"} if annotated else ABSENT)
    raw["metadata"]["creationTimestamp"] = (
        f"2026-03-01T11:59:0{5 + younger}Z" if younger < 5 else "2026-03-01T12:00:09Z"
    )
    for write in plan_of(cell_of(facts_of(raw))).writes:
        raw = jsonpatch.apply_patch(raw, patch_of(write, DEFAULTS, NOW))
    assert not plan_of(cell_of(facts_of(raw))).writes
