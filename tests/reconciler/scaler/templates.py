"""A template as an operator may have it, with everything that must not be copied as it is."""

from copy import deepcopy
from typing import Any

from ebbtide.sim.objects import changed

Raw = dict[str, Any]
NAMESPACE = "tidb-serverless"

_TEMPLATE: Raw = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {
        "name": "tikv-api",
        "namespace": NAMESPACE,
        "labels": {"app": "tikv-api"},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
    },
    "spec": {
        "replicas": 3,
        "serviceName": "tikv-api-peer",
        "selector": {"matchLabels": {"app": "tikv-api"}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
        "podManagementPolicy": "OrderedReady",
        "template": {
            "metadata": {"labels": {"app": "tikv-api"}, "annotations": {"prometheus.io/scrape": "true"}},
            "spec": {
                "terminationGracePeriodSeconds": 30,
                "containers": [
                    {
                        "name": "tikv",
                        "image": "registry.example/tikv:1",
                        "env": [{"name": "TIKV_LOAD_DATA_WORKER", "value": "false"}, {"name": "ZONE", "value": "a"}],
                        "resources": {"requests": {"cpu": "8", "memory": "32Gi"}, "limits": {"memory": "32Gi"}},
                        "livenessProbe": {"tcpSocket": {"port": 19500}},
                        "readinessProbe": {"tcpSocket": {"port": 19500}},
                        "volumeMounts": [{"name": "data", "mountPath": "/var/lib/tikv"}],
                    },
                    {
                        "name": "logs",
                        "image": "registry.example/logs:1",
                        "resources": {"requests": {"cpu": "100m"}},
                        "livenessProbe": {"tcpSocket": {"port": 1}},
                    },
                ],
            },
        },
        "volumeClaimTemplates": [
            {
                "metadata": {"name": "data", "labels": {"disk": "fast"}},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "gp3",
                    "resources": {"requests": {"storage": "7Gi"}},
                },
                "status": {"phase": "Pending"},
            }
        ],
    },
}


def template(pod: Raw | None = None, **spec: Any) -> Raw:
    """The template, after merge patches to its pods' spec and to its own."""
    patch = {"spec": {**spec, **({} if pod is None else {"template": {"spec": pod}})}}
    return changed(deepcopy(_TEMPLATE), patch)


def first_container(**patch: Any) -> Raw:
    """A patch of the pods' spec that changes the first container; None takes a field away."""
    first, *others = deepcopy(_TEMPLATE["spec"]["template"]["spec"]["containers"])
    return {"containers": [changed(first, patch), *others]}
