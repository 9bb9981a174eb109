"""AdmissionReview in, AdmissionReview out; between the two a frozen request with the raw objects in it.

The protocol is that of `admission.k8s.io/v1`; `v1beta1` differs in nothing that is used here. Of a review only what
somebody looks at becomes Python objects (`_SEEN`), and that is raw JSON: nothing knows a typed pod, and since a patch
never writes anything back, a field of a newer cluster cannot get lost. The rest is only checked for being JSON.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypedDict

import msgspec
import orjson

Raw = Mapping[str, Any]
Operations = Sequence[Mapping[str, Any]]

GROUP: Final = "admission.k8s.io"
VERSIONS: Final = frozenset({f"{GROUP}/v1", f"{GROUP}/v1beta1"})
KIND: Final = "AdmissionReview"


# Whatever is no object: it is for the code that looks at it to say what is wrong with it.
_Odd = str | int | float | bool | list[Any] | None


class _Spec(TypedDict, total=False):
    affinity: Any
    nodeName: Any
    nodeSelector: Any
    template: Any
    tolerations: Any
    topologySpreadConstraints: Any
    volumes: Any


class _Metadata(TypedDict, total=False):
    annotations: Any
    generateName: Any
    labels: Any
    name: Any
    namespace: Any
    ownerReferences: Any


class _Object(TypedDict, total=False):
    metadata: _Metadata | _Odd
    spec: _Spec | _Odd


class _Request(TypedDict, total=False):
    dryRun: Any
    kind: Any
    name: Any
    namespace: Any
    object: _Object | _Odd
    oldObject: _Object | _Odd
    operation: Any
    subResource: Any
    uid: Any


class _Review(TypedDict, total=False):
    apiVersion: Any
    kind: Any
    request: _Request | _Odd


_SEEN: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(_Review)


class NotAReviewError(ValueError):
    """The body is no AdmissionReview. The message never holds a part of the body."""


class Kind(StrEnum):
    """What a request is about; the values are those of a metric label."""

    POD = "pod"
    STATEFUL_SET = "stateful-set"
    OTHER = "other"


class Operation(StrEnum):
    """What is being done; the values are those of a metric label."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    CONNECT = "connect"
    OTHER = "other"


_KINDS: Final = {("", "v1", "Pod"): Kind.POD, ("apps", "v1", "StatefulSet"): Kind.STATEFUL_SET}
_OPERATIONS: Final = {operation.name: operation for operation in Operation if operation is not Operation.OTHER}


class Request(NamedTuple):
    """One admission request.

    `version` is the review's apiVersion. `object` and `old_object` are None where the API server sends null. `name` is
    "" for an object that is yet to be named.
    """

    version: str
    uid: str
    kind: Kind
    operation: Operation
    subresource: str
    namespace: str
    name: str
    dry_run: bool
    object: Raw | None
    old_object: Raw | None

    @property
    def shown_name(self) -> str:
        """For people: the name, or `prefix*` for a name that the API server has yet to make up."""
        if self.name or self.object is None:
            return self.name
        metadata = self.object.get("metadata")
        if not isinstance(metadata, dict):
            return ""
        return str(metadata.get("name") or f"{metadata.get('generateName') or ''}*")


def read(body: bytes | bytearray) -> Request:
    """The request in the body of a call. Raises NotAReviewError."""
    try:
        review = _SEEN.decode(body)
    except (msgspec.DecodeError, RecursionError):
        raise NotAReviewError("the body is not JSON, or no object") from None
    if review.get("kind") != KIND or not _is(review.get("apiVersion"), VERSIONS):
        raise NotAReviewError(f"the body is no {KIND} of {GROUP}/v1 or v1beta1")
    request = review.get("request")
    if not isinstance(request, dict):
        raise NotAReviewError("the review has no request")
    uid = _text(request, "uid")
    if not uid:
        raise NotAReviewError("the request has no uid")
    return Request(
        version=review["apiVersion"],
        uid=uid,
        kind=_kind(request),
        operation=_OPERATIONS.get(_text(request, "operation"), Operation.OTHER),
        subresource=_text(request, "subResource"),
        namespace=_text(request, "namespace"),
        name=_text(request, "name"),
        dry_run=request.get("dryRun") is True,
        object=_object(request, "object"),
        old_object=_object(request, "oldObject"),
    )


class Answer(NamedTuple):
    """What the API server is told. It is always let through; `audit` are annotations of its audit event."""

    operations: Operations = ()
    warning: str = ""
    audit: Mapping[str, str] | None = None


def write(request: Request, answer: Answer) -> bytes:
    """The body of the answer to `request`."""
    response: dict[str, Any] = {"uid": request.uid, "allowed": True}
    if answer.operations:
        response["patchType"] = "JSONPatch"
        response["patch"] = b64encode(orjson.dumps(answer.operations)).decode("ascii")
    if answer.warning:
        response["warnings"] = [answer.warning]
    if answer.audit:
        response["auditAnnotations"] = answer.audit
    return orjson.dumps({"kind": KIND, "apiVersion": request.version, "response": response})


def _kind(request: Raw) -> Kind:
    kind = request.get("kind")
    if not isinstance(kind, dict):
        raise NotAReviewError("the request has no kind")
    named = (_text(kind, "group"), _text(kind, "version"), _text(kind, "kind"))
    return _KINDS.get(named, Kind.OTHER)


def _object(request: Raw, name: str) -> Raw | None:
    value = request.get(name)
    if value is None or isinstance(value, dict):
        return value
    raise NotAReviewError(f"{name} is no object")


def _text(raw: Raw, name: str) -> str:
    value = raw.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise NotAReviewError(f"{name} is no string")
    return value


def _is(value: object, known: frozenset[str]) -> bool:
    return isinstance(value, str) and value in known
