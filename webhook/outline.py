"""One patch for pods that get the same decision and have the same outline.

The outline is what a patch depends on beside the decision: which parents of what is added are there. Most pods have the
same. A patch is made of `drawn`, a pod that is nothing but its outline, so that it cannot depend on more.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
import orjson

from ebbtide import vocabulary
from ebbtide.exclusion.fields import mapping
from ebbtide.model import CellLabels
from webhook.decide import Decision
from webhook.patch import operations
from webhook.review import encoded

Raw = Mapping[str, Any]

# Few are in use at a time: of each group, and each set of blocked zones.
_MOST: Final = 256
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class Patches:
    """Patches of pods, encoded; those that were asked for last are kept."""

    def __init__(self, labels: CellLabels) -> None:
        self._labels = labels
        self._patch = lru_cache(maxsize=_MOST)(self._drawn_patch)

    def of(self, pod: Raw, decision: Decision) -> str:
        """That which carries out the decision, "" for none. Raises TypeError for a field of a wrong type."""
        if decision.pin is None and not decision.exclusion.zones:
            return ""
        return self._patch(decision, outline(pod))

    def _drawn_patch(self, decision: Decision, of: "Outline") -> str:
        return encoded(operations(drawn(of), decision, self._labels))


class Outline(msgspec.Struct, frozen=True):
    """Which fields are there, neither missing nor null. `annotation` is the value of ours, None without.

    `required` is the required node affinity, whose terms are changed one by one: as JSON, b"" without.
    """

    metadata: bool
    labels: bool
    annotations: bool
    annotation: str | None
    spec: bool
    selector: bool
    tolerations: bool
    spreading: bool
    affinity: bool
    anti_affinity: bool
    preferences: bool
    node_affinity: bool
    required: bytes


def outline(pod: Raw) -> Outline:
    """Raises TypeError for a field of a wrong type, or a number of more than 64 bits."""
    metadata, spec = mapping(pod, "metadata"), mapping(pod, "spec")
    annotations, affinity = mapping(metadata, "annotations"), mapping(spec, "affinity")
    anti_affinity, node_affinity = mapping(affinity, "podAntiAffinity"), mapping(affinity, "nodeAffinity")
    required = node_affinity.get(_REQUIRED)
    return Outline(
        metadata=pod.get("metadata") is not None,
        labels=metadata.get("labels") is not None,
        annotations=metadata.get("annotations") is not None,
        annotation=annotations.get(vocabulary.BLOCKED_ZONES_ANNOTATION),
        spec=pod.get("spec") is not None,
        selector=spec.get("nodeSelector") is not None,
        tolerations=spec.get("tolerations") is not None,
        spreading=spec.get("topologySpreadConstraints") is not None,
        affinity=spec.get("affinity") is not None,
        anti_affinity=affinity.get("podAntiAffinity") is not None,
        preferences=anti_affinity.get(_PREFERRED) is not None,
        node_affinity=affinity.get("nodeAffinity") is not None,
        required=b"" if required is None else orjson.dumps(required),
    )


def drawn(of: Outline) -> Raw:
    """A pod with that outline."""
    anti_affinity: Raw = {_PREFERRED: [] if of.preferences else None}
    node_affinity: Raw = {_REQUIRED: orjson.loads(of.required) if of.required else None}
    affinity: Raw = {
        "podAntiAffinity": anti_affinity if of.anti_affinity else None,
        "nodeAffinity": node_affinity if of.node_affinity else None,
    }
    metadata: Raw = {
        "labels": {} if of.labels else None,
        "annotations": {vocabulary.BLOCKED_ZONES_ANNOTATION: of.annotation} if of.annotations else None,
    }
    spec: Raw = {
        "nodeSelector": {} if of.selector else None,
        "tolerations": [] if of.tolerations else None,
        "topologySpreadConstraints": [] if of.spreading else None,
        "affinity": affinity if of.affinity else None,
    }
    return {"metadata": metadata if of.metadata else None, "spec": spec if of.spec else None}
