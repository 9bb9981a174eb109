"""AdmissionReview in, AdmissionReview out; between the two a frozen request with the raw objects in it.

The protocol is that of `admission.k8s.io/v1`; `v1beta1` differs in nothing that is used here. Of a review only what
somebody looks at becomes Python objects (`_SEEN`), and that is raw JSON: nothing knows a typed pod, and since a patch
never writes anything back, a field of a newer cluster cannot get lost. The rest is only checked for being JSON.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Literal, TypedDict

import msgspec
import orjson

Raw = Mapping[str, Any]
Operations = Sequence[Mapping[str, Any]]

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


class _Named(msgspec.Struct):
    """A GroupVersionKind."""

    group: str | None = None
    version: str | None = None
    kind: str | None = None


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    kind: _Named
    operation: str | None = None
    sub_resource: str | None = None
    namespace: str | None = None
    name: str | None = None
    dry_run: Any = None
    object: _Object | None = None
    old_object: _Object | None = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: Literal["admission.k8s.io/v1", "admission.k8s.io/v1beta1"]
    kind: Literal["AdmissionReview"]
    request: _Request


_SEEN: Final = msgspec.json.Decoder(_Review)


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


_KINDS: Final[Mapping[tuple[str | None, ...], Kind]] = {
    ("", "v1", "Pod"): Kind.POD,
    ("apps", "v1", "StatefulSet"): Kind.STATEFUL_SET,
}
_OPERATIONS: Final[Mapping[str | None, Operation]] = {
    operation.name: operation for operation in Operation if operation is not Operation.OTHER
}


class Request(msgspec.Struct, frozen=True):
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
    except msgspec.ValidationError:
        raise NotAReviewError("no AdmissionReview of v1 or v1beta1, or not of its form") from None
    except (msgspec.DecodeError, RecursionError):
        raise NotAReviewError("the body is not JSON") from None
    request = review.request
    if not request.uid:
        raise NotAReviewError("the request has no uid")
    named = request.kind
    return Request(
        version=review.api_version,
        uid=request.uid,
        kind=_KINDS.get((named.group or "", named.version, named.kind), Kind.OTHER),
        operation=_OPERATIONS.get(request.operation, Operation.OTHER),
        subresource=request.sub_resource or "",
        namespace=request.namespace or "",
        name=request.name or "",
        dry_run=request.dry_run is True,
        object=request.object,
        old_object=request.old_object,
    )


class Answer(msgspec.Struct, frozen=True):
    """What the API server is told. It is always let through; `audit` are annotations of its audit event.

    `patch` is `encoded`, "" for none.
    """

    patch: str = ""
    warning: str = ""
    audit: Mapping[str, str] | None = None


def encoded(operations: Operations) -> str:
    """A JSON patch as an answer carries it; "" without operations."""
    return b64encode(orjson.dumps(operations)).decode("ascii") if operations else ""


def write(request: Request, answer: Answer) -> bytes:
    """The body of the answer to `request`."""
    response: dict[str, Any] = {"uid": request.uid, "allowed": True}
    if answer.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = answer.patch
    if answer.warning:
        response["warnings"] = [answer.warning]
    if answer.audit:
        response["auditAnnotations"] = answer.audit
    return orjson.dumps({"kind": KIND, "apiVersion": request.version, "response": response})
