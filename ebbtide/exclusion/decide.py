"""The zones that a pod must be kept out of now: facts in, answer with reasons out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, Self

import msgspec

from ebbtide import vocabulary
from ebbtide.config import Settings
from ebbtide.exclusion.pod import PodTraits
from ebbtide.exclusion.zones import GroupZones
from ebbtide.model import Taint

# k8s.io/api AdmissionResponse: keep warnings within 120 characters; beyond 256 they may be cut.
LONGEST_WARNING = 120


class Skip(StrEnum):
    """Why nothing is excluded although a zone may be blocked; the values are those of a metric label."""

    BOUND = "bound"
    STATIC = "static"
    DAEMON_SET = "daemon-set"
    OPTED_OUT = "opted-out"
    NOT_OPTED_IN = "not-opted-in"
    TOLERATES = "tolerates-block"
    FITS_NO_NODE = "fits-no-node"
    LAST_ZONE = "last-zone"
    VOLUME = "volume"

    @property
    def leaves_alone(self) -> bool:
        """Whether the pod is none of our business, whatever it carries."""
        return self not in (Skip.LAST_ZONE, Skip.VOLUME)

    @property
    def words(self) -> str:
        """For explanations, in a sentence about `it`."""
        return _WORDS[self]


_WORDS: Final = {
    Skip.BOUND: "it has its node already",
    Skip.STATIC: "it is a static pod, from a file of its node",
    Skip.DAEMON_SET: "it belongs to a DaemonSet, which wants a pod on every node",
    Skip.OPTED_OUT: f"its label {vocabulary.GUARD_LABEL}={vocabulary.GUARD_DISABLED} opts it out",
    Skip.NOT_OPTED_IN: f"nothing opts it in, neither the label {vocabulary.POOL_LABEL} on it nor "
    f"{vocabulary.GUARD_LABEL}={vocabulary.GUARD_ENABLED} on it or its namespace",
    Skip.TOLERATES: "it tolerates the prevent taint",
    Skip.FITS_NO_NODE: "all terms of its required node affinity are empty, so it fits no node anyway",
    Skip.LAST_ZONE: "every zone that it could use is blocked, and one has to stay open",
    Skip.VOLUME: "its volumes lie in the blocked zone",
}


class Concern(StrEnum):
    """What a warning is about; the values are those of a metric label."""

    LAST_ZONE = "last-zone"
    VOLUME = "volume"
    PINNED = "pinned"
    TOLERATION = "toleration"


class Caution(msgspec.Struct, frozen=True):
    """A warning for whoever created the pod, at most `LONGEST_WARNING` characters."""

    concern: Concern
    words: str


class Exclusion(msgspec.Struct, frozen=True):
    """The answer: zones in order, and the labels under which nodes of those zones carry them.

    Nodes that use different labels for the zone need an expression for each: `NotIn` lets a node pass that lacks the
    label. `skipped` is None when zones are excluded, and when none is blocked.
    """

    zones: tuple[str, ...] = ()
    zone_labels: tuple[str, ...] = ()
    skipped: Skip | None = None
    warnings: tuple[Caution, ...] = ()

    @property
    def annotation(self) -> str:
        """The value of our annotation for it."""
        return ",".join(self.zones)


@dataclass(frozen=True, slots=True)
class Rules:
    """Settings that decide: the prevent taint's key, and the group of shared-pool pods that name none ("": none)."""

    prevent_taint_key: str = vocabulary.PREVENT_TAINT_KEY
    shared_group: str = ""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """As they are set: admission and re-admission decide by the same."""
        return cls(
            prevent_taint_key=settings.node_rebalance.prevent_ca_scale_up_taint_key,
            shared_group=settings.worker_scaler.shared_sts_config.node_group,
        )


class Around(msgspec.Struct, frozen=True):
    """What decides about one pod besides itself: is its namespace guarded, and in which zones lies each volume.

    Without awareness of volumes `volumes` is empty.
    """

    guarded: bool = False
    volumes: Sequence[frozenset[str]] = ()


NOTHING = Exclusion()


def exclude(pod: PodTraits, zones: Mapping[str, GroupZones], around: Around, rules: Rules) -> Exclusion:
    """The answer for `pod`, given the zones of every group that has live nodes."""
    skip = _skip(pod, around, rules)
    if skip is not None:
        return Exclusion(skipped=skip)
    groups = _usable_groups(pod, zones, rules)
    live, blocked = _zones(groups)
    if not blocked:
        return NOTHING
    if blocked == live:
        words = _sentence("All zones are blocked, none is excluded:", blocked)
        return Exclusion(skipped=Skip.LAST_ZONE, warnings=(Caution(Concern.LAST_ZONE, words),))
    return _excluding(pod, blocked, groups, around)


def _zones(groups: Sequence[GroupZones]) -> tuple[frozenset[str], frozenset[str]]:
    """Where the groups have live nodes, and where all of them that do are blocked."""
    if len(groups) == 1:  # nearly always, and all of this is done for every pod that is created
        return groups[0].live, groups[0].blocked
    live = frozenset().union(*(group.live for group in groups))
    return live, frozenset(
        zone for zone in live if all(zone in group.blocked for group in groups if zone in group.live)
    )


def _skip(pod: PodTraits, around: Around, rules: Rules) -> Skip | None:
    """Why the pod is left as it is, before any zone is looked at."""
    if pod.bound:
        return Skip.BOUND
    if pod.static:
        return Skip.STATIC
    if pod.of_daemon_set:
        return Skip.DAEMON_SET
    if pod.guard == vocabulary.GUARD_DISABLED:
        return Skip.OPTED_OUT
    if not _opted_in(pod, around):
        return Skip.NOT_OPTED_IN
    if pod.tolerations and _tolerates_block(pod, rules):
        return Skip.TOLERATES
    return Skip.FITS_NO_NODE if pod.choice.fits_none else None


def _opted_in(pod: PodTraits, around: Around) -> bool:
    return pod.pool is not None or pod.guard == vocabulary.GUARD_ENABLED or around.guarded


def _tolerates_block(pod: PodTraits, rules: Rules) -> bool:
    """Whatever the taint's value is; it is the time at which a node was tainted, and so differs from node to node."""
    taint = _prevent_taint(rules.prevent_taint_key)
    return any(entry.operator == "Exists" and entry.covers(taint) for entry in pod.tolerations)


@lru_cache(maxsize=8)
def _prevent_taint(key: str) -> Taint:
    return Taint(key, "", vocabulary.PREVENT_TAINT_EFFECT)


def _usable_groups(pod: PodTraits, zones: Mapping[str, GroupZones], rules: Rules) -> tuple[GroupZones, ...]:
    """The groups with live nodes that the pod may use: those that it names, else every one."""
    names = pod.groups()
    if not names and pod.pool == vocabulary.POOL_SHARED and rules.shared_group:
        names = frozenset((rules.shared_group,))
    if not names:
        return tuple(zones.values())
    return tuple([zones[name] for name in names if name in zones])


def _excluding(pod: PodTraits, blocked: frozenset[str], groups: Iterable[GroupZones], around: Around) -> Exclusion:
    excluded = blocked
    warnings: list[Caution] = []
    held = _held_by_volumes(around.volumes, blocked) if around.volumes else frozenset()
    if held:
        excluded = blocked - held
        words = _sentence("A volume of the pod lies in a blocked zone, which is not excluded:", held)
        warnings.append(Caution(Concern.VOLUME, words))
    if not excluded:
        return Exclusion(skipped=Skip.VOLUME, warnings=tuple(warnings))
    pinned = pod.choice.only_zones()
    if pinned and pinned <= excluded:
        words = _sentence("The pod is limited to blocked zones and waits until one is open:", pinned)
        warnings.append(Caution(Concern.PINNED, words))
    labels = frozenset([label for group in groups for zone in excluded for label in group.labels.get(zone, ())])
    found = _exclusion(excluded, labels)
    return msgspec.structs.replace(found, warnings=tuple(warnings)) if warnings else found


@lru_cache(maxsize=256)
def _exclusion(zones: frozenset[str], labels: frozenset[str]) -> Exclusion:
    """Nearly all pods that are created during a block get the same."""
    return Exclusion(tuple(sorted(zones)), tuple(sorted(labels)))


def _held_by_volumes(volumes: Sequence[frozenset[str]], blocked: frozenset[str]) -> frozenset[str]:
    """Blocked zones that stay allowed because all volumes can be reached from nowhere but from blocked zones."""
    reach = frozenset.intersection(*volumes)
    if reach - blocked:
        return frozenset()
    return reach or blocked & frozenset().union(*volumes)


def _sentence(begin: str, zones: frozenset[str]) -> str:
    """As many of the zones as fit into a warning."""
    room = LONGEST_WARNING - len(begin) - 1
    named = ", ".join(sorted(zones))
    return f"{begin} {named if len(named) <= room else named[: room - 3] + '...'}"
