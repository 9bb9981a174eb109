"""What a notice does to a node, as a table; the laws hold for all of them."""

from dataclasses import replace
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.model import CellLabels, Taint, node_facts
from ebbtide.notices import Kind, Notice, notice_time, patch_for
from ebbtide.vocabulary import INTERRUPTION_NOTICE_ANNOTATION, REBALANCE_NOTICE_ANNOTATION, SIGNAL_TAINT_KEY

AT = 1772366280  # 2026-03-01T11:58:00Z
REBALANCE = Notice(Kind.REBALANCE, AT)
INTERRUPTION = Notice(Kind.INTERRUPTION, AT + 120, "stop")
SIGNAL = {"key": SIGNAL_TAINT_KEY, "value": str(AT), "effect": "NoSchedule"}
OTHER_SIGNAL = {"key": SIGNAL_TAINT_KEY, "value": "a-hash", "effect": "NoExecute"}
FOREIGN = {"key": "team", "value": "x", "effect": "NoSchedule"}
TOLD = {REBALANCE_NOTICE_ANNOTATION: "2026-03-01T11:58:00Z"}
ENDS = {INTERRUPTION_NOTICE_ANNOTATION: "2026-03-01T12:00:00Z"}
OWN = {"team": "x"}

Raw = dict[str, Any]


def node(*taints: Raw, annotations: dict[str, str] | None = None) -> Raw:
    metadata: Raw = {"name": "a1", "uid": "u", "resourceVersion": "7"}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"metadata": metadata, "spec": {"taints": [dict(taint) for taint in taints]} if taints else {}}


def after(raw: Raw, notice: Notice) -> Raw:
    """The node once the notice was told."""
    patch = patch_for(node_facts(raw, CellLabels()), notice, SIGNAL_TAINT_KEY)
    changed: Raw = jsonpatch.apply_patch(raw, patch)
    return changed


CASES = {
    "a clean node": (node(), REBALANCE, node(SIGNAL, annotations=TOLD)),
    "other taints keep their place": (node(FOREIGN), REBALANCE, node(FOREIGN, SIGNAL, annotations=TOLD)),
    "other annotations stay": (node(annotations=OWN), REBALANCE, node(SIGNAL, annotations=OWN | TOLD)),
    "a signal of somebody else": (node(OTHER_SIGNAL), REBALANCE, node(OTHER_SIGNAL, annotations=TOLD)),
    "told and standing": (node(SIGNAL, annotations=TOLD), REBALANCE, node(SIGNAL, annotations=TOLD)),
    "told and taken away": (node(annotations=TOLD), REBALANCE, node(annotations=TOLD)),
    "an older one than was told": (node(annotations=TOLD), replace(REBALANCE, at=AT - 60), node(annotations=TOLD)),
    "a later one, taken away before": (
        node(annotations=TOLD),
        replace(REBALANCE, at=AT + 60),
        node(SIGNAL | {"value": str(AT + 60)}, annotations={REBALANCE_NOTICE_ANNOTATION: "2026-03-01T11:59:00Z"}),
    ),
    "a later one while it stands": (
        node(SIGNAL, annotations=TOLD),
        replace(REBALANCE, at=AT + 60),
        node(SIGNAL, annotations=TOLD),
    ),
    "an annotation that is no time": (
        node(annotations={REBALANCE_NOTICE_ANNOTATION: "soon"}),
        REBALANCE,
        node(SIGNAL, annotations=TOLD),
    ),
    "an interruption": (node(), INTERRUPTION, node(SIGNAL, annotations=ENDS)),
    "an interruption after a recommendation": (
        node(SIGNAL, annotations=TOLD),
        INTERRUPTION,
        node(SIGNAL, annotations=TOLD | ENDS),
    ),
    "an interruption after a recommendation that was taken away": (
        node(annotations=TOLD),
        INTERRUPTION,
        node(SIGNAL, annotations=TOLD | ENDS),
    ),
    "the same interruption": (node(annotations=ENDS), INTERRUPTION, node(annotations=ENDS)),
    "the same interruption, heard elsewhere": (
        node(SIGNAL, annotations=ENDS),
        replace(INTERRUPTION, at=AT + 121),
        node(SIGNAL, annotations=ENDS),
    ),
    "an interruption after the instance was started again": (
        node(annotations=ENDS),
        replace(INTERRUPTION, at=AT + 3720),
        node(
            SIGNAL | {"value": str(AT + 3600)},
            annotations={INTERRUPTION_NOTICE_ANNOTATION: "2026-03-01T13:00:00Z"},
        ),
    ),
    "fractions of a second": (node(), replace(REBALANCE, at=AT + 0.75), node(SIGNAL, annotations=TOLD)),
}


@pytest.mark.parametrize(("before", "notice", "expected"), CASES.values(), ids=CASES.keys())
def test_a_notice_is_told(before: Raw, notice: Notice, expected: Raw) -> None:
    assert after(before, notice) == expected


notices = st.builds(Notice, st.sampled_from(Kind), st.integers(AT - 500, AT + 500).map(float), st.just("stop"))
annotations = st.dictionaries(
    st.sampled_from([REBALANCE_NOTICE_ANNOTATION, INTERRUPTION_NOTICE_ANNOTATION, "team"]),
    st.sampled_from(["2026-03-01T11:58:00Z", "2026-03-01T12:00:00Z", "soon", ""]),
)
nodes = st.builds(
    lambda taints, notes: node(*taints, annotations=notes),
    st.lists(st.sampled_from([FOREIGN, OTHER_SIGNAL]), max_size=2, unique_by=lambda taint: taint["key"]),
    annotations,
)


@given(nodes, st.lists(notices, max_size=4))
def test_nothing_is_removed_and_nothing_told_twice(raw: Raw, told: list[Notice]) -> None:
    """In whatever order it is said: taints stay in their places, one signal at most, and a repetition is silent."""
    for notice in told:
        facts = node_facts(raw, CellLabels())
        changed = after(raw, notice)
        taints = node_facts(changed, CellLabels()).taints
        assert taints[: len(facts.taints)] == facts.taints
        assert sum(taint.key == SIGNAL_TAINT_KEY for taint in taints) <= 1
        assert all(taint in facts.taints or is_ours(taint) for taint in taints)
        assert patch_for(node_facts(changed, CellLabels()), notice, SIGNAL_TAINT_KEY) == []
        raw = changed


def is_ours(taint: Taint) -> bool:
    return taint.key == SIGNAL_TAINT_KEY and taint.effect == "NoSchedule" and len(taint.value) == 10


@pytest.mark.parametrize("text", [None, 5, "", "soon", "2026-03-01", "2026-03-01T11:58:00", "1970-01-01T00:00:00Z"])
def test_what_no_taint_could_carry_is_no_time(text: object) -> None:
    with pytest.raises(ValueError, match="is no time"):
        notice_time(text)


def test_a_patch_is_for_one_version_of_the_node() -> None:
    (first, *_) = patch_for(node_facts(node(), CellLabels()), REBALANCE, SIGNAL_TAINT_KEY)
    assert first == {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}
