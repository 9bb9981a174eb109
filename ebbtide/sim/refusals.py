"""Every way in which the server says no, each shaped as the real server's Status object.

    Refusal
    ├── BadRequest        400   ├── Conflict             409   ├── Invalid          422
    ├── Forbidden         403   │   ├── AlreadyExists          │   └── BlindUpdate
    ├── NotFound          404   │   ├── NotBound               ├── TooManyRequests  429
    ├── MethodNotAllowed  405   │   └── PreconditionFailed     ├── PlainFault       500
    └── NotAcceptable     406   ├── Expired              410   └── TooLate          504
                                └── UnsupportedMediaType 415

The wording follows k8s.io/apimachinery `pkg/api/errors/errors.go`. In-process callers (actors) catch these types;
over HTTP they are the answer's body.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ebbtide.sim.kinds import Kind

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class Refusal(Exception):  # noqa: N818 - the server's answer, not a fault of the program
    """A request that was not carried out. `details` and `causes` go into the Status as they are."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = ""
    # Whether the real server sends `details` also when there are none.
    has_details: ClassVar[bool] = True

    def __init__(
        self,
        message: str,
        *,
        kind: Kind | None = None,
        name: str = "",
        causes: Sequence[Mapping[str, str]] = (),
        retry_after: int = 0,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.name = name
        self.causes = tuple(causes)
        self.retry_after = retry_after

    def status(self) -> dict[str, Any]:
        """The `v1.Status` body."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        details = self._details()
        if details or self.has_details:
            body["details"] = details
        body["code"] = self.code
        return body

    def _details(self) -> dict[str, Any]:
        details: dict[str, Any] = {}
        if self.name:
            details["name"] = self.name
        if self.kind is not None:
            if self.kind.group:
                details["group"] = self.kind.group
            details["kind"] = self._details_kind(self.kind)
        if self.causes:
            details["causes"] = [dict(cause) for cause in self.causes]
        if self.retry_after:
            details["retryAfterSeconds"] = self.retry_after
        return details

    def _details_kind(self, kind: Kind) -> str:
        return kind.plural


class BadRequest(Refusal):
    code = 400
    reason = "BadRequest"
    has_details = False


class Forbidden(Refusal):
    code = 403
    reason = "Forbidden"


class NotFound(Refusal):
    code = 404
    reason = "NotFound"

    @classmethod
    def of(cls, kind: Kind, name: str) -> "NotFound":
        return cls(f'{kind.qualified} "{name}" not found', kind=kind, name=name)


class MethodNotAllowed(Refusal):
    code = 405
    reason = "MethodNotAllowed"


class NotAcceptable(Refusal):
    code = 406
    reason = "NotAcceptable"
    has_details = False


class Conflict(Refusal):
    code = 409
    reason = "Conflict"

    @classmethod
    def of(cls, kind: Kind, name: str, why: str = MODIFIED) -> "Conflict":
        return cls(f'Operation cannot be fulfilled on {kind.qualified} "{name}": {why}', kind=kind, name=name)


class PreconditionFailed(Conflict):
    """409 to a delete or an eviction; the real server names the kind here, not the resource."""

    @classmethod
    def of(cls, kind: Kind, name: str, why: str = MODIFIED) -> "PreconditionFailed":
        return cls(f'Operation cannot be fulfilled on {kind.title} "{name}": {why}', kind=kind, name=name)

    def _details_kind(self, kind: Kind) -> str:
        return kind.kind


class NotBound(Conflict):
    """409 to a binding: the pod has a node already, is going, or is another one."""

    @classmethod
    def of(cls, kind: Kind, name: str, why: str = MODIFIED) -> "NotBound":
        message = f'Operation cannot be fulfilled on {kind.qualified}/binding "{name}": {why}'
        return cls(message, kind=kind, name=name)

    def _details_kind(self, kind: Kind) -> str:
        return f"{kind.plural}/binding"


class AlreadyExists(Conflict):
    reason = "AlreadyExists"

    @classmethod
    def of(cls, kind: Kind, name: str, why: str = "") -> "AlreadyExists":
        return cls(f'{kind.qualified} "{name}" already exists{why}', kind=kind, name=name)


class Expired(Refusal):
    code = 410
    reason = "Expired"
    has_details = False


class UnsupportedMediaType(Refusal):
    code = 415
    reason = "UnsupportedMediaType"


class Invalid(Refusal):
    """422. `causes` have `reason` (`FieldValueInvalid`, …), `message` and `field`."""

    code = 422
    reason = "Invalid"

    @classmethod
    def of(cls, kind: Kind, name: str, *problems: Mapping[str, str]) -> "Invalid":
        texts = [f"{problem['field']}: {problem['message']}" for problem in problems]
        text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        return cls(f'{kind.title} "{name}" is invalid: {text}', kind=kind, name=name, causes=problems)

    def _details_kind(self, kind: Kind) -> str:
        return kind.kind


class BlindUpdate(Invalid):
    """422 to a PUT that does not say which version it means; the real server names the resource here, not the kind."""

    def __init__(self, kind: Kind, name: str) -> None:
        problem = field_problem("metadata.resourceVersion", "Invalid value: 0: must be specified for an update")
        text = f"{problem['field']}: {problem['message']}"
        super().__init__(f'{kind.qualified} "{name}" is invalid: {text}', kind=kind, name=name, causes=(problem,))

    def _details_kind(self, kind: Kind) -> str:
        return kind.plural


class TooManyRequests(Refusal):
    code = 429
    reason = "TooManyRequests"


class PlainFault(Refusal):
    """500 as the server answers what its own code had no Status for: without a reason."""

    has_details = False


class TooLate(Refusal):
    """504: what was waited for did not come in time."""

    code = 504
    reason = "Timeout"


def field_problem(field: str, message: str, reason: str = "FieldValueInvalid") -> dict[str, str]:
    """One entry of `details.causes` of an Invalid."""
    return {"reason": reason, "message": message, "field": field}


def required(field: str, detail: str = "") -> dict[str, str]:
    """The cause for a field that is missing."""
    message = f"Required value: {detail}" if detail else "Required value"
    return field_problem(field, message, "FieldValueRequired")
