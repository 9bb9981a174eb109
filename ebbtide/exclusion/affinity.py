"""What `nodeSelector` and required node affinity say of groups and zones, in the scheduler's reading.

Terms are alternatives, the expressions of a term all hold. `NotIn` lets a node pass that lacks the label, `In` does
not. A term without expressions and fields fits no node and so takes no part.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from ebbtide.exclusion.fields import mapping, sequence, text, texts
from ebbtide.model import CellLabels

Raw = Mapping[str, Any]


class Term(msgspec.Struct, frozen=True):
    """One term that fits some node: the groups and zones that it is limited to (None: all), and what it excludes.

    `never` holds, for each NotIn expression on a zone label, that label and its values.
    """

    groups: frozenset[str] | None
    zones: frozenset[str] | None
    never: tuple[tuple[str, frozenset[str]], ...]

    def avoids(self, zone: str, label: str) -> bool:
        """Whether it fits no node that carries that zone under that label."""
        if self.zones is not None and zone not in self.zones:
            return True
        return any(label == key and zone in zones for key, zones in self.never)


class NodeChoice(msgspec.Struct, frozen=True):
    """The nodes that a pod may stand on by its own word.

    `group` and `zones` are those of `nodeSelector` ("" and None without); `terms` are those of the required affinity
    that fit some node; `fits_none` is set when it has terms, and none of them does.
    """

    group: str
    zones: frozenset[str] | None
    terms: tuple[Term, ...]
    fits_none: bool

    def groups(self) -> frozenset[str]:
        """The groups that the pod is limited to, empty when nothing limits it."""
        if self.group:
            return frozenset((self.group,))
        return _any_of([term.groups for term in self.terms]) or _NONE if self.terms else _NONE

    def only_zones(self) -> frozenset[str] | None:
        """The zones that the pod is limited to, None when nothing limits it."""
        return _both(self.zones, _any_of([term.zones for term in self.terms])) if self.terms else self.zones

    def avoids(self, zone: str, label: str) -> bool:
        """Whether the scheduler puts the pod on no node that carries that zone under that label."""
        if self.zones is not None and zone not in self.zones:
            return True
        return bool(self.terms) and all(term.avoids(zone, label) for term in self.terms)

    def excludes_exactly(self, zones: frozenset[str]) -> bool:
        """Whether some expression excludes these zones and no others."""
        return any(values == zones for term in self.terms for _, values in term.never)


_NONE: Final[frozenset[str]] = frozenset()
_ANYWHERE: Final = NodeChoice("", None, (), fits_none=False)


def node_choice(spec: Raw, labels: CellLabels) -> NodeChoice:
    """Reads `spec` of a raw pod. Raises TypeError for a field of a wrong type."""
    if spec.get("nodeSelector") is None and spec.get("affinity") is None:
        return _ANYWHERE
    selector = mapping(spec, "nodeSelector")
    affinity = mapping(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    listed = sequence(affinity, "nodeSelectorTerms")
    fitting = [term for term in listed if sequence(term, "matchExpressions") or sequence(term, "matchFields")]
    zones: frozenset[str] | None = None
    for key in _zone_keys(labels):
        if key in selector:
            zones = _both(zones, frozenset((text(selector, key),)))
    return NodeChoice(
        group=text(selector, labels.group),
        zones=zones,
        terms=tuple(_term(term, labels) for term in fitting),
        fits_none=bool(affinity) and not fitting,
    )


def _term(raw: Raw, labels: CellLabels) -> Term:
    groups: frozenset[str] | None = None
    zones: frozenset[str] | None = None
    never: list[tuple[str, frozenset[str]]] = []
    for expression in sequence(raw, "matchExpressions"):
        key, operator = expression.get("key"), expression.get("operator")
        values = frozenset(texts(expression, "values"))
        if operator == "In" and key == labels.group:
            groups = _both(groups, values)
        elif operator == "In" and key in _zone_keys(labels):
            zones = _both(zones, values)
        elif operator == "NotIn" and key in _zone_keys(labels):
            never.append((str(key), values))
    return Term(groups, zones, tuple(never))


def _zone_keys(labels: CellLabels) -> tuple[str, str]:
    return labels.zone, labels.zone_fallback


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    """The limit of two limits that both hold."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _any_of(limits: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    """The limit of limits of which one has to hold; None as soon as one of them is none, or without any."""
    found: frozenset[str] | None = None
    for limit in limits:
        if limit is None:
            return None
        found = limit if found is None else found | limit
    return found
