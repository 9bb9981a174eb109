"""What is ours and what is not: a table of objects, and what goes from each."""

from typing import Any

import jsonpatch
import pytest

from ebbtide.cleanup.decide import Rules, decide, removal_from
from ebbtide.cleanup.snapshot import Facts, found
from ebbtide.kube.resources import LEASES, NODES, PODS, SECRETS, Resource

RULES = Rules(
    taint_keys=frozenset({"ebbtide/prevent-ca-scale-up", "old.example.com/prevent"}),
    signal_key="aws-node-termination-handler/rebalance-recommendation",
    namespace="ebbtide-system",
    lease="ebbtide-reconciler",
)
Raw = dict[str, Any]
P = {"key": "ebbtide/prevent-ca-scale-up", "value": "1772366000", "effect": "NoSchedule"}
OLD = {"key": "old.example.com/prevent", "value": "1772366000", "effect": "NoSchedule"}
S = {"key": RULES.signal_key, "value": "rebalance-recommendation-5e1f0c", "effect": "NoSchedule"}
X, Y = ({"key": key, "value": "1", "effect": "NoSchedule"} for key in ("team", "other"))
SEEN = "ebbtide/rebalance-signal-first-seen"


def raw(spec: Raw | None = None, **metadata: Any) -> Raw:
    """An object in version 7."""
    return {"metadata": {"name": "a1", "uid": "u1", "resourceVersion": "7", **metadata}, "spec": spec or {}}


def node(*taints: Raw, annotations: Raw | None = None, **spec: Any) -> Raw:
    return raw({"taints": list(taints), **spec}, annotations=annotations or {}, labels={"team": "x"})


NODE_CASES: dict[str, tuple[Raw, Raw]] = {
    "NR-61 the taint goes, a foreign one in front of it stays": (node(X, P), node(X)),
    "positions are right with others on both sides": (node(X, P, Y), node(X, Y)),
    "two keys of ours, of this and of an earlier configuration": (node(P, X, OLD), node(X)),
    "the last taint goes": (node(P), node()),
    "NR-61 signal and cordon stay": (node(S, P, unschedulable=True), node(S, unschedulable=True)),
    "NR-15 outside of any group the taint goes as well": (raw({"taints": [P]}), raw({"taints": []})),
    "the annotation goes, the operator's and others' stay": (
        node(annotations={SEEN: "2026-03-01T12:00:00Z", "ebbtide/block": "ignore", "a": "b"}),
        node(annotations={"ebbtide/block": "ignore", "a": "b"}),
    ),
    "an empty annotation of ours goes": (node(annotations={SEEN: ""}), node()),
    "both in one write": (node(S, P, annotations={SEEN: "x", "a": "b"}), node(S, annotations={"a": "b"})),
    "our key with another value is ours": (node({**P, "value": ""}), node()),
}


@pytest.mark.parametrize(
    "alone",
    [
        node(annotations={SEEN: "2026-03-01T12:00:00Z"}),
        node(annotations={"ebbtide/rebalance-notice": "2026-03-01T12:00:00Z"}),
        node(annotations={"ebbtide/interruption-notice": "2026-03-01T12:02:00Z"}),
        node(P),
        node(OLD),
    ],
)
def test_every_word_of_ours_is_found_on_a_node_that_has_no_other(alone: Raw) -> None:
    """Each goes by itself: none is only seen because of another."""
    removal = removal_from(found(NODES, alone), RULES)
    assert removal is not None
    assert jsonpatch.apply_patch(alone, removal.patch()) == node()


@pytest.mark.parametrize("case", NODE_CASES)
def test_exactly_our_marks_go_from_a_node(case: str) -> None:
    """The patch, applied as the API server does, gives the node without our marks and nothing else changed."""
    before, after = NODE_CASES[case]
    removal = removal_from(found(NODES, before), RULES)
    assert removal is not None
    assert removal.patch()[0] == {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}
    assert jsonpatch.apply_patch(before, removal.patch()) == after


@pytest.mark.parametrize(
    "untouched",
    [
        node(),
        node(X, S),
        node({**P, "effect": "NoExecute"}),
        node({**P, "effect": "PreferNoSchedule"}),
        node({**P, "key": "ebbtide/prevent-ca-scale-up2"}),
        node(annotations={"ebbtide/block": "ignore"}),
        raw({"taints": None}, annotations=None, labels=None),
        {"metadata": {"name": "a1", "uid": "u1", "resourceVersion": "7"}},
    ],
)
def test_a_node_without_our_marks_is_not_written(untouched: Raw) -> None:
    assert removal_from(found(NODES, untouched), RULES) is None


def test_of_a_pod_go_what_webhook_and_scaler_have_put_there() -> None:
    """What an operator puts on pods to steer the product is the operator's."""
    labels = {"ebbtide/busy": "true", "ebbtide/guard": "enabled", "ebbtide/pool": "shared", "app": "x"}
    annotations = {"ebbtide/blocked-zones": "a", "b": "c"}
    before = raw(namespace="prod", labels=labels, annotations=annotations)
    removal = removal_from(found(PODS, before), RULES)
    assert removal is not None
    after = jsonpatch.apply_patch(before, removal.patch())["metadata"]
    assert after["labels"] == {"ebbtide/guard": "enabled", "ebbtide/pool": "shared", "app": "x"}
    assert after["annotations"] == {"b": "c"}


@pytest.mark.parametrize(
    ("namespace", "name", "goes"),
    [
        ("ebbtide-system", "ebbtide-reconciler", True),
        ("elsewhere", "ebbtide-reconciler", False),
        ("ebbtide-system", "kube-scheduler", False),
    ],
)
def test_only_the_lease_of_this_installation_goes(namespace: str, name: str, goes: bool) -> None:
    removal = removal_from(found(LEASES, raw(namespace=namespace, name=name)), RULES)
    assert (removal is not None and removal.whole) is goes


def facts(*objects: tuple[Resource, Raw]) -> Facts:
    by_kind = {kind: tuple(found(kind, each) for at, each in objects if at is kind) for kind in (NODES, PODS, LEASES)}
    return Facts(by_kind[NODES], by_kind[PODS], by_kind[LEASES])


def test_the_plan_says_what_stays_and_why() -> None:
    left = node(S, {**P, "effect": "NoExecute"}, unschedulable=True, annotations={"ebbtide/block": "ignore"})
    plan = decide(facts((NODES, left), (LEASES, raw(namespace="elsewhere", name="ebbtide-reconciler"))), RULES)
    assert plan.removals == ()
    assert [(kept.what.split()[0], kept.on) for kept in plan.kept] == [
        ("signal", ("a1",)),
        ("prevent", ("a1",)),
        ("cordon", ("a1",)),
        ("annotation", ("a1",)),
        ("lease", ("elsewhere/ebbtide-reconciler",)),
    ]


def test_the_plan_asks_for_no_more_permissions_than_it_takes() -> None:
    plan = decide(facts((NODES, node(P)), (LEASES, raw(namespace="ebbtide-system", name="ebbtide-reconciler"))), RULES)
    assert [str(need).partition(" (")[0] for need in plan.needs] == [
        "get nodes",
        "patch nodes",
        "get leases.coordination.k8s.io in namespace ebbtide-system",
        "delete leases.coordination.k8s.io in namespace ebbtide-system",
    ]
    assert decide(facts((NODES, node(X))), RULES).needs == ()


def test_the_certificates_secret_goes_if_we_made_it() -> None:
    """A Secret of that name without our label is somebody else's: it stays, and that is said."""
    ours = found(SECRETS, raw(namespace="ebbtide-system", labels={"ebbtide/certs": "self-managed"}))
    foreign = found(SECRETS, raw(namespace="ebbtide-system", labels={"team": "x"}))
    removal = removal_from(ours, RULES)
    assert removal is not None
    assert removal.whole
    plan = decide(Facts((), (), (), (foreign,)), RULES)
    assert plan.removals == ()
    assert [(kept.on, kept.reason) for kept in plan.kept] == [(("ebbtide-system/a1",), "somebody else made it")]
