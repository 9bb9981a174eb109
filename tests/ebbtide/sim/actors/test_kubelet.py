"""What kubelets wait for, as tables."""

import pytest

from ebbtide.sim.actors.kubelet import (
    NOT_READY,
    UNREACHABLE,
    Stage,
    Timings,
    lifecycle_taints,
    node_stage,
    pod_stage,
    tolerated_for,
    with_conditions,
)
from ebbtide.sim.stored import Object
from tests.ebbtide.sim.actors.things import P, deleting, node, pod, taint


@pytest.mark.parametrize(
    ("thing", "host", "stage"),
    [
        pytest.param(pod("p"), None, None, id="not bound"),
        pytest.param(pod("p", "a1", phase="Pending"), node("a1"), Stage.STARTING, id="bound"),
        pytest.param(pod("p", "a1", phase="Pending"), node("a1", ready_for=None), None, id="node not Ready"),
        pytest.param(pod("p", "a1"), node("a1"), Stage.WARMING, id="running"),
        pytest.param(pod("p", "a1", ready=True), node("a1"), None, id="ready"),
        pytest.param(pod("p", "a1", phase="Succeeded"), node("a1"), None, id="finished"),
        pytest.param(deleting(pod("p", "a1"), grace=30), node("a1"), Stage.STOPPING, id="deleted"),
        pytest.param(deleting(pod("p", "a1"), grace=0), node("a1"), None, id="stopped, held by a finalizer"),
        pytest.param(pod("p", "a1", ready=True), None, Stage.ORPHANED, id="node gone"),
        pytest.param(deleting(pod("p", "a1"), grace=30), None, Stage.ORPHANED, id="deleted, then node gone"),
    ],
)
def test_a_pod_waits_for_its_next_stage(thing: Object, host: Object | None, stage: Stage | None) -> None:
    assert pod_stage(thing, host) is stage


def test_a_new_node_joins_and_a_broken_one_is_left_alone() -> None:
    new = node("a1")
    new["status"]["conditions"] = []
    assert node_stage(new) is Stage.JOINING
    assert node_stage(node("a1")) is Stage.BEATING
    assert node_stage(node("a1", ready_for=None)) is None


def test_a_pod_stops_no_later_than_its_grace_period_ends() -> None:
    timings = Timings(stopping=60)
    assert timings.of(Stage.STOPPING, deleting(pod("p", "a1"), grace=30)) == 30
    assert timings.of(Stage.STOPPING, deleting(pod("p", "a1"), grace=90)) == 60


def test_an_annotation_sets_the_time_of_one_object() -> None:
    slow = deleting(pod("p", "a1", annotations={"sim.ebbtide/stopping": "600"}), grace=900)
    assert Timings().of(Stage.STOPPING, slow) == 600


def tolerating(*tolerations: Object) -> Object:
    return pod("p", "a1", tolerations=list(tolerations))


GO = taint("go", effect="NoExecute")


@pytest.mark.parametrize(
    ("thing", "taints", "seconds"),
    [
        pytest.param(pod("p", "a1"), [], None, id="no taint"),
        pytest.param(pod("p", "a1"), [taint("x")], None, id="NoSchedule leaves who is there"),
        pytest.param(pod("p", "a1"), [GO], 0, id="not tolerated"),
        pytest.param(tolerating({"key": "go", "operator": "Exists"}), [GO], None, id="tolerated for ever"),
        pytest.param(
            tolerating({"key": "go", "operator": "Exists", "tolerationSeconds": 30}), [GO], 30, id="for a while"
        ),
        pytest.param(
            tolerating({"key": "go", "operator": "Exists"}),
            [GO, taint("now", effect="NoExecute")],
            0,
            id="one of two is not",
        ),
    ],
)
def test_a_pod_leaves_a_node_whose_taint_drives_it_out(
    thing: Object, taints: list[Object], seconds: float | None
) -> None:
    assert tolerated_for(thing, node("a1", *taints)) == seconds


def unknown(name: str, *taints: Object) -> Object:
    lost = node(name, *taints)
    lost["status"]["conditions"][0]["status"] = "Unknown"
    return lost


NOT_READY_TAINT = {"key": NOT_READY, "effect": "NoSchedule"}
X = taint("x")


@pytest.mark.parametrize(
    ("thing", "taints"),
    [
        pytest.param(node("a1"), [], id="ready and clean"),
        pytest.param(node("a1", X, NOT_READY_TAINT, P), [X, P], id="ready loses the mark, others keep their order"),
        pytest.param(node("a1", X, ready_for=None), [X, NOT_READY_TAINT], id="not ready gets it"),
        pytest.param(node("a1", NOT_READY_TAINT, X, ready_for=None), [NOT_READY_TAINT, X], id="has it already"),
        pytest.param(unknown("a1"), [{"key": UNREACHABLE, "effect": "NoSchedule"}], id="unknown is unreachable"),
        pytest.param(
            unknown("a1", NOT_READY_TAINT),
            [{"key": UNREACHABLE, "effect": "NoSchedule"}],
            id="one mark replaces the other",
        ),
    ],
)
def test_the_lifecycle_marks_a_node_by_its_readiness(thing: Object, taints: list[Object]) -> None:
    assert lifecycle_taints(thing) == taints


def test_a_conditions_time_moves_only_with_its_value() -> None:
    status = with_conditions({}, "2026-01-01T00:00:00Z", {"Ready": "True"})
    assert with_conditions(status, "2026-01-02T00:00:00Z", {"Ready": "True"}) == status
    changed = with_conditions(status, "2026-01-02T00:00:00Z", {"Ready": "False"})["conditions"]
    assert changed == [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-02T00:00:00Z"}]
