"""The kinds that ebbtide speaks of, and where the API server keeps them."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind as the API serves it; `group` is empty for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """What `apiVersion` of such an object says."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of one object, or without `name` of the collection (of all namespaces without `namespace`)."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts += [self.plural, *(part for part in (name, subresource) if part)]
        return "/" + "/".join(quote(part, safe="") for part in parts)


NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
PERSISTENT_VOLUMES: Final = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
PERSISTENT_VOLUME_CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True)
PODS: Final = Resource("", "v1", "pods", "Pod", namespaced=True)
SECRETS: Final = Resource("", "v1", "secrets", "Secret", namespaced=True)
SERVICES: Final = Resource("", "v1", "services", "Service", namespaced=True)
ENDPOINT_SLICES: Final = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", namespaced=True)
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets", "DaemonSet", namespaced=True)
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", "ReplicaSet", namespaced=True)
STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets", "StatefulSet", namespaced=True)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event", namespaced=True)
PDBS: Final = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
MUTATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
