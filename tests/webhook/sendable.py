"""What an API server may send: the types that the API gives to what admission looks at."""

from typing import Any, NotRequired, TypedDict

import msgspec

from tests.webhook.builders import Raw


class _Expression(TypedDict):
    key: str
    operator: str
    values: NotRequired[list[str] | None]


class _Term(TypedDict, total=False):
    matchExpressions: list[_Expression] | None
    matchFields: list[_Expression] | None


class _Selector(TypedDict, total=False):
    nodeSelectorTerms: list[_Term] | None


class _NodeAffinity(TypedDict, total=False):
    requiredDuringSchedulingIgnoredDuringExecution: _Selector | None


class _AffinityTerm(TypedDict, total=False):
    topologyKey: str | None


class _Weighted(TypedDict, total=False):
    podAffinityTerm: _AffinityTerm | None


class _AntiAffinity(TypedDict, total=False):
    requiredDuringSchedulingIgnoredDuringExecution: list[_AffinityTerm] | None
    preferredDuringSchedulingIgnoredDuringExecution: list[_Weighted] | None


class _Affinity(TypedDict, total=False):
    nodeAffinity: _NodeAffinity | None
    podAntiAffinity: _AntiAffinity | None


class _Toleration(TypedDict, total=False):
    key: str | None
    operator: str | None
    value: str | None
    effect: str | None


class _Claim(TypedDict, total=False):
    claimName: str | None


class _Volume(TypedDict, total=False):
    persistentVolumeClaim: _Claim | None


class _Owner(TypedDict, total=False):
    kind: str | None
    controller: bool | None


class _Metadata(TypedDict, total=False):
    namespace: str | None
    labels: dict[str, str | None] | None
    annotations: dict[str, str | None] | None
    ownerReferences: list[_Owner] | None


class _PodSpec(TypedDict, total=False):
    nodeName: str | None
    nodeSelector: dict[str, str | None] | None
    affinity: _Affinity | None
    tolerations: list[_Toleration] | None
    topologySpreadConstraints: list[_AffinityTerm] | None
    volumes: list[_Volume] | None


class _Pod(TypedDict, total=False):
    metadata: _Metadata | None
    spec: _PodSpec | None


class _SetSpec(TypedDict, total=False):
    template: _Pod | None


class _Set(TypedDict, total=False):
    metadata: _Metadata | None
    spec: _SetSpec | None


def is_sendable(request: Raw) -> bool:
    """Whether an API server may send this: it knows the types of pods and of StatefulSets, and checks them before."""
    kind = _Set if request["kind"].get("kind") == "StatefulSet" else _Pod
    return is_typed(request.get("object"), kind) and is_typed(request.get("oldObject"), kind)


def is_typed(raw: Any, kind: Any) -> bool:
    """Whether it is of the types that the API gives to what admission looks at, so that an API server may send it."""
    try:
        msgspec.convert(raw, kind | None)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return False
    return True
