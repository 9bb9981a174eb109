"""What can go wrong with a request, sorted by what can be done about it.

    KubeError
    ├── NotSent               nothing left this process
    │   ├── NotLeading            the write permit is gone: stop writing
    │   └── NoCredentials         token, plugin or identity provider failed: try again later
    ├── Unreachable           no answer that an API server gives: refused, reset, timed out, TLS fault, not JSON;
    │   │                     the request may or may not have arrived
    │   └── Silent                a stream of which nothing was heard for too long
    └── ApiError              the server answered with a Status
        ├── NotFound              404, the object is gone
        ├── Conflict              409, read again and decide again
        │   ├── AlreadyExists         409 on create
        │   └── PreconditionFailed    409, the live object has not the UID or resourceVersion that was meant
        ├── Gone                  410, the resourceVersion or continue token is too old: list again
        ├── Invalid               400, 405, 406, 413, 415, 422, the request will never succeed as it is
        ├── Unauthorized          401, credentials are not accepted
        ├── Forbidden             403, not permitted
        │   └── NamespaceTerminating  403, the namespace is going
        ├── TooManyRequests       429
        │   ├── Throttled             the server asks to slow down
        │   └── BudgetRefused         an eviction that a PodDisruptionBudget does not allow now
        └── ServerFault           5xx
            ├── Misconfigured         500, an eviction of a pod under more than one budget
            └── Unavailable           502, 503, 504, ServerTimeout: try again

The HTTP library's own errors never leave `ebbtide.kube`.
"""


class KubeError(Exception):
    """Any failed request to the API server."""


class NotSent(KubeError):
    """The request was held back in this process."""


class NotLeading(NotSent):
    """This process may not write (no longer): it has no lease, or runs dry."""


class NoCredentials(NotSent):
    """There are no credentials to send: a file is missing, an exec plugin or identity provider failed."""


class Unreachable(KubeError):
    """There was no answer. `what` names verb and path, `cause` says why in words."""

    def __init__(self, what: str, cause: str) -> None:
        super().__init__(f"{what}: {cause}")
        self.what = what
        self.cause = cause


class Silent(Unreachable):
    """A stream said nothing, not even a bookmark, for as long as the caller wants to believe in it."""


class ApiError(KubeError):
    """The server refused.

    Attributes: `code` HTTP status; `reason` the Status reason (`Conflict`, …, may be empty); `message` the server's
    words; `causes` the reasons in `details.causes`; `retry_after` seconds from the `Retry-After` header or
    `details.retryAfterSeconds`, None when neither was sent; `what` names verb and path.
    """

    def __init__(
        self,
        what: str,
        code: int,
        reason: str = "",
        message: str = "",
        causes: tuple[str, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{what}: {code} {reason}: {message}" if reason else f"{what}: {code} {message}")
        self.what = what
        self.code = code
        self.reason = reason
        self.message = message
        self.causes = causes
        self.retry_after = retry_after


class NotFound(ApiError):
    """404: the object, or its kind, does not exist."""


class Conflict(ApiError):
    """409: somebody was faster. Read again, decide again."""


class AlreadyExists(Conflict):
    """409 on create: an object of that name is there."""


class PreconditionFailed(Conflict):
    """409: the live object is not the one that was meant (UID), or not in the version that was meant."""


class Gone(ApiError):
    """410: the version asked for is compacted away. List again; never retry with it."""


class Invalid(ApiError):
    """The request is wrong for this object as it is now (a JSON patch whose `test` fails is 422)."""


class Unauthorized(ApiError):
    """401: the credentials are not accepted."""


class Forbidden(ApiError):
    """403: authenticated, but not permitted."""


class NamespaceTerminating(Forbidden):
    """403 with cause NamespaceTerminating: the namespace and all in it are going."""


class TooManyRequests(ApiError):
    """429."""


class Throttled(TooManyRequests):
    """429 without a disruption budget's cause: the server asks every client to slow down."""


class BudgetRefused(TooManyRequests):
    """429 with cause DisruptionBudget: this pod may not be evicted now; others may."""


class ServerFault(ApiError):
    """5xx."""


class Misconfigured(ServerFault):
    """500 to an eviction because more than one PodDisruptionBudget selects the pod."""


class Unavailable(ServerFault):
    """502, 503, 504, or 500 with reason ServerTimeout: overloaded, starting or behind a broken proxy."""
