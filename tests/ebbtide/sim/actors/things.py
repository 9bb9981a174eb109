"""Builders of the objects that actors look at, with defaults that a test does not care about."""

from collections.abc import Mapping, Sequence
from typing import Any

from ebbtide.model import format_time
from ebbtide.sim.actors.kubelet import NOT_READY
from ebbtide.sim.actors.templates import NodeGroup
from ebbtide.sim.stored import Object
from ebbtide.vocabulary import NODE_GROUP_LABEL, PREVENT_TAINT_KEY, SIGNAL_TAINT_KEY, ZONE_LABEL

NOW = 1_772_366_400.0
HOSTNAME = "kubernetes.io/hostname"


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Object:
    return {"key": key, "value": value, "effect": effect}


S = taint(SIGNAL_TAINT_KEY, "rebalance-recommendation-5e1f0c")
P = taint(PREVENT_TAINT_KEY, str(int(NOW)))
STARTING = taint(NOT_READY)


def node(
    name: str,
    *taints: Object,
    ready_for: float | None = 600.0,
    cordoned: bool = False,
    labels: Mapping[str, str] | None = None,
    offers: Mapping[str, str] | None = None,
) -> Object:
    """A node of group `g` in the zone that its first letter names; `ready_for` None is one that is not Ready."""
    spec: Object = {"providerID": f"aws:///{name[0]}/i-{name}"}
    if taints:
        spec["taints"] = list(taints)
    if cordoned:
        spec["unschedulable"] = True
    since = format_time(NOW - (ready_for or 0))
    ready = {"type": "Ready", "status": "False" if ready_for is None else "True", "lastTransitionTime": since}
    labels = {NODE_GROUP_LABEL: "g", ZONE_LABEL: name[0], HOSTNAME: name, **(labels or {})}
    offered = dict(offers or {"cpu": "4", "memory": "16Gi", "pods": "110"})
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
        "spec": spec,
        "status": {"allocatable": offered, "conditions": [ready]},
    }


def deleting(thing: Object, grace: int = 0) -> Object:
    metadata = {**thing["metadata"], "deletionTimestamp": format_time(NOW), "deletionGracePeriodSeconds": grace}
    return {**thing, "metadata": metadata}


def pod(
    name: str,
    on: str = "",
    *,
    cpu: str = "1",
    memory: str = "1Gi",
    labels: Mapping[str, str] | None = None,
    owner: Object | None = None,
    claims: Sequence[str] = (),
    phase: str = "",
    ready: bool = False,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A pod, bound to the node `on`. `spec` are further fields of its spec."""
    phase = phase or ("Running" if on else "Pending")
    requests = {"cpu": cpu, "memory": memory}
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    body: Object = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "creationTimestamp": format_time(NOW),
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
        },
        "spec": {
            "containers": [{"name": "main", "image": "app", "resources": {"requests": requests}}],
            "volumes": volumes,
            **spec,
        },
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]},
    }
    if on:
        body["spec"]["nodeName"] = on
    if owner is not None:
        body["metadata"]["ownerReferences"] = [owner]
    return body


def owner(kind: str = "StatefulSet", name: str = "db") -> Object:
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


def group(zone: str, **fields: Any) -> NodeGroup:
    """The node group `g` in that zone, as the cloud knows it."""
    return NodeGroup(name=f"g-{zone}", labels={NODE_GROUP_LABEL: "g", ZONE_LABEL: zone}, **fields)


def stateful_set(replicas: int = 3, *, claims: Sequence[str] = (), cpu: str = "1", **spec: Any) -> Object:
    templates = [
        {
            "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        for name in claims
    ]
    return _workload("db", replicas, cpu, {"serviceName": "db", "volumeClaimTemplates": templates, **spec})


def deployment(replicas: int = 3, *, cpu: str = "1", **spec: Any) -> Object:
    return _workload("web", replicas, cpu, spec)


def _workload(name: str, replicas: int, cpu: str, spec: Object) -> Object:
    requests = {"cpu": cpu, "memory": "1Gi"}
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "app:1", "resources": {"requests": requests}}]},
    }
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
            **spec,
        },
    }
