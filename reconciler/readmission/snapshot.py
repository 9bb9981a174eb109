"""Stores → frozen facts: waiting pods by owner, and what decides about them besides themselves."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ebbtide.exclusion.decide import Around, Exclusion, Rules, exclude
from ebbtide.exclusion.fields import mapping, sequence
from ebbtide.exclusion.pod import pod_traits
from ebbtide.exclusion.volumes import BoundVolumes
from ebbtide.exclusion.zones import BlockedZones
from ebbtide.kube.store import Store
from ebbtide.model import CellLabels, NamespaceFacts
from reconciler.readmission.decide import History, OwnerFacts, OwnerKey, PendingPod

Raw = Mapping[str, Any]

# The webhook watches nodes by itself and may hear of a taint a moment after us, above all when we have written it; what
# is admitted before that comes back as it was.
SETTLE: Final = 3.0
_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


def pending_pod(raw: Raw, labels: CellLabels) -> PendingPod:
    """Reads a Pod object. Raises KeyError or TypeError for one that makes no sense."""
    metadata, status = raw["metadata"], mapping(raw, "status")
    return PendingPod(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=int(metadata["resourceVersion"]),
        traits=pod_traits(raw, labels),
        pending=status.get("phase") in (None, "", "Pending"),
        deleting=metadata.get("deletionTimestamp") is not None,
        ran=_ran(status),
        gated=bool(sequence(mapping(raw, "spec"), "schedulingGates")),
    )


def _ran(status: Raw) -> bool:
    scheduled = any(
        condition.get("type") == "PodScheduled" and condition.get("status") == "True"
        for condition in sequence(status, "conditions")
    )
    return scheduled or any(sequence(status, name) for name in _STATUSES)


@dataclass(frozen=True, slots=True)
class WebhookFacts:
    """What is read of a MutatingWebhookConfiguration: whether new pods are sent to one of its entries.

    An entry that names a Service and no CA cannot be called: nobody else vouches for a Service's name.
    """

    name: str
    uid: str
    resource_version: int = field(compare=False)
    takes_pods: bool

    @property
    def key(self) -> str:
        return self.name


def webhook_facts(raw: Raw) -> WebhookFacts:
    """Reads a MutatingWebhookConfiguration object."""
    metadata = raw["metadata"]
    return WebhookFacts(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=int(metadata["resourceVersion"]),
        takes_pods=any(_callable(entry) and _takes_pods(entry) for entry in sequence(raw, "webhooks")),
    )


def _callable(entry: Raw) -> bool:
    config = mapping(entry, "clientConfig")
    return bool(config.get("caBundle") or config.get("url"))


def _takes_pods(entry: Raw) -> bool:
    return any(
        _names(rule, "operations", "CREATE") and _names(rule, "apiGroups", "") and _names(rule, "resources", "pods")
        for rule in sequence(entry, "rules")
    )


def _names(rule: Raw, which: str, word: str) -> bool:
    return any(each in (word, "*", "*/*") for each in rule.get(which) or ())


class Owners:
    """Index of the pod store: owner → keys of its pods. Pods without a controller are nobody's, and not in it.

    Keys and not facts: a store tells of nothing that is equal, and a deletion needs the newest resourceVersion.
    """

    def __init__(self, pods: Store[PendingPod]) -> None:
        self._pods = pods
        self._owners: dict[OwnerKey, set[str]] = {}
        for pod in pods.values():
            self._changed(None, pod)
        pods.subscribe(self._changed)

    def all(self) -> tuple[OwnerKey, ...]:
        return tuple(self._owners)

    def of_namespace(self, namespace: str) -> tuple[OwnerKey, ...]:
        return tuple(owner for owner in self._owners if owner.namespace == namespace)

    def claiming(self) -> tuple[OwnerKey, ...]:
        """Owners of pods that have volumes."""
        return tuple(owner for owner in self._owners if any(pod.traits.claims for pod in self.pods(owner)))

    def pods(self, owner: OwnerKey) -> tuple[PendingPod, ...]:
        found = (self._pods.get(key) for key in self._owners.get(owner, ()))
        return tuple(pod for pod in found if pod is not None)

    def _changed(self, old: PendingPod | None, new: PendingPod | None) -> None:
        if old is not None and old.owner is not None:
            keys = self._owners.get(old.owner, set())
            keys.discard(old.key)
            if not keys:
                self._owners.pop(old.owner, None)
        if new is not None and new.owner is not None:
            self._owners.setdefault(new.owner, set()).add(new.key)


@dataclass(frozen=True, slots=True)
class Watched:
    """The stores that decide. `volumes` is None without awareness of volumes."""

    pods: Store[PendingPod]
    namespaces: Store[NamespaceFacts]
    webhooks: Store[WebhookFacts]
    volumes: BoundVolumes | None

    @property
    def known(self) -> bool:
        """Whether everything has been read once."""
        stores = (self.pods, self.namespaces, self.webhooks)
        return all(store.synced for store in stores) and (self.volumes is None or self.volumes.known)


class Snapshot:
    """Facts for `decide`. Needs to be told of changes that have to settle."""

    def __init__(self, watched: Watched, zones: BlockedZones, rules: Rules) -> None:
        self._watched = watched
        self._zones = zones
        self._rules = rules
        self._all_changed = float("-inf")
        self._changed: dict[str, float] = {}
        self.owners = Owners(watched.pods)

    @property
    def known(self) -> bool:
        return self._watched.known

    def changed(self, monotonic: float, group: str | None = None) -> None:
        """The zones of a group have changed just now, or with None anything that concerns all pods."""
        if group is None:
            self._all_changed = monotonic
        else:
            self._changed[group] = monotonic

    def owner(self, owner: OwnerKey, history: History, monotonic: float) -> OwnerFacts:
        namespace = self._watched.namespaces.get(owner.namespace)
        pods = self.owners.pods(owner)
        return OwnerFacts(
            pods=tuple((pod, self.exclusion(pod)) for pod in pods),
            webhook=any(webhook.takes_pods for webhook in self._watched.webhooks.values()),
            ignored=namespace is not None and namespace.ignored,
            settles_in=self.settles_in(pods, monotonic),
            history=history,
        )

    def exclusion(self, pod: PendingPod) -> Exclusion:
        """What is decided about the pod's zones now."""
        traits, volumes = pod.traits, self._watched.volumes
        namespace = self._watched.namespaces.get(traits.namespace)
        around = Around(
            guarded=namespace is not None and namespace.guarded,
            volumes=() if volumes is None else volumes.zones(traits.namespace, traits.claims),
        )
        return exclude(traits, self._zones.groups, around, self._rules)

    def settles_in(self, pods: Iterable[PendingPod], monotonic: float) -> float:
        """Seconds until nothing that decides about these pods has changed for a while."""
        named = [pod.traits.groups() for pod in pods]
        groups = frozenset().union(*named) if all(named) else self._changed.keys()
        last = max((self._changed[group] for group in groups if group in self._changed), default=float("-inf"))
        return max(0.0, max(last, self._all_changed) + SETTLE - monotonic)
