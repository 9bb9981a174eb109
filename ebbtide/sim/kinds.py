"""The kinds of object that the embedded cluster serves.

On purpose a table of its own, not the client's: a path that is wrong in the client must fail here.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One served resource.

    `has_status`: writes of the object leave `status` alone, and `/status` leaves the rest alone.
    `counts_generations`: `metadata.generation` starts at 1 and grows with every change outside of metadata and status.
    `returns_deleted`: DELETE answers with the object, not with a Status.
    `updates_blindly`: a PUT without `metadata.resourceVersion` is accepted (the real registries differ in this).
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    has_status: bool = False
    counts_generations: bool = False
    updates_blindly: bool = True
    returns_deleted: bool = False
    short_names: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`statefulsets.apps`, `pods`: how the server names the resource in messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def title(self) -> str:
        """`StatefulSet.apps`, `Pod`: how the server names the kind in messages."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def type_meta(self) -> dict[str, str]:
        """`apiVersion` and `kind`, in the order in which every object starts."""
        return {"apiVersion": self.api_version, "kind": self.kind}

    @property
    def json_prefix(self) -> bytes:
        """How the JSON text of every object of this kind starts."""
        return f'{{"apiVersion":"{self.api_version}","kind":"{self.kind}",'.encode()

    @property
    def path(self) -> str:
        """`/api/v1` or `/apis/<group>/<version>`."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


_RETURN_DELETED: Final = frozenset(
    {"namespaces", "persistentvolumes", "persistentvolumeclaims", "services", "serviceaccounts"}
)


def _core(plural: str, kind: str, *short_names: str, namespaced: bool = True, has_status: bool = False) -> Kind:
    return Kind(
        "",
        "v1",
        plural,
        kind,
        namespaced=namespaced,
        has_status=has_status,
        returns_deleted=plural in _RETURN_DELETED,
        short_names=short_names,
    )


def _workload(plural: str, kind: str, short_name: str) -> Kind:
    return Kind("apps", "v1", plural, kind, has_status=True, counts_generations=True, short_names=(short_name,))


def _webhooks(plural: str, kind: str) -> Kind:
    return Kind(
        "admissionregistration.k8s.io",
        "v1",
        plural,
        kind,
        namespaced=False,
        counts_generations=True,
        updates_blindly=False,
    )


NAMESPACES: Final = _core("namespaces", "Namespace", "ns", namespaced=False, has_status=True)
NODES: Final = _core("nodes", "Node", "no", namespaced=False, has_status=True)
PODS: Final = Kind(
    "", "v1", "pods", "Pod", has_status=True, counts_generations=True, returns_deleted=True, short_names=("po",)
)
PERSISTENT_VOLUMES: Final = _core("persistentvolumes", "PersistentVolume", "pv", namespaced=False, has_status=True)
PERSISTENT_VOLUME_CLAIMS: Final = _core("persistentvolumeclaims", "PersistentVolumeClaim", "pvc", has_status=True)
CONFIG_MAPS: Final = _core("configmaps", "ConfigMap", "cm")
SECRETS: Final = _core("secrets", "Secret")
SERVICES: Final = _core("services", "Service", "svc", has_status=True)
SERVICE_ACCOUNTS: Final = _core("serviceaccounts", "ServiceAccount", "sa")
CORE_EVENTS: Final = _core("events", "Event", "ev")
EVENTS: Final = Kind("events.k8s.io", "v1", "events", "Event", short_names=("ev",))
STATEFUL_SETS: Final = _workload("statefulsets", "StatefulSet", "sts")
REPLICA_SETS: Final = _workload("replicasets", "ReplicaSet", "rs")
DEPLOYMENTS: Final = _workload("deployments", "Deployment", "deploy")
DAEMON_SETS: Final = _workload("daemonsets", "DaemonSet", "ds")
POD_DISRUPTION_BUDGETS: Final = Kind(
    "policy",
    "v1",
    "poddisruptionbudgets",
    "PodDisruptionBudget",
    has_status=True,
    counts_generations=True,
    updates_blindly=False,
    short_names=("pdb",),
)
ENDPOINT_SLICES: Final = Kind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", counts_generations=True)
LEASES: Final = Kind("coordination.k8s.io", "v1", "leases", "Lease", updates_blindly=False)
MUTATING_WEBHOOKS: Final = _webhooks("mutatingwebhookconfigurations", "MutatingWebhookConfiguration")
VALIDATING_WEBHOOKS: Final = _webhooks("validatingwebhookconfigurations", "ValidatingWebhookConfiguration")

KINDS: Final = (
    NAMESPACES,
    NODES,
    PODS,
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
    CONFIG_MAPS,
    SECRETS,
    SERVICES,
    SERVICE_ACCOUNTS,
    CORE_EVENTS,
    EVENTS,
    STATEFUL_SETS,
    REPLICA_SETS,
    DEPLOYMENTS,
    DAEMON_SETS,
    POD_DISRUPTION_BUDGETS,
    ENDPOINT_SLICES,
    LEASES,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
)

_BY_NAME: Final = {(kind.api_version, kind.kind): kind for kind in KINDS}


def kind_of(api_version: str, kind: str) -> Kind | None:
    """The kind that an object's (or owner reference's) `apiVersion` and `kind` name, None for one not served."""
    return _BY_NAME.get((api_version, kind))
