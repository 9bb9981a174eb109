"""What becomes of a key whose reconcile failed: the one place that reads the error tree for that.

    error                                    retry    because
    NotLeading                               DROP     the next term looks at everything anew
    NotFound, NamespaceTerminating           DROP     the event of the deletion brings the key back
    Conflict, Gone, Invalid as 422           SOON     the world moved on: read and decide again, but in no hot loop
    Throttled, BudgetRefused                 ASKED    when the server says, else with back-off
    NoCredentials, Unreachable, ServerFault,
    NoAnswer of a child process              BACKOFF  it may pass by itself
    Unauthorized, Forbidden, Misconfigured   SLOW     somebody has to change something; say so once
    any other                                DEFECT   ours: traceback, back-off

An exception group counts as the gravest of its parts, in the order of this table; NotLeading outweighs all.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from certs.consult import NoAnswerError
from ebbtide.kube.errors import (
    ApiError,
    BudgetRefused,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    Misconfigured,
    NamespaceTerminating,
    NoCredentials,
    NotFound,
    NotLeading,
    ServerFault,
    Throttled,
    Unauthorized,
    Unreachable,
)


class Retry(IntEnum):
    """How a key comes back; ordered by gravity."""

    DROP = 0
    SOON = 1
    ASKED = 2
    BACKOFF = 3
    SLOW = 4
    DEFECT = 5


@dataclass(frozen=True, slots=True)
class Verdict:
    """`result` is the metric's word for it; `after` the seconds that the server asked for, None when it did not."""

    retry: Retry
    result: str
    after: float | None = None


RESULTS = (
    "done",
    "again",
    "not-leading",
    "not-found",
    "conflict",
    "throttled",
    "budget",
    "unreachable",
    "server-fault",
    "misconfigured",
    "forbidden",
    "defect",
)


def judge(error: Exception) -> Verdict:
    """The verdict on what a reconcile raised."""
    verdicts = [_judge_one(leaf) for leaf in _leaves(error)]
    for verdict in verdicts:
        if verdict.result == "not-leading":
            return verdict
    return max(verdicts, key=lambda verdict: (verdict.retry, verdict.after or 0.0))


def _judge_one(error: Exception) -> Verdict:
    match error:
        case NotLeading():
            return Verdict(Retry.DROP, "not-leading")
        case NotFound() | NamespaceTerminating():
            return Verdict(Retry.DROP, "not-found")
        case Conflict() | Gone() | Invalid(code=422):
            return Verdict(Retry.SOON, "conflict")
        case Throttled(retry_after=after):
            return Verdict(Retry.ASKED, "throttled", after)
        case BudgetRefused(retry_after=after):
            return Verdict(Retry.ASKED, "budget", after)
        case _:
            return _judge_fault(error)


def _judge_fault(error: Exception) -> Verdict:
    match error:
        case Misconfigured():
            return Verdict(Retry.SLOW, "misconfigured")
        case Unauthorized() | Forbidden():
            return Verdict(Retry.SLOW, "forbidden")
        case NoCredentials() | Unreachable() | NoAnswerError():
            return Verdict(Retry.BACKOFF, "unreachable")
        case ServerFault(retry_after=float() | int() as after):
            return Verdict(Retry.ASKED, "server-fault", after)
        case ServerFault():
            return Verdict(Retry.BACKOFF, "server-fault")
        case _:
            return Verdict(Retry.DEFECT, "defect")


def may_be_done(error: KubeError) -> bool:
    """Whether a write may have happened although its request failed."""
    return isinstance(error, Unreachable | ServerFault)


def words(error: Exception) -> str:
    """The failure in one line: the parts of a group side by side, what the server said, at most 500 characters."""
    parts = [leaf.message or str(leaf) if isinstance(leaf, ApiError) else str(leaf) for leaf in _leaves(error)]
    return "; ".join(dict.fromkeys(parts))[:500]


def _leaves(error: Exception) -> Iterator[Exception]:
    if isinstance(error, ExceptionGroup):
        for part in error.exceptions:
            yield from _leaves(part)
    else:
        yield error
