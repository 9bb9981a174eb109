"""What is known of each object, as a frozen value.

Two values compare equal exactly when nothing that any decision reads has changed: `resource_version` takes no part in
the comparison, so a status heartbeat is no change.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from ebbtide import vocabulary


@dataclass(frozen=True, slots=True)
class Taint:
    """One entry of `spec.taints`; `time_added` is None where the API has none."""

    key: str
    value: str
    effect: str
    time_added: float | None = None


class Toleration(NamedTuple):
    """One entry of `spec.tolerations`; an absent operator is `Equal`, an empty key with `Exists` is any key."""

    key: str
    operator: str
    value: str
    effect: str

    def covers(self, taint: Taint) -> bool:
        """Whether a pod with this toleration may stand on a node with that taint (k8s.io/api ToleratesTaint)."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.operator == "Equal" and self.value == taint.value


@dataclass(frozen=True, slots=True)
class CellLabels:
    """Which labels say what group and zone a node belongs to."""

    group: str = vocabulary.NODE_GROUP_LABEL
    zone: str = vocabulary.ZONE_LABEL
    zone_fallback: str = vocabulary.ZONE_LABEL_FALLBACK


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """A node group in a zone: the unit that is blocked."""

    group: str
    zone: str

    def __str__(self) -> str:
        return f"{self.group}/{self.zone}"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What is read of a Node.

    `cell` is None while group or zone label is missing or empty. `zone_label` is the key that carried the zone.
    `ready_since` is the last transition of the Ready condition to True, None when it is not True.
    `first_seen`, `rebalance_notice` and `interruption_notice` are our annotations as they stand, unparsed. `instance`
    is the id of the EC2 instance, "" while the node does not say or is none.
    """

    name: str
    uid: str
    resource_version: int = field(compare=False)
    cell: Cell | None
    zone_label: str
    taints: tuple[Taint, ...]
    created: float
    ready_since: float | None
    unschedulable: bool
    deleting: bool
    ignored: bool
    first_seen: str | None
    has_annotations: bool
    rebalance_notice: str | None = None
    interruption_notice: str | None = None
    instance: str = ""

    @property
    def key(self) -> str:
        return self.name

    @property
    def ready(self) -> bool:
        return self.ready_since is not None

    def taint(self, key: str, effect: str | None = None) -> Taint | None:
        """The first taint with that key (and effect), None without one."""
        for taint in self.taints:
            if taint.key == key and (effect is None or taint.effect == effect):
                return taint
        return None


class Owner(NamedTuple):
    """The controlling owner reference of an object."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What is read of a Pod. `owner` is the controller; `mirror` marks the API's image of a static pod."""

    namespace: str
    name: str
    uid: str
    resource_version: int = field(compare=False)
    node: str
    phase: str
    priority: int
    deleting: bool
    owner: Owner | None
    mirror: bool
    tolerations: tuple[Toleration, ...]
    claims: tuple[str, ...]
    pool: str
    busy: bool

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def tolerates(self, taint: Taint) -> bool:
        return any(toleration.covers(taint) for toleration in self.tolerations)


@dataclass(frozen=True, slots=True)
class NamespaceFacts:
    """What is read of a Namespace: whether its pods are to be left alone, and whether all of them are guarded."""

    name: str
    uid: str
    resource_version: int = field(compare=False)
    ignored: bool
    guarded: bool = False

    @property
    def key(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """What is read of a PersistentVolumeClaim; `volume` is "" while it is not bound."""

    namespace: str
    name: str
    uid: str
    resource_version: int = field(compare=False)
    volume: str

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class VolumeFacts:
    """What is read of a PersistentVolume.

    `zones` and `hosts` (values of `kubernetes.io/hostname`) are those it can be reached from, None if from all.
    """

    name: str
    uid: str
    resource_version: int = field(compare=False)
    zones: frozenset[str] | None
    hosts: frozenset[str] | None = None

    @property
    def key(self) -> str:
        return self.name

    def only_in(self, zone: str) -> bool:
        """Whether a pod that uses the volume can run in no zone but this one."""
        return self.zones is not None and self.zones == {zone}

    def only_on(self, host: str) -> bool:
        """Whether a pod that uses the volume can run on no host but this one (a local volume)."""
        return self.hosts is not None and self.hosts == {host}
