"""Pods that are alike in all that decides get one answer, until a zone changes.

Replicas differ in name, environment, and in what controllers write on them; in what admission looks at they do not. The
`essence` of a pod is a pod of nothing else. Decision and patch are made of the essence, so that they cannot depend on
more than that, and they fit the pod: what is missing or null in the one is so in the other. A pod that is like none
before it is decided anew; its patch is most likely there already (`outline`).
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

import orjson

from ebbtide import vocabulary
from ebbtide.exclusion.decide import Around
from ebbtide.exclusion.fields import mapping, sequence, text
from ebbtide.exclusion.pod import claims_of, pod_traits
from ebbtide.exclusion.zones import GroupZones
from webhook.decide import Decision, Known, Rules, about_pod
from webhook.outline import Patches
from webhook.review import Kind, Operation, Request

Raw = Mapping[str, Any]

_LABELS: Final = (vocabulary.POOL_LABEL, vocabulary.GUARD_LABEL, vocabulary.NODE_GROUP_PIN_LABEL)
_ANNOTATIONS: Final = (vocabulary.BLOCKED_ZONES_ANNOTATION, vocabulary.MIRROR_POD_ANNOTATION)
_OWNER: Final = ("kind", "controller")
_SPEC: Final = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "nodeName")
_AROUND: Final = {guarded: Around(guarded) for guarded in (False, True)}
# Of each there is a template somewhere; an answer takes one or two KB.
MOST: Final = 512
# In bytes; what decides takes a tenth of that, as a rule. More is not worth the memory.
_LARGEST: Final = 8 * 1024


class Alike:
    """Answers to pods that are created, and whose volumes decide nothing; of `MOST` that came last they are kept."""

    def __init__(self, known: Known, rules: Rules) -> None:
        self._known = known
        self._rules = rules
        self._patches = Patches(rules.labels)
        self._zones: Mapping[str, GroupZones] = {}
        self._answers: OrderedDict[tuple[bool, bytes], tuple[Decision, str]] = OrderedDict()

    def answer(self, request: Request) -> tuple[Decision, str] | None:
        """Decision and patch, encoded; None for what has to be looked at by itself. Raises TypeError as `decide`."""
        raw = request.object
        if raw is None or request.kind is not Kind.POD or request.operation is not Operation.CREATE:
            return None
        metadata, spec = mapping(raw, "metadata"), mapping(raw, "spec")
        if request.subresource or claims_of(spec):
            return None
        zones = self._known.zones
        if zones is not self._zones:
            self._zones = zones
            self._answers.clear()
        guarded = self._known.around(text(metadata, "namespace") or request.namespace, ()).guarded
        pod = essence(raw)
        try:
            key = orjson.dumps(pod)
        except TypeError:  # a number of more than 64 bits, for example
            return None
        return None if len(key) > _LARGEST else self._kept(guarded, key, pod)

    def _kept(self, guarded: bool, key: bytes, pod: Raw) -> tuple[Decision, str]:
        answer = self._answers.get((guarded, key))
        if answer is not None:
            self._answers.move_to_end((guarded, key))
            return answer
        answer = self._answers[guarded, key] = self._fresh(guarded, pod)
        if len(self._answers) > MOST:
            self._answers.popitem(last=False)
        return answer

    def _fresh(self, guarded: bool, pod: Raw) -> tuple[Decision, str]:
        traits = pod_traits(pod, self._rules.labels)
        decision = about_pod(pod, traits, self._zones, _AROUND[guarded], self._rules)
        return decision, self._patches.of(pod, decision)


def essence(raw: Raw) -> dict[str, Any]:
    """What decides about a pod without claims. Raises TypeError for a field of a wrong type."""
    found: dict[str, Any] = {}
    if raw.get("metadata") is not None:
        own: dict[str, Any] = {}
        found["metadata"] = own
        metadata = mapping(raw, "metadata")
        if metadata.get("labels") is not None:
            own["labels"] = _only(mapping(metadata, "labels"), _LABELS)
        if metadata.get("annotations") is not None:
            own["annotations"] = _only(mapping(metadata, "annotations"), _ANNOTATIONS)
        if metadata.get("ownerReferences") is not None:
            own["ownerReferences"] = [_only(owner, _OWNER) for owner in sequence(metadata, "ownerReferences")]
    if raw.get("spec") is not None:
        found["spec"] = _only(mapping(raw, "spec"), _SPEC)
    return found


def _only(raw: Raw, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: raw[name] for name in names if name in raw}
