"""Pods that are alike in all that decides get one answer, until a zone changes.

Replicas differ in name, environment, and in what controllers write on them; in what admission looks at they do not. The
`essence` of a pod is a pod of nothing else. Decision and patch are made of the essence, so that they cannot depend on
more than that, and they fit the pod: what is missing or null in the one is so in the other.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import orjson

from ebbtide import vocabulary
from ebbtide.exclusion.decide import Around
from ebbtide.exclusion.fields import mapping, sequence, text
from ebbtide.exclusion.pod import claims_of
from ebbtide.exclusion.zones import GroupZones
from webhook.decide import Decision, Known, Rules, decide
from webhook.patch import operations
from webhook.review import Kind, Operation, Request, encoded

Raw = Mapping[str, Any]

_LABELS: Final = (vocabulary.POOL_LABEL, vocabulary.GUARD_LABEL, vocabulary.NODE_GROUP_PIN_LABEL)
_ANNOTATIONS: Final = (vocabulary.BLOCKED_ZONES_ANNOTATION, vocabulary.MIRROR_POD_ANNOTATION)
_OWNER: Final = ("kind", "controller")
_SPEC: Final = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "nodeName")
# Of each there is a template somewhere; an answer takes one or two KB.
MOST: Final = 512


class Alike:
    """Answers to pods that are created, and whose volumes decide nothing."""

    def __init__(self, known: Known, rules: Rules) -> None:
        self._known = known
        self._rules = rules
        self._zones: Mapping[str, GroupZones] = {}
        self._answer = lru_cache(maxsize=MOST)(self._fresh_answer)

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
            self._answer.cache_clear()
        guarded = self._known.around(text(metadata, "namespace") or request.namespace, ()).guarded
        pod = essence(raw)
        try:
            key = orjson.dumps(pod)
        except TypeError:  # a number of more than 64 bits, for example
            return None
        return self._answer(guarded, key)

    def _fresh_answer(self, guarded: bool, pod: bytes) -> tuple[Decision, str]:
        raw = orjson.loads(pod)
        request = Request("", "", Kind.POD, Operation.CREATE, "", "", "", dry_run=False, object=raw, old_object=None)
        decision = decide(request, _Moment(self._zones, guarded), self._rules)
        return decision, encoded(operations(raw, decision, self._rules.labels))


class _Moment:
    """`webhook.decide.Known` of a pod without claims."""

    def __init__(self, zones: Mapping[str, GroupZones], guarded: bool) -> None:
        self.zones = zones
        self._guarded = guarded

    def around(self, _namespace: str, _claims: Iterable[str]) -> Around:
        return Around(self._guarded)


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
