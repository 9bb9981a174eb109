"""What a load-data worker lacks of its pinning: labels, node selector, toleration, and for the shared pool spreading.

The same for a pod and for the pod template of a StatefulSet. It never depends on the state of the cluster: a template
that changed with it would roll a stateful workload.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from ebbtide import vocabulary
from ebbtide.exclusion.affinity import NodeChoice
from ebbtide.exclusion.decide import LONGEST_WARNING, Caution, Concern
from ebbtide.exclusion.fields import mapping, sequence, text
from ebbtide.model import CellLabels, Taint, Toleration

Raw = Mapping[str, Any]

# The taint of a node group, as its nodes are made with; the pool's toleration answers it.
GROUP_TAINT_EFFECT: Final = "NoSchedule"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


class Pin(msgspec.Struct, frozen=True):
    """What is to be added. `group` is "" when no single one is known; `selects` and `tolerates` concern that group.

    `spreads` asks for a soft spread over zones, `keeps_apart` for a soft anti-affinity between hosts.
    """

    pool: str
    group: str
    labels: tuple[tuple[str, str], ...]
    selects: bool
    tolerates: bool
    spreads: bool
    keeps_apart: bool
    warnings: tuple[Caution, ...]


def pin(
    metadata: Raw, spec: Raw, pool: str, group: str, tolerations: tuple[Toleration, ...], labels: CellLabels
) -> Pin:
    """What a pod of the pool with this metadata and spec lacks. Raises TypeError for a field of a wrong type."""
    wanted = ((vocabulary.POOL_LABEL, pool), (vocabulary.NODE_GROUP_PIN_LABEL, group))
    own = mapping(metadata, "labels")
    contradicts, tolerates = _tolerance(tolerations, group, labels)
    shared = pool == vocabulary.POOL_SHARED
    return Pin(
        pool=pool,
        group=group,
        labels=tuple([each for each in wanted if each[1] and each[0] not in own]),
        selects=bool(group) and labels.group not in mapping(spec, "nodeSelector"),
        tolerates=bool(group) and not tolerates and contradicts is None,
        spreads=shared and not _spread_over_zones(spec, labels),
        keeps_apart=shared and not _kept_apart(spec),
        warnings=() if contradicts is None else (contradicts,),
    )


def group_of(choice: NodeChoice, label: str, pool: str, shared_group: str) -> str:
    """The one group to pin to: of selector, else of affinity, else of the label, else that of the shared pool.

    "" when there is none, and when affinity leaves a choice of several.
    """
    named = choice.groups()
    if named:
        return next(iter(named)) if len(named) == 1 else ""
    return label or (shared_group if pool == vocabulary.POOL_SHARED else "")


def _tolerance(tolerations: tuple[Toleration, ...], group: str, labels: CellLabels) -> tuple[Caution | None, bool]:
    """Whether a toleration for the group's key says another value, and whether the group's taint is tolerated."""
    taint = _group_taint(labels.group, group)
    other: Toleration | None = None
    for entry in tolerations if group else ():
        if entry.covers(taint):
            return None, True
        if other is None and entry.key == labels.group and entry.operator != "Exists" and entry.value != group:
            other = entry
    if other is None:
        return None, False
    words = f"The pod tolerates node group {other.value} and is of {group}; nothing is added"
    return Caution(Concern.TOLERATION, words[:LONGEST_WARNING]), False


@lru_cache(maxsize=64)
def _group_taint(label: str, group: str) -> Taint:
    return Taint(label, group, GROUP_TAINT_EFFECT)


def _spread_over_zones(spec: Raw, labels: CellLabels) -> bool:
    keys = (labels.zone, labels.zone_fallback)
    return any(text(entry, "topologyKey") in keys for entry in sequence(spec, "topologySpreadConstraints"))


def _kept_apart(spec: Raw) -> bool:
    apart = mapping(spec, "affinity", "podAntiAffinity")
    terms = [mapping(entry, "podAffinityTerm") for entry in sequence(apart, _PREFERRED)]
    return any(text(term, "topologyKey") == vocabulary.HOSTNAME_LABEL for term in (*terms, *sequence(apart, _REQUIRED)))
