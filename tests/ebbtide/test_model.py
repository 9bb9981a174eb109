"""Facts as they are read from raw objects, also from objects with fields missing, null or nonsense."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.model import (
    Cell,
    CellLabels,
    NodeFacts,
    Owner,
    PodFacts,
    Taint,
    Toleration,
    claim_facts,
    format_time,
    namespace_facts,
    node_facts,
    parse_time,
    pod_facts,
    volume_facts,
)

Raw = dict[str, Any]
GROUP, ZONE = "serverless.tidbcloud.com/node", "topology.kubernetes.io/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
NOON, NOON_TEXT = 1772366400.0, "2026-03-01T12:00:00Z"
SIGNAL = Taint("aws-node-termination-handler/rebalance-recommendation", "hash", "NoSchedule")

RAW_NODE: Raw = {
    "metadata": {
        "name": "ip-10-0-0-1",
        "uid": "u1",
        "resourceVersion": "4711",
        "creationTimestamp": NOON_TEXT,
        "labels": {GROUP: "g", ZONE: "a", "other": "x"},
        "annotations": {"other": "x"},
    },
    "spec": {"providerID": "aws:///a/i-1", "taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]},
    "status": {
        "conditions": [
            {"type": "MemoryPressure", "status": "False", "lastTransitionTime": NOON_TEXT},
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-01T12:00:30Z"},
        ],
        "images": [{"names": ["x"], "sizeBytes": 1}],
    },
}
RAW_POD: Raw = {
    "metadata": {
        "name": "web-0",
        "namespace": "default",
        "uid": "p1",
        "resourceVersion": "12",
        "labels": {"ebbtide/pool": "shared"},
        "ownerReferences": [{"kind": "StatefulSet", "name": "web", "uid": "s1", "controller": True}],
    },
    "spec": {"nodeName": "ip-10-0-0-1", "priority": 7},
    "status": {"phase": "Running"},
}


def changed(raw: Raw, path: str, *value: Any) -> Raw:
    """A copy with the field at the dotted path set to a value, or gone without one."""
    result = deepcopy(raw)
    *parents, last = path.split(".")
    place = result
    for parent in parents:
        place = place[parent]
    if value:
        place[last] = value[0]
    else:
        place.pop(last, None)
    return result


def node_of(path: str, *value: Any) -> NodeFacts:
    return node_facts(changed(RAW_NODE, path, *value), CellLabels())


def pod_of(path: str, *value: Any) -> PodFacts:
    return pod_facts(changed(RAW_POD, path, *value))


# --- times ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-03-01T12:00:00Z", NOON),
        ("2026-03-01T12:00:00+00:00", NOON),
        ("2026-03-01T13:30:00+01:30", NOON),
        ("2026-03-01T04:00:00-08:00", NOON),
        ("2026-03-01T12:00:00.5Z", NOON + 0.5),
        ("2026-03-01T12:00:00.123456Z", NOON + 0.123456),
        ("2026-03-01T12:00:00.123456789Z", NOON + 0.123456),
        ("1970-01-01T00:00:00Z", 0.0),
        ("1969-12-31T23:59:59Z", -1.0),
        ("2028-02-29T00:00:00Z", 1835395200.0),
        ("0001-01-01T00:00:00Z", -62135596800.0),
        ("2027-02-29T00:00:00Z", None),
        ("2026-03-01T12:00:00", None),
        ("2026-03-01", None),
        ("12:00:00Z", None),
        ("1772366400", None),
        ("now", None),
        ("", None),
        (" 2026-03-01T12:00:00Z", None),
        (None, None),
        (1772366400, None),
        (True, None),
        ([], None),
        ({}, None),
    ],
)
def test_only_a_full_time_with_its_zone_is_a_time(text: object, time: float | None) -> None:
    """Nanoseconds are cut to microseconds; anything else is none."""
    assert parse_time(text) == time


@pytest.mark.parametrize(
    ("epoch", "text"),
    [
        (NOON, "2026-03-01T12:00:00Z"),
        (NOON + 0.5, "2026-03-01T12:00:00.500000Z"),
        (0.0, "1970-01-01T00:00:00Z"),
        (-1.0, "1969-12-31T23:59:59Z"),
    ],
)
def test_times_are_written_in_utc(epoch: float, text: str) -> None:
    """With a fraction only where there is one."""
    assert format_time(epoch) == text


@given(st.integers(0, 4_000_000_000_000_000))
def test_a_time_that_was_written_is_read_back(microseconds: int) -> None:
    """To the microsecond, for every moment of the next hundred years."""
    epoch = microseconds / 1_000_000
    assert parse_time(format_time(epoch)) == pytest.approx(epoch, abs=1e-6)


@given(st.text(max_size=40))
def test_no_text_makes_the_reader_fail(text: str) -> None:
    """Annotations are written by anybody."""
    parse_time(text)


# --- nodes ------------------------------------------------------------------------------------------------------


def test_a_node_is_read() -> None:
    """Everything that decisions use, and nothing else."""
    assert node_facts(RAW_NODE, CellLabels()) == NodeFacts(
        name="ip-10-0-0-1",
        uid="u1",
        resource_version=4711,
        cell=Cell("g", "a"),
        zone_label=ZONE,
        taints=(Taint("k", "v", "NoExecute"),),
        created=NOON,
        ready_since=NOON + 30,
        unschedulable=False,
        deleting=False,
        ignored=False,
        first_seen=None,
        has_annotations=True,
        instance="i-1",
    )


def test_the_least_node_is_read() -> None:
    """Name, uid and version are all that is sure."""
    facts = node_facts({"metadata": {"name": "n", "uid": "u", "resourceVersion": "1"}}, CellLabels())
    assert (facts.key, facts.cell, facts.taints, facts.ready, facts.created) == ("n", None, (), False, 0.0)
    assert not any((facts.unschedulable, facts.deleting, facts.ignored, facts.has_annotations))


@pytest.mark.parametrize("field", ["name", "uid", "resourceVersion"])
def test_an_object_without_identity_is_refused(field: str) -> None:
    """It is not from an API server."""
    with pytest.raises(KeyError, match=field):
        node_of(f"metadata.{field}")
    with pytest.raises(KeyError, match=field):
        pod_of(f"metadata.{field}")


@pytest.mark.parametrize("value", [(), (None,), ([],), ({},), ("nonsense",), (7,)])
@pytest.mark.parametrize(
    "path",
    [
        "metadata.labels",
        "metadata.annotations",
        "metadata.creationTimestamp",
        "spec",
        "spec.taints",
        "status",
        "status.conditions",
    ],
)
def test_a_field_that_is_missing_null_or_of_another_type_reads_as_empty(path: str, value: tuple[Any, ...]) -> None:
    """One odd object must not stop the watch of all the others."""
    facts = node_of(path, *value)
    assert facts.name == "ip-10-0-0-1"
    if path == "metadata.labels":
        assert facts.cell is None
    if path in ("spec", "spec.taints"):
        assert facts.taints == ()
    if path in ("status", "status.conditions"):
        assert facts.ready_since is None
    if path == "metadata.annotations":
        assert not facts.has_annotations
    if path == "metadata.creationTimestamp":
        assert facts.created == 0.0


@pytest.mark.parametrize(
    ("labels", "cell", "zone_label"),
    [
        pytest.param({GROUP: "g", ZONE: "a"}, Cell("g", "a"), ZONE, id="both"),
        pytest.param({GROUP: "g", OLD_ZONE: "a"}, Cell("g", "a"), OLD_ZONE, id="NR-14 only the old zone label"),
        pytest.param({GROUP: "g", OLD_ZONE: "b", ZONE: "a"}, Cell("g", "a"), ZONE, id="NR-14 the new one wins"),
        pytest.param({GROUP: "g", OLD_ZONE: "b", ZONE: ""}, Cell("g", "b"), OLD_ZONE, id="the new one is empty"),
        pytest.param({GROUP: "g"}, None, OLD_ZONE, id="NR-13 no zone"),
        pytest.param({GROUP: "g", ZONE: ""}, None, OLD_ZONE, id="NR-13 empty zone"),
        pytest.param({GROUP: "g", ZONE: "", OLD_ZONE: ""}, None, OLD_ZONE, id="both zones empty"),
        pytest.param({ZONE: "a"}, None, ZONE, id="NR-13 no group"),
        pytest.param({GROUP: "", ZONE: "a"}, None, ZONE, id="NR-13 empty group"),
        pytest.param({GROUP: None, ZONE: None}, None, OLD_ZONE, id="null"),
        pytest.param({}, None, OLD_ZONE, id="no labels"),
    ],
)
def test_group_and_zone_make_a_cell(labels: Raw, cell: Cell | None, zone_label: str) -> None:
    """Without either there is none."""
    facts = node_of("metadata.labels", labels)
    assert (facts.cell, facts.zone_label) == (cell, zone_label)


def test_the_labels_are_the_configured_ones() -> None:
    """The old zone label is read in place of any."""
    raw = changed(RAW_NODE, "metadata.labels", {"pool": "p", "az": "z", GROUP: "g", ZONE: "a"})
    assert node_facts(raw, CellLabels("pool", "az")).cell == Cell("p", "z")
    raw = changed(RAW_NODE, "metadata.labels", {"pool": "p", OLD_ZONE: "old", ZONE: "a"})
    assert node_facts(raw, CellLabels("pool", "az")).cell == Cell("p", "old")


@pytest.mark.parametrize(
    ("taint", "facts"),
    [
        ({"key": "k", "effect": "NoSchedule"}, Taint("k", "", "NoSchedule")),
        ({"key": "k", "value": None, "effect": "NoSchedule"}, Taint("k", "", "NoSchedule")),
        (
            {"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": NOON_TEXT},
            Taint("k", "v", "NoSchedule", NOON),
        ),
        ({"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": None}, Taint("k", "v", "NoSchedule")),
        ({"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": "soon"}, Taint("k", "v", "NoSchedule")),
        ({}, Taint("", "", "")),
    ],
)
def test_a_taint_is_read(taint: Raw, facts: Taint) -> None:
    """With its time where the API has one."""
    assert node_of("spec.taints", [taint]).taints == (facts,)


def test_taints_keep_their_order() -> None:
    """Positions are used to remove one of them."""
    taints = [{"key": key, "effect": effect} for key in "cab" for effect in ("NoSchedule", "NoExecute")]
    assert [(t.key, t.effect) for t in node_of("spec.taints", taints).taints] == [
        (t["key"], t["effect"]) for t in taints
    ]


def test_a_taint_is_found_by_key_and_effect() -> None:
    """Without an effect, the first of the key."""
    facts = node_of("spec.taints", [{"key": "k", "effect": "NoExecute"}, {"key": "k", "effect": "NoSchedule"}])
    assert facts.taint("k") == Taint("k", "", "NoExecute")
    assert facts.taint("k", "NoSchedule") == Taint("k", "", "NoSchedule")
    assert facts.taint("k", "PreferNoSchedule") is None
    assert facts.taint("K") is None


@pytest.mark.parametrize(
    ("conditions", "since"),
    [
        pytest.param([{"type": "Ready", "status": "True", "lastTransitionTime": NOON_TEXT}], NOON, id="ready"),
        pytest.param([{"type": "Ready", "status": "False", "lastTransitionTime": NOON_TEXT}], None, id="not ready"),
        pytest.param([{"type": "Ready", "status": "Unknown", "lastTransitionTime": NOON_TEXT}], None, id="unknown"),
        pytest.param([{"type": "Ready", "status": "True"}], 0.0, id="ready since nobody knows when"),
        pytest.param([{"type": "Ready", "status": "true", "lastTransitionTime": NOON_TEXT}], None, id="lower case"),
        pytest.param([{"type": "Ready", "lastTransitionTime": NOON_TEXT}], None, id="no status"),
        pytest.param([{"type": "DiskPressure", "status": "True"}], None, id="another condition"),
        pytest.param([{}], None, id="empty condition"),
        pytest.param([], None, id="no condition"),
    ],
)
def test_ready_since_the_condition_says_so(conditions: list[Raw], since: float | None) -> None:
    """Only True is ready."""
    facts = node_of("status.conditions", conditions)
    assert facts.ready_since == since
    assert facts.ready is (since is not None)


@pytest.mark.parametrize(
    ("value", "unschedulable"), [((True,), True), ((False,), False), ((None,), False), ((), False)]
)
def test_a_cordon_is_read(value: tuple[Any, ...], unschedulable: bool) -> None:
    """Absent means schedulable."""
    assert node_of("spec.unschedulable", *value).unschedulable is unschedulable


def test_a_deletion_is_read() -> None:
    """The object may be kept by a finalizer for long."""
    assert node_of("metadata.deletionTimestamp", NOON_TEXT).deleting
    assert not node_of("metadata.deletionTimestamp", None).deleting
    assert pod_of("metadata.deletionTimestamp", NOON_TEXT).deleting
    assert not pod_of("metadata.deletionTimestamp", None).deleting


@pytest.mark.parametrize(
    ("value", "ignored"), [("ignore", True), ("Ignore", False), ("", False), ("true", False), ("ignore ", False)]
)
def test_only_the_very_word_overrides(value: str, ignored: bool) -> None:
    """NR-39, NR-42: a typo must not open a zone."""
    assert node_of("metadata.annotations", {"ebbtide/block": value}).ignored is ignored
    raw = {"metadata": {"name": "ns", "uid": "u", "resourceVersion": "1", "annotations": {"ebbtide/block": value}}}
    assert namespace_facts(raw).ignored is ignored


@pytest.mark.parametrize("value", [NOON_TEXT, "", "nonsense"])
def test_our_annotation_is_kept_as_it_stands(value: str) -> None:
    """Also unreadable: it still has to be removed."""
    assert node_of("metadata.annotations", {"ebbtide/rebalance-signal-first-seen": value}).first_seen == value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.resourceVersion", "4712"),
        ("metadata.managedFields", [{"manager": "kubelet"}]),
        ("metadata.labels", {GROUP: "g", ZONE: "a", "other": "y"}),
        ("metadata.annotations", {"other": "y"}),
        ("status.images", []),
        ("status.capacity", {"cpu": "4"}),
        ("status.allocatable", {"cpu": "4"}),
        ("spec.podCIDR", "10.0.0.0/24"),
    ],
)
def test_what_no_decision_reads_is_no_change(path: str, value: object) -> None:
    """NR-35: a heartbeat gives an equal value, and so causes no work."""
    assert node_of(path, value) == node_facts(RAW_NODE, CellLabels())


def test_a_heartbeat_is_no_change() -> None:
    """NR-35: nor is a condition that repeats itself."""
    raw = deepcopy(RAW_NODE)
    for condition in raw["status"]["conditions"]:
        condition["lastHeartbeatTime"] = NOON_TEXT
    assert node_facts(raw, CellLabels()) == node_facts(RAW_NODE, CellLabels())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.uid", "u2"),
        ("metadata.labels", {GROUP: "h", ZONE: "a"}),
        ("metadata.labels", {GROUP: "g", ZONE: "b"}),
        ("metadata.annotations", {"ebbtide/block": "ignore"}),
        ("metadata.annotations", {"ebbtide/rebalance-signal-first-seen": NOON_TEXT}),
        ("metadata.annotations", {}),
        ("metadata.deletionTimestamp", NOON_TEXT),
        ("spec.unschedulable", True),
        ("spec.taints", []),
        ("spec.taints", [{"key": "k", "value": "w", "effect": "NoExecute"}]),
        ("spec.taints", [{"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": NOON_TEXT}]),
        ("status.conditions", [{"type": "Ready", "status": "False"}]),
    ],
)
def test_what_a_decision_reads_is_a_change(path: str, value: object) -> None:
    """Each of these has to be looked at."""
    assert node_of(path, value) != node_facts(RAW_NODE, CellLabels())


# --- pods -------------------------------------------------------------------------------------------------------


def test_a_pod_is_read() -> None:
    """Everything that decisions use, and nothing else."""
    assert pod_facts(RAW_POD) == PodFacts(
        namespace="default",
        name="web-0",
        uid="p1",
        resource_version=12,
        node="ip-10-0-0-1",
        phase="Running",
        priority=7,
        deleting=False,
        owner=Owner("StatefulSet", "web", "s1"),
        mirror=False,
        tolerations=(),
        claims=(),
        pool="shared",
        busy=False,
    )


def test_the_least_pod_is_read() -> None:
    """Not bound, without a controller."""
    facts = pod_facts({"metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "1"}})
    assert (facts.key, facts.node, facts.phase, facts.priority, facts.owner) == ("ns/p", "", "", 0, None)
    assert not any((facts.mirror, facts.deleting, facts.busy, facts.pool, facts.claims, facts.tolerations))


@pytest.mark.parametrize("value", [(), (None,), ([],), ({},)])
@pytest.mark.parametrize(
    "path",
    [
        "metadata.labels",
        "metadata.annotations",
        "metadata.ownerReferences",
        "spec.nodeName",
        "spec.priority",
        "spec.tolerations",
        "spec.volumes",
        "status",
        "status.phase",
    ],
)
def test_a_pod_s_missing_fields_read_as_empty(path: str, value: tuple[Any, ...]) -> None:
    """As with nodes."""
    assert pod_of(path, *value).key == "default/web-0"


@pytest.mark.parametrize(
    ("references", "owner", "mirror"),
    [
        ([], None, False),
        ([{"kind": "Job", "name": "j", "uid": "u", "controller": True}], "Job", False),
        ([{"kind": "Job", "name": "j", "uid": "u"}], None, False),
        ([{"kind": "Job", "name": "j", "uid": "u", "controller": False}], None, False),
        ([{"kind": "Foo", "name": "f", "uid": "u"}, {"kind": "Job", "name": "j", "controller": True}], "Job", False),
        ([{"kind": "Node", "name": "n", "uid": "u", "controller": True}], "Node", True),
        ([{"kind": "Node", "name": "n", "uid": "u"}], None, True),
        ([{"kind": "NodeClaim", "name": "n", "uid": "u", "controller": True}], "NodeClaim", False),
        ([{}], None, False),
    ],
)
def test_the_controller_is_the_owner(references: list[Raw], owner: str | None, mirror: bool) -> None:
    """NR-42: and a pod that a Node owns is static."""
    facts = pod_of("metadata.ownerReferences", references)
    assert (facts.owner.kind if facts.owner else None) == owner
    assert facts.mirror is mirror


@pytest.mark.parametrize("value", ["abc", "", "true"])
def test_the_kubelet_s_mirror_annotation_marks_a_static_pod(value: str) -> None:
    """NR-42: whatever its value, which is a hash."""
    assert pod_of("metadata.annotations", {"kubernetes.io/config.mirror": value}).mirror


@pytest.mark.parametrize(
    ("labels", "pool", "busy"),
    [
        ({"ebbtide/pool": "dedicated", "ebbtide/busy": "true"}, "dedicated", True),
        ({"ebbtide/pool": "shared", "ebbtide/busy": "false"}, "shared", False),
        ({"ebbtide/busy": "True"}, "", False),
        ({"ebbtide/busy": ""}, "", False),
        ({}, "", False),
    ],
)
def test_a_worker_s_labels_are_read(labels: Raw, pool: str, busy: bool) -> None:
    """NR-44: its pool, and whether it has a task."""
    facts = pod_of("metadata.labels", labels)
    assert (facts.pool, facts.busy) == (pool, busy)


@pytest.mark.parametrize("priority", [-10, 0, 1000, 2000001000])
def test_a_priority_is_read(priority: int) -> None:
    """NR-44: negative ones too."""
    assert pod_of("spec.priority", priority).priority == priority


def test_claims_are_read_from_volumes() -> None:
    """Only those that name one."""
    volumes = [
        {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "b", "emptyDir": {}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "logs", "readOnly": True}},
        {"name": "d", "persistentVolumeClaim": None},
        {"name": "e", "persistentVolumeClaim": {"claimName": ""}},
        {"name": "f"},
    ]
    assert pod_of("spec.volumes", volumes).claims == ("data", "logs")


@pytest.mark.parametrize(
    ("raw", "facts"),
    [
        ({}, Toleration("", "Equal", "", "")),
        ({"operator": "Exists"}, Toleration("", "Exists", "", "")),
        ({"key": "k"}, Toleration("k", "Equal", "", "")),
        ({"key": "k", "value": "v", "effect": "NoExecute"}, Toleration("k", "Equal", "v", "NoExecute")),
        ({"key": None, "operator": None, "value": None, "effect": None}, Toleration("", "Equal", "", "")),
        ({"key": "k", "operator": "Exists", "tolerationSeconds": 300}, Toleration("k", "Exists", "", "")),
    ],
)
def test_a_toleration_is_read(raw: Raw, facts: Toleration) -> None:
    """An absent operator is Equal."""
    assert pod_of("spec.tolerations", [raw]).tolerations == (facts,)


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration("", "Exists", "", ""), True),
        (Toleration("", "Exists", "", "NoSchedule"), True),
        (Toleration("", "Exists", "", "NoExecute"), False),
        (Toleration(SIGNAL.key, "Exists", "", ""), True),
        (Toleration(SIGNAL.key, "Exists", "", "NoSchedule"), True),
        (Toleration(SIGNAL.key, "Exists", "", "NoExecute"), False),
        (Toleration(SIGNAL.key, "Exists", "", "PreferNoSchedule"), False),
        (Toleration(SIGNAL.key, "Equal", "hash", ""), True),
        (Toleration(SIGNAL.key, "Equal", "hash", "NoSchedule"), True),
        (Toleration(SIGNAL.key, "Equal", "hash", "NoExecute"), False),
        (Toleration(SIGNAL.key, "Equal", "other", ""), False),
        (Toleration(SIGNAL.key, "Equal", "", ""), False),
        (Toleration(SIGNAL.key, "Lt", "1", ""), False),
        (Toleration("other", "Exists", "", ""), False),
        (Toleration(SIGNAL.key.upper(), "Exists", "", ""), False),
        (Toleration("", "Equal", "hash", ""), False),
        (Toleration("", "Equal", "", ""), False),
    ],
)
def test_a_toleration_covers_what_the_scheduler_says_it_does(toleration: Toleration, covers: bool) -> None:
    """NR-43: key, value and effect each have to fit."""
    assert toleration.covers(SIGNAL) is covers
    assert replace(pod_facts(RAW_POD), tolerations=(toleration,)).tolerates(SIGNAL) is covers


def test_an_empty_value_is_a_value() -> None:
    """A taint without a value is covered by Equal with none."""
    bare = replace(SIGNAL, value="")
    assert Toleration(SIGNAL.key, "Equal", "", "").covers(bare)
    assert not Toleration(SIGNAL.key, "Equal", "hash", "").covers(bare)


def test_one_of_several_tolerations_is_enough() -> None:
    """For one taint."""
    facts = replace(
        pod_facts(RAW_POD),
        tolerations=(Toleration("other", "Exists", "", ""), Toleration(SIGNAL.key, "Exists", "", "")),
    )
    assert facts.tolerates(SIGNAL)
    assert not facts.tolerates(replace(SIGNAL, key="third"))


# --- namespaces, claims, volumes --------------------------------------------------------------------------------

IDENTITY = {"name": "x", "uid": "u", "resourceVersion": "3"}


def test_the_least_of_the_others_is_read() -> None:
    """Nothing but identity."""
    assert namespace_facts({"metadata": IDENTITY}).key == "x"
    assert not namespace_facts({"metadata": {**IDENTITY, "annotations": None}}).ignored
    claim = claim_facts({"metadata": {**IDENTITY, "namespace": "ns"}, "spec": None})
    assert (claim.key, claim.volume) == ("ns/x", "")
    assert volume_facts({"metadata": IDENTITY}).zones is None


@pytest.mark.parametrize(("name", "volume"), [("pv-1", "pv-1"), ("", ""), (None, "")])
def test_a_claim_names_its_volume_once_it_is_bound(name: str | None, volume: str) -> None:
    """NR-54."""
    raw = {"metadata": {**IDENTITY, "namespace": "ns"}, "spec": {"volumeName": name}}
    assert claim_facts(raw).volume == volume


def _expression(key: str, *values: str, operator: str = "In") -> Raw:
    return {"key": key, "operator": operator, "values": list(values)}


def _terms(*terms: list[Raw]) -> Raw:
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}}


EBS = "topology.ebs.csi.aws.com/zone"


@pytest.mark.parametrize(
    ("affinity", "zones"),
    [
        pytest.param(_terms([_expression(ZONE, "a")]), {"a"}, id="the common key"),
        pytest.param(_terms([_expression(OLD_ZONE, "a")]), {"a"}, id="the old key"),
        pytest.param(_terms([_expression(EBS, "a")]), {"a"}, id="NR-54 a driver's own key"),
        pytest.param(_terms([_expression("topology.gke.io/zone", "a")]), {"a"}, id="another driver's"),
        pytest.param(_terms([_expression(ZONE, "a", "b")]), {"a", "b"}, id="two values"),
        pytest.param(_terms([_expression(ZONE, "a")], [_expression(ZONE, "b")]), {"a", "b"}, id="two terms are ORed"),
        pytest.param(_terms([_expression(ZONE, "a")], [_expression(EBS, "a")]), {"a"}, id="two terms, one zone"),
        pytest.param(
            _terms([_expression(ZONE, "a", "b"), _expression(EBS, "a")]), {"a"}, id="two expressions are ANDed"
        ),
        pytest.param(
            _terms([_expression("kubernetes.io/os", "linux"), _expression(ZONE, "a")]), {"a"}, id="beside another key"
        ),
        pytest.param(
            _terms([_expression(ZONE, "a")], [_expression("kubernetes.io/os", "linux")]),
            None,
            id="one of two terms is for everywhere",
        ),
        pytest.param(_terms([_expression("topology.kubernetes.io/region", "r")]), None, id="only a region"),
        pytest.param(_terms([_expression(ZONE, "a", operator="NotIn")]), None, id="only where it is not"),
        pytest.param(_terms([_expression(ZONE, operator="Exists")]), None, id="any zone"),
        pytest.param(_terms([_expression("example.com/no-zone", "a")]), None, id="a key that ends in the word only"),
        pytest.param(_terms([]), None, id="an empty term"),
        pytest.param(_terms(), None, id="no terms"),
        pytest.param({"required": None}, None, id="required null"),
        pytest.param({"required": {"nodeSelectorTerms": None}}, None, id="terms null"),
        pytest.param({"required": {"nodeSelectorTerms": [{"matchExpressions": None}]}}, None, id="expressions null"),
        pytest.param({"required": {"nodeSelectorTerms": [{}]}}, None, id="term empty"),
        pytest.param({}, None, id="empty affinity"),
        pytest.param(None, None, id="no affinity"),
        pytest.param("nonsense", None, id="nonsense"),
    ],
)
def test_a_volume_is_where_its_affinity_lets_it_be(affinity: object, zones: set[str] | None) -> None:
    """NR-54: in those zones, or everywhere."""
    facts = volume_facts({"metadata": IDENTITY, "spec": {"nodeAffinity": affinity}})
    assert facts.zones == zones
    assert facts.only_in("a") is (zones == {"a"})


@pytest.mark.parametrize(
    ("affinity", "hosts"),
    [
        pytest.param(_terms([_expression("kubernetes.io/hostname", "a1")]), {"a1"}, id="a local volume"),
        pytest.param(_terms([_expression("kubernetes.io/hostname", "a1", "a2")]), {"a1", "a2"}, id="two hosts"),
        pytest.param(_terms([_expression(ZONE, "a")]), None, id="a zone only"),
        pytest.param(None, None, id="no affinity"),
    ],
)
def test_a_local_volume_is_on_its_host(affinity: object, hosts: set[str] | None) -> None:
    """A disk of a node's own is reached from nowhere else."""
    facts = volume_facts({"metadata": IDENTITY, "spec": {"nodeAffinity": affinity}})
    assert facts.hosts == hosts
    assert facts.only_on("a1") is (hosts == {"a1"})


def test_a_volume_that_can_be_nowhere_is_in_no_zone() -> None:
    """Contradicting expressions hold nothing."""
    raw = {"metadata": IDENTITY, "spec": {"nodeAffinity": _terms([_expression(ZONE, "a"), _expression(EBS, "b")])}}
    assert not volume_facts(raw).only_in("a")
    assert not volume_facts(raw).only_in("b")
