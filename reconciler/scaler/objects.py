"""What the objects of dedicated workers and of the pool have in common. Pure."""

from typing import Any

from ebbtide.kube.resources import SERVICES
from ebbtide.vocabulary import POOL_LABEL, SERVICE_LABEL

Object = dict[str, Any]


def labels(set_name: str, component: str, pool: str) -> dict[str, str]:
    """Of a set, its pods and its Service; `component` is what all workers of that `pool` are called."""
    return {
        "app": component,
        "app.kubernetes.io/name": component,
        "app.kubernetes.io/component": component,
        SERVICE_LABEL: set_name,
        POOL_LABEL: pool,
    }


def headless_service(metadata: Object, set_name: str, port: int) -> Object:
    """The headless Service of a set. Names of pods are published before they are ready, to be known everywhere by then:
    when a client is given one."""
    return {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.kind,
        "metadata": metadata,
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {SERVICE_LABEL: set_name},
            "ports": [{"name": "load-data", "port": port, "targetPort": port, "protocol": "TCP"}],
        },
    }
