"""Cases of explanations: what is on the cluster, what is asked, and what the answer says."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ebbtide import vocabulary
from ebbtide.model import Cell
from ebbtide.sim import kinds, objects
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.storage import Write
from ebbtide.sim.time import SimulatedClock
from reconciler.explain.explanation import Explanation
from reconciler.explain.nodes import Explainer
from tests.simulation import notation

Ask = Callable[[Explainer], Awaitable[Explanation]]
Body = dict[str, Any]
HOLD_DOWN = {"hold-down": "10m"}
GUARDED = {vocabulary.GUARD_LABEL: vocabulary.GUARD_ENABLED}
TOLERANT = {"spec": {"tolerations": list(notation.BOTH_TOLERATED)}}
IGNORED = {vocabulary.BLOCK_ANNOTATION: vocabulary.BLOCK_IGNORE}
AVOIDS_A = {
    "metadata": {"annotations": {vocabulary.BLOCKED_ZONES_ANNOTATION: "a"}},
    "spec": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": vocabulary.ZONE_LABEL, "operator": "NotIn", "values": ["a"]}]}
                    ]
                }
            }
        }
    },
}
WEBHOOK = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": "ebbtide", "labels": {"ebbtide/ca-injection": "enabled"}},
    "webhooks": [
        {
            "name": "pods.ebbtide.example.com",
            "clientConfig": {"url": "https://127.0.0.1/mutate"},
            "rules": [
                {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]},
            ],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }
    ],
}


def zone(name: str) -> Ask:
    return lambda explainer: explainer.zone(Cell("g", name))


def node(name: str) -> Ask:
    return lambda explainer: explainer.node(name)


def pod(name: str, namespace: str = "default") -> Ask:
    return lambda explainer: explainer.pod(namespace, name)


@dataclass(frozen=True)
class Pod:
    """A pod, and the kind of its controller ("" for none)."""

    body: Body
    kind: str


def stands(on: str = "a1", kind: str = "ReplicaSet", name: str = "p", patch: Body | None = None) -> Pod:
    """A running pod."""
    return Pod(objects.changed(objects.pod(name, node=on, labels={"app": "db"}), patch or {}), kind)


def waits(labels: Body | None = None, kind: str = "ReplicaSet", name: str = "p", patch: Body | None = None) -> Pod:
    """A pod without a node."""
    return Pod(objects.changed(objects.pod(name, labels=labels or {}), patch or {}), kind)


@dataclass(frozen=True)
class Case:
    """What is there, what is asked, and what the answer contains.

    `says` are words of the reason, `held` words of what is held back, `plan` and `facts` keys with their values.
    """

    name: str
    nodes: str
    ask: Ask
    state: str
    says: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    plan: Body = field(default_factory=dict)
    facts: Body = field(default_factory=dict)
    others: tuple[Body | Pod, ...] = ()
    rebalance: Body = field(default_factory=dict)


ZONES = [
    Case("a quiet zone", "a1, a2", zone("a"), "open", ("no node is signalled",), plan={"taint": [], "untaint": []}),
    Case(
        "one fresh signal",
        "a1 S(100s), a2",
        zone("a"),
        "waiting",
        ("one signal, of node a1", "300 s"),
        facts={"lookAgainInSeconds": 200.001},
    ),
    Case("two signals", "a1 S, a2 S, a3", zone("a"), "partial", ("2 nodes",), plan={"taint": ["a1", "a2", "a3"]}),
    Case(
        "two signals, one of a node that the autoscaler removes",
        "a1 S(20s) P, a2 S(10s) P T",
        zone("a"),
        "blocked",
        held=("evict the pods of node a2: Cluster Autoscaler is removing the node",),
        plan={"evict": True},
        facts={
            "evictions": [
                {"node": "a1", "evict": True, "reason": "its pods are evicted"},
                {"node": "a2", "evict": False, "reason": "its pods stay: Cluster Autoscaler is removing the node"},
            ]
        },
    ),
    Case("a block that holds", "a1 S(400s) P, a2 P", zone("a"), "blocked", ("older than 300 s",), plan={"taint": []}),
    Case("all cordoned", "a1 S(400s) P C, a2 P C", zone("a"), "ineffective", ("older than 300 s",)),
    Case(
        "all Ready for a moment",
        "a1 S(400s) P young",
        zone("a"),
        "ineffective",
        facts={
            "advice": "Its schedulable nodes have not been Ready for long enough yet. "
            "This passes by itself in about 60 s."
        },
    ),
    Case("a taint that is left", "a1 P, a2", zone("a"), "open", plan={"untaint": ["a1"]}),
    Case(
        "an override on a node",
        "a1 S(400s), a2 I",
        zone("a"),
        "open",
        ("node a2 is annotated ebbtide/block=ignore",),
        plan={"taint": []},
    ),
    Case(
        "a group left out", "a1 S(400s)", zone("a"), "open", ("outside node-groups",), rebalance={"node-groups": ["x"]}
    ),
    Case(
        "min-open-zones",
        "a1 S(500s), b1 S(400s)",
        zone("b"),
        "open",
        ("min-open-zones = 1 keeps the zone open",),
        rebalance={"min-open-zones": 1},
    ),
    Case("hold-down", "a1 P", zone("a"), "blocked", ("within hold-down",), rebalance=HOLD_DOWN),
    Case(
        "switched off",
        "a1 S(400s)",
        zone("a"),
        "partial",
        held=("node-rebalance.run = false",),
        plan={"taint": []},
        rebalance={"run": False},
    ),
]
NODES = [
    Case("a node without a signal", "a1 S(400s) P, a2 P", node("a2"), "blocked", plan={"evict": False}),
    Case(
        "a node that is emptied",
        "a1 S(400s) P, a2 P",
        node("a1"),
        "blocked",
        held=("evict pod default/d: it belongs to a DaemonSet",),
        plan={"evict": True},
        facts={
            "eviction": "its pods are evicted",
            "pods": [
                {"pod": "default/d", "evict": False, "reason": "it belongs to a DaemonSet"},
                {"pod": "default/p", "evict": True, "reason": ""},
            ],
        },
        others=(stands(), stands(kind="DaemonSet", name="d"), stands("a2", name="elsewhere")),
    ),
    Case(
        "a node whose zone is not yet tainted",
        "a1 S(400s), a2",
        node("a1"),
        "partial",
        plan={"evict": True, "taint": ["a1", "a2"]},
        facts={"eviction": "its pods are evicted as soon as every node of the zone is tainted, after 60 s in any case"},
    ),
    Case(
        "a node that the autoscaler removes",
        "a1 S(400s) P T, a2 P",
        node("a1"),
        "blocked",
        held=("evict the pods of node a1: Cluster Autoscaler is removing the node",),
        plan={"evict": False},
    ),
    Case("a node that waits", "a1 S(100s), a2", node("a1"), "waiting", held=("evict the pods of node a1: one signal",)),
    Case("a node of no zone", "a1 -", node("a1"), "outside", (vocabulary.NODE_GROUP_LABEL, vocabulary.ZONE_LABEL)),
    Case(
        "a node without a group",
        "b1",
        node("a1"),
        "outside",
        (f"lacks {vocabulary.NODE_GROUP_LABEL} (",),
        facts={
            "advice": f"kubectl label node a1 {vocabulary.NODE_GROUP_LABEL}=VALUE; and have the node group give new "
            "nodes their labels when they register",
        },
        others=(objects.node("a1", zone="a"),),
    ),
    Case(
        "an override that is none",
        "b1",
        node("a1"),
        "open",
        facts={
            "warnings": ["node a1: annotation ebbtide/block=IGNORE has no effect; only ebbtide/block=ignore has"],
        },
        others=(
            objects.changed(
                objects.node("a1", group="g", zone="a"),
                {"metadata": {"annotations": {vocabulary.BLOCK_ANNOTATION: "IGNORE"}}},
            ),
        ),
    ),
    Case(
        "a node of the zone with an override that is none",
        "a2, b1",
        zone("a"),
        "open",
        facts={
            "warnings": ["node a1: annotation ebbtide/block=IGNORE has no effect; only ebbtide/block=ignore has"],
        },
        others=(
            objects.changed(
                objects.node("a1", group="g", zone="a"),
                {"metadata": {"annotations": {vocabulary.BLOCK_ANNOTATION: "IGNORE"}}},
            ),
        ),
    ),
    Case(
        "a signal from the future",
        "b1",
        node("a1"),
        "waiting",
        facts={
            "warnings": [
                "the signal of node a1 has a time that lies 8232774399 s in the future, 2286-11-20T17:46:39Z; until "
                "then it counts as 0 s old: is a clock wrong?",
            ],
        },
        others=(
            objects.node("a1", group="g", zone="a", taints=[objects.taint(vocabulary.SIGNAL_TAINT_KEY, "9999999999")]),
        ),
    ),
]
EMPTIED = "a1 S(400s) P, a2 P"
STANDING = [
    Case(
        "a pod that goes",
        EMPTIED,
        pod("p"),
        "to-be-evicted",
        ("node a1 is emptied",),
        plan={"evict": True},
        others=(stands(),),
    ),
    Case(
        "a pod whose node is not emptied",
        EMPTIED,
        pod("p"),
        "stays",
        ("node a2", "no rebalance signal"),
        plan={"evict": False},
        others=(stands("a2"),),
    ),
    Case(
        "a pod whose node waits",
        "a1 S(100s), a2",
        pod("p"),
        "stays",
        ("node a1", "one signal"),
        held=("evict pod default/p: one signal",),
        others=(stands(),),
    ),
    Case(
        "a pod of a DaemonSet", EMPTIED, pod("p"), "held-back", held=("DaemonSet",), others=(stands(kind="DaemonSet"),)
    ),
    Case(
        "a static pod",
        EMPTIED,
        pod("p"),
        "held-back",
        held=("it is a static pod",),
        plan={"evict": False},
        others=(stands(patch={"metadata": {"annotations": {vocabulary.MIRROR_POD_ANNOTATION: "x"}}}),),
    ),
    Case(
        "a pod that has finished",
        EMPTIED,
        pod("p"),
        "held-back",
        held=("has finished",),
        others=(stands(patch={"status": {"phase": "Succeeded"}}),),
    ),
    Case(
        "a pod that tolerates both taints",
        EMPTIED,
        pod("p"),
        "held-back",
        held=("tolerates both",),
        others=(stands(patch=TOLERANT),),
    ),
    Case(
        "a pod in a namespace that is left alone",
        EMPTIED,
        pod("p"),
        "held-back",
        held=("its namespace is annotated",),
        others=(stands(), objects.namespace("default", annotations=IGNORED)),
    ),
    Case(
        "a pod without a controller, if those stay",
        EMPTIED,
        pod("p"),
        "held-back",
        held=("it has no controller",),
        others=(stands(kind=""),),
        rebalance={"evict-bare-pods": False},
    ),
    Case(
        "a pod that its budget holds",
        EMPTIED,
        pod("p"),
        "held-back",
        held=("PodDisruptionBudget default/db allows no disruption now", "asked again every 10 s"),
        plan={"evict": True},
        others=(stands(), objects.budget("db", match={"app": "db"}, max_unavailable=0)),
    ),
    Case(
        "a pod on a node of no zone",
        "a1 -",
        pod("p"),
        "stays",
        ("its node a1 belongs to no zone",),
        others=(stands(),),
    ),
    Case("a pod on a node that is gone", "b1", pod("p"), "stays", ("a1 does not exist any more",), others=(stands(),)),
    Case(
        "a switched off rebalance",
        EMPTIED,
        pod("p"),
        "held-back",
        held=("node-rebalance.run = false",),
        plan={"evict": False},
        others=(stands(),),
        rebalance={"run": False},
    ),
]
BLOCKED = "a1 S(400s) P, b1"
WAITING = [
    Case(
        "a guarded pod from before the block",
        BLOCKED,
        pod("p"),
        "waiting",
        ("it has to avoid a", "it may enter zone a, blocked now"),
        plan={"readmit": True, "evict": False},
        facts={"avoid": ["a"], "carries": [], "groups": [{"group": "g", "zones": ["a", "b"], "blocked": ["a"]}]},
        others=(waits(GUARDED), WEBHOOK),
    ),
    Case(
        "the same without a webhook",
        BLOCKED,
        pod("p"),
        "waiting",
        held=("admit pod default/p again: no webhook configuration",),
        plan={"readmit": False},
        others=(waits(GUARDED),),
    ),
    Case(
        "a pod that carries what it should",
        BLOCKED,
        pod("p"),
        "waiting",
        ("it has to avoid a",),
        plan={"readmit": False},
        facts={"avoid": ["a"], "carries": ["a"]},
        others=(waits(GUARDED, patch=AVOIDS_A), WEBHOOK),
    ),
    Case(
        "a pod that avoids a zone that is open again",
        "a1, b1",
        pod("p"),
        "waiting",
        ("kept out of zone a, not to be avoided any more",),
        plan={"readmit": True},
        others=(waits(GUARDED, patch=AVOIDS_A), WEBHOOK),
    ),
    Case(
        "a pod without a controller",
        BLOCKED,
        pod("p"),
        "waiting",
        held=("it has no controller that would make a new one",),
        plan={"readmit": False},
        others=(waits(GUARDED, ""), WEBHOOK),
    ),
    Case(
        "the second pod of an owner",
        BLOCKED,
        pod("q"),
        "waiting",
        held=("another pod of its owner goes first",),
        plan={"readmit": False},
        others=(waits(GUARDED), waits(GUARDED, name="q"), WEBHOOK),
    ),
    Case(
        "a pod that nobody guards",
        BLOCKED,
        pod("p"),
        "waiting",
        ("kept out of no zone", "nothing opts it in"),
        facts={"skipped": "not-opted-in"},
        others=(waits(),),
    ),
    Case(
        "a pod of which all zones are blocked",
        "a1 S(400s) P",
        pod("p"),
        "waiting",
        ("every zone that it could use is blocked",),
        facts={"skipped": "last-zone"},
        others=(waits(GUARDED),),
    ),
    Case(
        "a waiting pod in a namespace with an override that is none",
        BLOCKED,
        pod("p"),
        "waiting",
        facts={
            "warnings": ["namespace default: annotation ebbtide/block=no has no effect; only ebbtide/block=ignore has"],
        },
        others=(
            waits(GUARDED),
            WEBHOOK,
            objects.namespace("default", annotations={vocabulary.BLOCK_ANNOTATION: "no"}),
        ),
    ),
    Case(
        "the scheduler's own words",
        "a1",
        pod("p"),
        "waiting",
        facts={"scheduler": "0/1 nodes are available"},
        others=(
            waits(
                patch={
                    "status": {
                        "conditions": [
                            {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}
                        ]
                    }
                }
            ),
        ),
    ),
]


def fill(cluster: Cluster, case: Case) -> None:
    """Nodes in the notation, and three more words: I is left alone, T the autoscaler's mark, - outside every zone."""
    for text in case.nodes.split(", "):
        name, *words = text.split()
        known = [word for word in words if word not in ("I", "T", "-")]
        told = notation.told(" ".join((name, *known)), cluster.clock.now(), "" if "-" in words else "g")
        body = told.body
        if "I" in words:
            body = objects.changed(body, {"metadata": {"annotations": IGNORED}})
        if "T" in words:
            mark = objects.taint(vocabulary.TO_BE_DELETED_TAINT_KEY, str(int(cluster.clock.now())))
            body["spec"]["taints"].append(mark)
        # A node is older than its signal, of which the annotation tells.
        assert isinstance(cluster.clock, SimulatedClock)
        cluster.clock.jump(-7200)
        cluster.create(body)
        cluster.clock.jump(7200)
    owners: dict[str, Body] = {}
    for other in case.others:
        body = other if isinstance(other, dict) else owned(cluster, other, owners)
        if body["kind"] == "Namespace":
            annotations = body["metadata"]["annotations"]
            cluster.storage.modify(
                kinds.NAMESPACES,
                body["metadata"]["name"],
                "",
                partial(objects.changed, patch={"metadata": {"annotations": annotations}}),
                Write("test"),
            )
        else:
            cluster.create(body)


def owned(cluster: Cluster, pod: Pod, owners: dict[str, Body]) -> Body:
    """The pod with its controller, which is created for the first one: the cluster collects orphans."""
    if not pod.kind:
        return pod.body
    if pod.kind not in owners:
        (owners[pod.kind],) = cluster.create({**objects.replica_set("owner", replicas=0), "kind": pod.kind})
    return objects.changed(pod.body, {"metadata": {"ownerReferences": [objects.owner_reference(owners[pod.kind])]}})
