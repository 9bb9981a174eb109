"""Builders of objects in the shapes in which real clusters have them, for tests, demo and random histories.

Each gives a body that can be POSTed, or put into a cluster with `Cluster.create` (which keeps the status). What has no
parameter of its own is changed with `changed`, a merge patch:

    cordoned = changed(node("a", zone="z1"), {"spec": {"unschedulable": True}})
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final
from zlib import crc32

from ebbtide import vocabulary
from ebbtide.sim.patches import merge_patched
from ebbtide.sim.registry import copied
from ebbtide.sim.stored import Object

Strings = Mapping[str, str]

# One hour before `time.DEFAULT_EPOCH`: long enough ago for everything that wants a node to have been Ready for a while.
LONG_AGO: Final = "2025-12-31T23:00:00Z"
_CAPACITY: Final = {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "100Gi", "pods": "58"}
_PRESSURES: Final = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}


def changed(body: Object, patch: Mapping[str, Any]) -> Object:
    """The object after a merge patch, as a copy."""
    return merge_patched(copied(body), patch)


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Object:
    return {"key": key, "value": value, "effect": effect} if value else {"key": key, "effect": effect}


def node(
    name: str,
    *,
    group: str = "",
    zone: str = "",
    taints: Iterable[Object] = (),
    labels: Strings | None = None,
    ready: bool = True,
) -> Object:
    """A node of EKS with 4 CPUs and 16 GiB, Ready since `LONG_AGO`; without group or zone it lacks those labels."""
    address = f"10.0.{crc32(name.encode()) % 256}.{crc32(name[::-1].encode()) % 256}"
    own = {vocabulary.NODE_GROUP_LABEL: group, vocabulary.ZONE_LABEL: zone, "topology.kubernetes.io/region": zone[:-1]}
    standard = {
        "beta.kubernetes.io/instance-type": "m6i.xlarge",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "m6i.xlarge",
    }
    spec: Object = {"providerID": f"aws:///{zone or 'unknown'}/i-{crc32(name.encode()):017x}"}
    if listed := list(taints):
        spec["taints"] = listed
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**standard, **{key: value for key, value in own.items() if value}, **(labels or {})},
            "annotations": {
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": spec,
        "status": {
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "capacity": dict(_CAPACITY),
            "allocatable": {**_CAPACITY, "cpu": "3920m", "memory": "15Gi"},
            "conditions": [*_pressures(), ready_condition(ready=ready)],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": _node_info(name),
        },
    }


def ready_condition(*, ready: bool, since: str = LONG_AGO) -> Object:
    """The Ready condition of a node."""
    return {
        "type": "Ready",
        "status": "True" if ready else "False",
        "lastHeartbeatTime": since,
        "lastTransitionTime": since,
        "reason": "KubeletReady" if ready else "KubeletNotReady",
        "message": "kubelet is posting ready status" if ready else "container runtime network not ready",
    }


def pod(
    name: str,
    *,
    namespace: str = "default",
    node: str = "",
    labels: Strings | None = None,
    owner: Object | None = None,
    ready: bool = True,
) -> Object:
    """A pod of one container: on a node Running (and Ready unless told otherwise), without one Pending.

    `owner` is the object that controls it, as the cluster returned it.
    """
    metadata: Object = {"name": name, "namespace": namespace, "labels": dict(labels or {})}
    if owner is not None:
        metadata["ownerReferences"] = [owner_reference(owner)]
    body: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(), "status": {}}
    if not node:
        body["status"] = {"phase": "Pending"}
        return body
    body["spec"]["nodeName"] = node
    state = "True" if ready else "False"
    types = {"PodScheduled": "True", "Initialized": "True", "ContainersReady": state, "Ready": state}
    conditions = [{"type": key, "status": value, "lastTransitionTime": LONG_AGO} for key, value in types.items()]
    body["status"] = {"phase": "Running", "conditions": conditions, "startTime": LONG_AGO}
    return body


def pod_spec(*, cpu: str = "500m", memory: str = "1Gi", tolerations: Iterable[Object] = ()) -> Object:
    """One container `app` that asks for so much."""
    container = {
        "name": "app",
        "image": "registry.example/app:1.0",
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
    }
    spec: Object = {"containers": [container], "terminationGracePeriodSeconds": 30}
    if listed := list(tolerations):
        spec["tolerations"] = listed
    return spec


def owner_reference(owner: Object, *, controller: bool = True) -> Object:
    """A reference to an object that is in the cluster."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": controller,
        "blockOwnerDeletion": True,
    }


def namespace(name: str, *, labels: Strings | None = None, annotations: Strings | None = None) -> Object:
    metadata = {"name": name, "labels": dict(labels or {}), "annotations": dict(annotations or {})}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def stateful_set(
    name: str,
    *,
    replicas: int = 3,
    namespace: str = "default",
    spec: Object | None = None,
    claims: Iterable[str] = (),
) -> Object:
    """A StatefulSet whose pods are labelled `app: <name>`; `claims` names claim templates of 10 GiB each."""
    body = _workload("StatefulSet", name, replicas, namespace, spec)
    body["spec"]["serviceName"] = name
    templates = [
        {
            "metadata": {"name": claim},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}},
        }
        for claim in claims
    ]
    if templates:
        body["spec"]["volumeClaimTemplates"] = templates
    return body


def deployment(name: str, *, replicas: int = 3, namespace: str = "default", spec: Object | None = None) -> Object:
    """A Deployment whose pods are labelled `app: <name>`."""
    return _workload("Deployment", name, replicas, namespace, spec)


def replica_set(name: str, *, replicas: int = 3, namespace: str = "default", spec: Object | None = None) -> Object:
    """A ReplicaSet whose pods are labelled `app: <name>`."""
    return _workload("ReplicaSet", name, replicas, namespace, spec)


def budget(
    name: str,
    *,
    match: Strings,
    namespace: str = "default",
    min_available: int | str | None = None,
    max_unavailable: int | str | None = None,
) -> Object:
    """A PodDisruptionBudget over the pods with these labels."""
    spec: Object = {"selector": {"matchLabels": dict(match)}}
    if min_available is not None:
        spec["minAvailable"] = min_available
    if max_unavailable is not None:
        spec["maxUnavailable"] = max_unavailable
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


def eviction(pod: Object) -> Object:
    """An eviction of exactly this pod, by UID."""
    metadata = pod["metadata"]
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "deleteOptions": {"preconditions": {"uid": metadata["uid"]}},
    }


def _workload(kind: str, name: str, replicas: int, namespace: str, spec: Object | None) -> Object:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec or pod_spec()},
        },
    }


def _pressures() -> list[Object]:
    return [
        {
            "type": kind,
            "status": "False",
            "lastHeartbeatTime": LONG_AGO,
            "lastTransitionTime": LONG_AGO,
            "reason": reason,
            "message": message,
        }
        for kind, (reason, message) in _PRESSURES.items()
    ]


def _node_info(name: str) -> Object:
    identity = f"{crc32(name.encode()):032x}"
    return {
        "machineID": identity,
        "systemUUID": identity,
        "bootID": identity,
        "kernelVersion": "6.12.55",
        "osImage": "Amazon Linux 2023",
        "containerRuntimeVersion": "containerd://2.1.4",
        "kubeletVersion": "v1.37.2",
        "kubeProxyVersion": "v1.37.2",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }
