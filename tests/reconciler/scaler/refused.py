"""Pods that cannot be made: somebody else's have their names, and the controller of sets tells what refuses them."""

from typing import Final

from ebbtide.model import format_micro_time
from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.deletion import Deletion
from ebbtide.sim.kinds import EVENTS, PODS, STATEFUL_SETS

NAMESPACE: Final = "tidb-serverless"
QUOTA: Final = 'pods "x" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2'
SECURITY: Final = 'pods "x" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false'


def block(cluster: Cluster, *pods: str) -> None:
    for name in pods:
        cluster.create(objects.pod(name, namespace=NAMESPACE))


def unblock(cluster: Cluster, *pods: str) -> None:
    """They are made as soon as their names are free."""
    for name in pods:
        cluster.storage.delete(PODS, name, NAMESPACE, Deletion(grace_seconds=0))


def tell(cluster: Cluster, name: str, words: str, ago: float = 0.0) -> None:
    """The event of the controller about a set whose pod was refused, so many seconds ago."""
    stateful_set = cluster.storage.find(STATEFUL_SETS, name, NAMESPACE)
    at = cluster.clock.now() - ago
    cluster.create(
        {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": f"{name}.{at:.3f}", "namespace": NAMESPACE},
            "type": "Warning",
            "reason": "FailedCreate",
            "note": f"create Pod {name}-0 in StatefulSet {name} failed error: {words}",
            "regarding": {"kind": "StatefulSet", "namespace": NAMESPACE, "name": name, "uid": stateful_set.uid},
            "reportingController": "statefulset-controller",
            "reportingInstance": "kube-controller-manager-0",
            "action": "Create",
            "eventTime": format_micro_time(at),
        }
    )
