"""From the server's answer to the error tree.

The bodies are `Status` objects (k8s.io/apimachinery `metav1.Status`), or whatever a proxy on the way says instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from ebbtide.kube import errors

_BY_CODE: Mapping[int, type[errors.ApiError]] = {
    400: errors.Invalid,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.Invalid,
    406: errors.Invalid,
    409: errors.Conflict,
    410: errors.Gone,
    413: errors.Invalid,
    415: errors.Invalid,
    422: errors.Invalid,
    429: errors.Throttled,
    502: errors.Unavailable,
    503: errors.Unavailable,
    504: errors.Unavailable,
}
_QUOTED_FROM_A_PROXY = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer; header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Raises ValueError when the body is no JSON."""
        return orjson.loads(self.body)


def failure(what: str, answer: Answer) -> errors.ApiError:
    """The error that an answer outside 2xx stands for."""
    status = _status(answer.body)
    if not status:
        status = {"message": " ".join(answer.body.decode(errors="replace").split())[:_QUOTED_FROM_A_PROXY]}
    return _failure(what, answer.status, status, _seconds(answer.headers.get("retry-after")))


def failure_in_stream(what: str, status: Mapping[str, Any]) -> errors.ApiError:
    """The error that the Status object of an ERROR event stands for."""
    code = status.get("code")
    return _failure(what, code if isinstance(code, int) else 500, status, None)


def _failure(what: str, code: int, status: Mapping[str, Any], retry_after: float | None) -> errors.ApiError:
    details = status.get("details")
    details = details if isinstance(details, Mapping) else {}
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    listed = details.get("causes")
    listed = listed if isinstance(listed, list) else []
    causes = tuple(str(cause.get("reason") or "") for cause in listed if isinstance(cause, Mapping))
    if retry_after is None:
        retry_after = _seconds(details.get("retryAfterSeconds"))
    kind = _kind(code, reason, message, causes)
    return kind(what, code, reason, message, causes, retry_after)


def _kind(code: int, reason: str, message: str, causes: tuple[str, ...]) -> type[errors.ApiError]:
    if code == 409:
        return _conflict(reason, message)
    if code == 403 and "NamespaceTerminating" in causes:
        return errors.NamespaceTerminating
    if code == 429 and "DisruptionBudget" in causes:
        return errors.BudgetRefused
    if code == 500:
        return _fault(reason, message)
    return _BY_CODE.get(code) or (errors.ServerFault if code >= 500 else errors.ApiError)


def _conflict(reason: str, message: str) -> type[errors.ApiError]:
    if reason == "AlreadyExists":
        return errors.AlreadyExists
    # Before the storage is asked: "the UID in the precondition (…) does not match …" (apiserver/pkg/registry/rest,
    # BeforeDelete); by the storage: "Precondition failed: UID in precondition: …" (storage, Preconditions.Check).
    return errors.PreconditionFailed if " precondition" in message else errors.Conflict


def _fault(reason: str, message: str) -> type[errors.ApiError]:
    # registry/core/pod/storage/eviction.go answers this with 500 and no reason of its own.
    if "more than one PodDisruptionBudget" in message:
        return errors.Misconfigured
    # apierrors.NewServerTimeout is a 500 that asks to be tried again.
    return errors.Unavailable if reason == "ServerTimeout" else errors.ServerFault


def _status(body: bytes) -> Mapping[str, Any]:
    try:
        parsed = orjson.loads(body)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) and parsed.get("kind") == "Status" else {}


def _seconds(value: object) -> float | None:
    """Seconds from a header or a field; None for absent, zero, negative and dates (which proxies may send)."""
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    return float(value) if isinstance(value, int | float) and value > 0 else None
