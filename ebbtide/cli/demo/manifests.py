"""The objects that scenarios of zones begin with: two zones, two node groups, a database and what stands before it."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ebbtide import vocabulary
from ebbtide.cli.demo.scenario import RISKY, SAFE, SPOT
from ebbtide.cli.demo.scenery import Scenery
from ebbtide.config.settings import DEFAULT_NAMESPACE
from ebbtide.sim.actors.templates import NodeGroup

Object = dict[str, Any]

ON_DEMAND: Final = "on-demand"
NAMESPACE: Final = "tidb"
_OFFERS: Final = {"cpu": "4", "memory": "16Gi", "pods": "110"}

# Which applications stand on which node when the curtain rises. The zone that is safe is nearly full: a pod of tidb
# finds room in it, a pod of tikv does not.
OPENING: Final[Mapping[str, tuple[str, ...]]] = {
    "a-1": ("tikv", "tidb"),
    "a-2": ("tidb", "tidb"),
    "a-3": ("tikv", "tidb"),
    "b-1": ("tikv", "tidb"),
    "b-2": ("tidb", "tidb"),
    "pd-a": ("pd",),
    "pd-b": (),
}


def objects() -> Iterator[Object]:
    """Everything that is there."""
    yield from namespaces()
    yield from nodes()
    yield from workloads()


def namespaces() -> Iterator[Object]:
    for name in (NAMESPACE, DEFAULT_NAMESPACE):
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def nodes() -> Iterator[Object]:
    for name in OPENING:
        zone = RISKY if "a" in name else SAFE
        group = ON_DEMAND if name.startswith("pd") else SPOT
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **_labels(group, zone)}},
            "spec": {"providerID": f"aws:///{zone}/i-{name}"},
            "status": {"capacity": _OFFERS, "allocatable": _OFFERS},
        }


def workloads() -> Iterator[Object]:
    yield _workload("StatefulSet", "pd", ON_DEMAND, cpu="500m", memory="1Gi")
    yield _workload("StatefulSet", "tikv", SPOT, cpu="2500m", memory="4Gi")
    yield _workload("Deployment", "tidb", SPOT, cpu="1200m", memory="1Gi")
    yield {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "tikv", "namespace": NAMESPACE},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "tikv"}}},
    }


def _workload(kind: str, app: str, group: str, *, cpu: str, memory: str) -> Object:
    replicas = sum(apps.count(app) for apps in OPENING.values())
    labels = {"app": app}
    pod_spec = {
        "nodeSelector": {vocabulary.NODE_GROUP_LABEL: group},
        "containers": [
            {"name": app, "image": f"pingcap/{app}:v8.5", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
        ],
    }
    spec: Object = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod_spec},
    }
    if kind == "StatefulSet":
        spec |= {"serviceName": app, "podManagementPolicy": "Parallel"}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": app, "namespace": NAMESPACE},
        "spec": spec,
    }


def _labels(group: str, zone: str) -> Mapping[str, str]:
    return {vocabulary.NODE_GROUP_LABEL: group, vocabulary.ZONE_LABEL: zone}


# The risky zone is the cheaper one, so the autoscaler prefers it.
DATABASE: Final = Scenery(
    namespace=NAMESPACE,
    groups=(
        NodeGroup("a", _labels(SPOT, RISKY), _OFFERS, priority=20),
        NodeGroup("b", _labels(SPOT, SAFE), _OFFERS, priority=10),
    ),
    objects=objects,
    opening=OPENING,
)
