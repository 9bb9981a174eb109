"""A decision becomes the operations that carry it out on the raw object. Empty when there is nothing to do."""

from collections.abc import Mapping
from typing import Any, Final

from ebbtide import vocabulary
from ebbtide.exclusion.decide import Exclusion
from ebbtide.exclusion.fields import mapping, sequence, texts
from ebbtide.model import CellLabels
from webhook.decide import Decision
from webhook.pinning import GROUP_TAINT_EFFECT, Pin
from webhook.pointer import Draft, Operation, Path

Raw = Mapping[str, Any]

# Where the pod is, in a Pod and in a StatefulSet.
POD: Final[Path] = ()
TEMPLATE: Final[Path] = ("spec", "template")

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_NODE_AFFINITY: Final = ("spec", "affinity", "nodeAffinity", _REQUIRED)
# The most that one preference can weigh (k8s.io/api WeightedPodAffinityTerm).
_WEIGHT: Final = 100


def operations(raw: Raw, decision: Decision, labels: CellLabels, where: Path = POD) -> list[Operation]:
    """The JSON patch for `raw`, whose pod lies at `where`. Raises TypeError for a field of a wrong type."""
    draft = Draft(raw)
    if decision.pin is not None:
        _pin(draft, decision.pin, labels, where)
    if decision.exclusion.zones:
        _exclude(draft, raw, decision.exclusion, decision.carried, labels)
    return draft.operations


def _pin(draft: Draft, pin: Pin, labels: CellLabels, where: Path) -> None:
    spec = (*where, "spec")
    for key, value in pin.labels:
        draft.put((*where, "metadata", "labels", key), value)
    if pin.selects:
        draft.put((*spec, "nodeSelector", labels.group), pin.group)
    if pin.tolerates:
        toleration = {"key": labels.group, "operator": "Equal", "value": pin.group, "effect": GROUP_TAINT_EFFECT}
        draft.append((*spec, "tolerations"), toleration)
    if not (pin.spreads or pin.keeps_apart):
        return
    pool = {"matchLabels": {vocabulary.POOL_LABEL: pin.pool}}
    if pin.spreads:
        spread = {"maxSkew": 1, "topologyKey": labels.zone, "whenUnsatisfiable": "ScheduleAnyway"}
        draft.append((*spec, "topologySpreadConstraints"), {**spread, "labelSelector": pool})
    if pin.keeps_apart:
        apart = {"topologyKey": vocabulary.HOSTNAME_LABEL, "labelSelector": pool}
        preference = {"weight": _WEIGHT, "podAffinityTerm": apart}
        draft.append((*spec, "affinity", "podAntiAffinity", _PREFERRED), preference)


def _exclude(draft: Draft, raw: Raw, exclusion: Exclusion, carried: frozenset[str], labels: CellLabels) -> None:
    """The expressions, and with them the annotation; a pod that avoids the zones by its own word gets neither."""
    before = draft.changes
    required = mapping(raw, *_NODE_AFFINITY)
    if required:
        for index, term in enumerate(sequence(required, "nodeSelectorTerms")):
            _exclude_in(draft, (*_NODE_AFFINITY, "nodeSelectorTerms", index), term, exclusion, carried, labels)
    else:
        draft.put(_NODE_AFFINITY, {"nodeSelectorTerms": [{"matchExpressions": _expressions(exclusion)}]})
    annotations = mapping(raw, "metadata", "annotations")
    if draft.changes == before and not carried:
        return
    if annotations.get(vocabulary.BLOCKED_ZONES_ANNOTATION) != exclusion.annotation:
        draft.put(("metadata", "annotations", vocabulary.BLOCKED_ZONES_ANNOTATION), exclusion.annotation)


def _exclude_in(
    draft: Draft, where: Path, term: Raw, exclusion: Exclusion, carried: frozenset[str], labels: CellLabels
) -> None:
    """One of the terms, which are alternatives. A term without expressions and fields fits no node, and stays so."""
    expressions = sequence(term, "matchExpressions")
    if not expressions and not sequence(term, "matchFields"):
        return
    zones = frozenset(exclusion.zones)
    lacking = set(exclusion.zone_labels)
    for index, expression in enumerate(expressions):
        excluded = _excluded(expression, labels)
        if excluded is None:
            continue
        if carried and excluded == carried != zones:
            draft.put((*where, "matchExpressions", index, "values"), list(exclusion.zones))
            excluded = zones
        if excluded >= zones:
            lacking.discard(expression["key"])
    missing = [each for each in _expressions(exclusion) if each["key"] in lacking]
    if expressions:
        for each in missing:
            draft.append((*where, "matchExpressions"), each)
    elif missing:
        draft.put((*where, "matchExpressions"), missing)


def _excluded(expression: Raw, labels: CellLabels) -> frozenset[str] | None:
    """The zones that an expression excludes, None for one that is about something else."""
    if expression.get("operator") != "NotIn" or expression.get("key") not in (labels.zone, labels.zone_fallback):
        return None
    return frozenset(texts(expression, "values"))


def _expressions(exclusion: Exclusion) -> list[Raw]:
    return [{"key": label, "operator": "NotIn", "values": list(exclusion.zones)} for label in exclusion.zone_labels]
