"""What is to be done about a request, and why. Request and knowledge in, decision with its reasons out.

StatefulSets are only ever pinned. Pods are pinned and kept out of blocked zones, by the answer of `ebbtide.exclusion`,
which the re-admission of waiting pods shares.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

import msgspec

from ebbtide import vocabulary
from ebbtide.exclusion.affinity import node_choice
from ebbtide.exclusion.carried import carried_by_us
from ebbtide.exclusion.decide import NOTHING, Around, Caution, Exclusion, Skip, exclude
from ebbtide.exclusion.decide import Rules as ExclusionRules
from ebbtide.exclusion.fields import mapping, sequence, text
from ebbtide.exclusion.pod import PodTraits, pod_traits
from ebbtide.exclusion.zones import GroupZones
from ebbtide.model import CellLabels, read_toleration
from webhook.pinning import Pin, group_of, pin
from webhook.review import Kind, Operation, Request

Raw = Mapping[str, Any]


class Untouched(StrEnum):
    """Requests that are none of our business, beside those of `Skip`; the values are those of a metric label."""

    KIND = "other-kind"
    SUBRESOURCE = "subresource"
    OPERATION = "other-operation"
    NO_OBJECT = "no-object"
    TEMPLATE = "template-unchanged"


class Known(Protocol):
    """What is known of the cluster at the moment of a request."""

    @property
    def zones(self) -> Mapping[str, GroupZones]:
        """The zones of every group that has live nodes."""
        ...

    def around(self, namespace: str, claims: Iterable[str]) -> Around:
        """Is the namespace guarded, and where do the volumes behind these claims lie?"""
        ...


@dataclass(frozen=True, slots=True)
class Rules:
    """Settings that decide."""

    labels: CellLabels = field(default_factory=CellLabels)
    exclusion: ExclusionRules = field(default_factory=ExclusionRules)


class Decision(msgspec.Struct, frozen=True):
    """The answer: what is added (`pin`, `exclusion`), or why the object is left as it is (`skipped`).

    `skipped` can stand beside a pin: no zone is excluded then. `carried` are the zones that an earlier call excluded;
    `pool` is that of the object, "" without. Of several warnings the first is the one to show.
    """

    skipped: Untouched | Skip | None = None
    pool: str = ""
    pin: Pin | None = None
    exclusion: Exclusion = NOTHING
    carried: frozenset[str] = frozenset()
    warnings: tuple[Caution, ...] = ()

    @property
    def warning(self) -> str:
        return self.warnings[0].words if self.warnings else ""


_UNTOUCHED: Final = {reason: Decision(skipped=reason) for reason in (*Untouched, *Skip)}


def decide(request: Request, known: Known, rules: Rules) -> Decision:
    """The decision about a request. Raises TypeError for an object that has a field of a wrong type."""
    if request.kind is Kind.OTHER:
        return _UNTOUCHED[Untouched.KIND]
    if request.subresource:
        return _UNTOUCHED[Untouched.SUBRESOURCE]
    if request.kind is Kind.POD:
        return _about_pod(request, known, rules)
    return _about_set(request, rules)


def _about_pod(request: Request, known: Known, rules: Rules) -> Decision:
    if request.operation is not Operation.CREATE:
        return _UNTOUCHED[Untouched.OPERATION]
    if request.object is None:
        return _UNTOUCHED[Untouched.NO_OBJECT]
    traits = pod_traits(request.object, rules.labels, request.namespace)
    return about_pod(request.object, traits, known.zones, known.around(traits.namespace, traits.claims), rules)


def about_pod(raw: Raw, traits: PodTraits, zones: Mapping[str, GroupZones], around: Around, rules: Rules) -> Decision:
    """The decision about a pod that is being created."""
    found = exclude(traits, zones, around, rules.exclusion)
    if found.skipped is not None and found.skipped.leaves_alone:
        return _UNTOUCHED[found.skipped]
    pinned = None if traits.pool is None else _pin_pod(raw, traits, traits.pool, rules)
    return Decision(
        skipped=found.skipped,
        pool=traits.pool or "",
        pin=pinned,
        exclusion=found,
        carried=carried_by_us(traits) if found.zones else frozenset(),
        warnings=found.warnings if pinned is None else found.warnings + pinned.warnings,
    )


def _pin_pod(raw: Raw, traits: PodTraits, pool: str, rules: Rules) -> Pin:
    group = group_of(traits.choice, traits.pinned_group, pool, rules.exclusion.shared_group)
    return pin(mapping(raw, "metadata"), mapping(raw, "spec"), pool, group, traits.tolerations, rules.labels)


def _about_set(request: Request, rules: Rules) -> Decision:
    if request.operation not in (Operation.CREATE, Operation.UPDATE):
        return _UNTOUCHED[Untouched.OPERATION]
    if request.object is None:
        return _UNTOUCHED[Untouched.NO_OBJECT]
    if request.operation is Operation.UPDATE:
        if request.old_object is None:
            return _UNTOUCHED[Untouched.NO_OBJECT]
        if _template(request.object) == _template(request.old_object):
            return _UNTOUCHED[Untouched.TEMPLATE]
    return about_set(request.object, rules)


def about_set(raw: Raw, rules: Rules) -> Decision:
    """The decision about a StatefulSet that is created, or whose template changes."""
    template = _template(raw)
    metadata, spec = mapping(template, "metadata"), mapping(template, "spec")
    own, inner = mapping(raw, "metadata", "labels"), mapping(metadata, "labels")
    if vocabulary.GUARD_DISABLED in (text(own, vocabulary.GUARD_LABEL), text(inner, vocabulary.GUARD_LABEL)):
        return _UNTOUCHED[Skip.OPTED_OUT]
    pool = text(inner, vocabulary.POOL_LABEL) or text(own, vocabulary.POOL_LABEL)
    if not pool:
        return _UNTOUCHED[Skip.NOT_OPTED_IN]
    label = text(inner, vocabulary.NODE_GROUP_PIN_LABEL) or text(own, vocabulary.NODE_GROUP_PIN_LABEL)
    group = group_of(node_choice(spec, rules.labels), label, pool, rules.exclusion.shared_group)
    tolerations = tuple(read_toleration(entry) for entry in sequence(spec, "tolerations"))
    pinned = pin(metadata, spec, pool, group, tolerations, rules.labels)
    return Decision(pool=pool, pin=pinned, warnings=pinned.warnings)


def _template(raw: Raw) -> Raw:
    return mapping(raw, "spec", "template")
