"""Admission as an outsider would write it from the rules: puts an exclusion into a raw pod.

On purpose no code of the product: what this makes of an answer is what the scheduler is asked about.
"""

from copy import deepcopy
from typing import Any

from ebbtide import vocabulary
from ebbtide.exclusion.decide import Exclusion

Raw = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def injected(pod: Raw, exclusion: Exclusion) -> Raw:
    """The pod as it is stored: the expressions in every term that fits a node, and the annotation."""
    changed = deepcopy(pod)
    if not exclusion.zones:
        return changed
    expressions = [
        {"key": label, "operator": "NotIn", "values": list(exclusion.zones)} for label in exclusion.zone_labels
    ]
    metadata = changed.setdefault("metadata", {})
    annotations = {**(metadata.get("annotations") or {}), vocabulary.BLOCKED_ZONES_ANNOTATION: exclusion.annotation}
    metadata["annotations"] = annotations
    affinity = changed["spec"]["affinity"] = changed["spec"].get("affinity") or {}
    node_affinity = affinity["nodeAffinity"] = affinity.get("nodeAffinity") or {}
    if not node_affinity.get(REQUIRED):
        node_affinity[REQUIRED] = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
        return changed
    for term in node_affinity[REQUIRED]["nodeSelectorTerms"]:
        if term.get("matchExpressions") or term.get("matchFields"):
            term["matchExpressions"] = [*(term.get("matchExpressions") or ()), *expressions]
    return changed
