"""The objects that a load begins with: pods that load small tables themselves, and nodes with room for workers."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ebbtide import vocabulary
from ebbtide.cli.demo.scenario import RISKY, SAFE, SPOT
from ebbtide.cli.demo.scenery import Scenery
from ebbtide.config.scaler import WorkerScaler
from ebbtide.config.settings import DEFAULT_NAMESPACE
from ebbtide.sim.actors.templates import NodeGroup
from ebbtide.sim.loaders.floor import PORT

Object = dict[str, Any]

NAMESPACE: Final = WorkerScaler().namespace
TEMPLATE: Final = WorkerScaler().template_sts_name
ON_DEMAND: Final = "on-demand"
_ROOMY: Final = {"cpu": "8", "memory": "32Gi", "pods": "110"}
_SMALL: Final = {"cpu": "2", "memory": "8Gi", "pods": "110"}
# Nodes of workers, and those of the template's pods, which nothing else fits on.
_WORKER_NODES: Final = ("a-1", "a-2", "a-3", "b-1")
_API_NODES: Final = ("api-a", "api-b")


def objects() -> Iterator[Object]:
    """Namespaces, nodes and the StatefulSet that workers are copied from."""
    for name in (NAMESPACE, DEFAULT_NAMESPACE):
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    for name in _WORKER_NODES:
        yield _node(name, SPOT, RISKY if name.startswith("a") else SAFE, _ROOMY)
    for name in _API_NODES:
        yield _node(name, ON_DEMAND, RISKY if name.endswith("a") else SAFE, _SMALL)
    yield _template()


def _node(name: str, group: str, zone: str, offers: Mapping[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **_labels(group, zone)}},
        "spec": {"providerID": f"aws:///{zone}/i-{name}"},
        "status": {"capacity": offers, "allocatable": offers},
    }


def _template() -> Object:
    labels = {"app": TEMPLATE}
    container = {
        "name": "tikv",
        "image": "pingcap/tikv:v8.5",
        "env": [{"name": "TIKV_LOAD_DATA_WORKER", "value": "false"}],
        "ports": [{"name": "load-data", "containerPort": PORT}],
        "resources": {"requests": {"cpu": "1500m", "memory": "6Gi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/var/lib/tikv"}],
    }
    disk = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "20Gi"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": TEMPLATE, "namespace": NAMESPACE},
        "spec": {
            "replicas": len(_API_NODES),
            "serviceName": f"{TEMPLATE}-peer",
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"nodeSelector": {vocabulary.NODE_GROUP_LABEL: ON_DEMAND}, "containers": [container]},
            },
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": disk}],
        },
    }


def _labels(group: str, zone: str) -> Mapping[str, str]:
    return {vocabulary.NODE_GROUP_LABEL: group, vocabulary.ZONE_LABEL: zone}


# The risky zone is the cheaper one, so the autoscaler prefers it. Everything finds its place by itself.
WORKERS: Final = Scenery(
    namespace=NAMESPACE,
    groups=(
        NodeGroup("a", _labels(SPOT, RISKY), _ROOMY, priority=20),
        NodeGroup("b", _labels(SPOT, SAFE), _ROOMY, priority=10),
    ),
    objects=objects,
    opening={},
)
