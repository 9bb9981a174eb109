"""What the API server's answer to an eviction means, and what to do about it."""

import random
from dataclasses import dataclass
from enum import StrEnum

from ebbtide.config.rebalance import NodeRebalance
from ebbtide.kube.backoff import doubled
from ebbtide.kube.errors import (
    ApiError,
    BudgetRefused,
    Forbidden,
    KubeError,
    Misconfigured,
    NamespaceTerminating,
    NotFound,
    PreconditionFailed,
    Throttled,
)

# Two budgets over one pod stay until somebody edits them; a forbidden verb likewise.
_UNTIL_MENDED = 60.0
_FIRST_BACKOFF, _LONGEST_BACKOFF = 1.0, 60.0
# The watch tells of the deletion within moments; asking again much later is harmless should it not.
_UNTIL_SEEN_GONE = 30.0
# Spreads retries of many pods; a budget's retry comes at most half as late again as configured.
_JITTER = 0.25


class Result(StrEnum):
    """Label values of `noderebalance_evictions_total`."""

    ACCEPTED = "accepted"
    GONE = "gone"
    BUDGET = "budget"
    THROTTLED = "throttled"
    MISCONFIGURED = "misconfigured"
    FORBIDDEN = "forbidden"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Answer:
    """Meaning of one answer.

    `retry_in` seconds the pod is asked again if it is still there (0 = never), `pause_all` if every eviction has to
    wait that long.
    """

    result: Result
    retry_in: float = 0.0
    pause_all: bool = False
    words: str = ""


def read_answer(failure: KubeError | None, failures: int, rules: NodeRebalance) -> Answer:
    """The meaning of an answer, after `failures` earlier ones for the same pod; None is the API server's yes."""
    words = failure.message if isinstance(failure, ApiError) else str(failure or "")
    match failure:
        case None:
            return Answer(Result.ACCEPTED)
        case NotFound() | PreconditionFailed():
            return Answer(Result.GONE, _UNTIL_SEEN_GONE)
        case BudgetRefused():
            return Answer(Result.BUDGET, _jittered(rules.retry_too_many_requests_time), words=words)
        case Throttled():
            return Answer(Result.THROTTLED, failure.retry_after or _backoff(failures), pause_all=True, words=words)
        case Misconfigured():
            return Answer(Result.MISCONFIGURED, _jittered(_UNTIL_MENDED), words=words)
        case NamespaceTerminating():
            return Answer(Result.ERROR, _jittered(rules.retry_too_many_requests_time), words=words)
        case Forbidden():
            return Answer(Result.FORBIDDEN, _jittered(_UNTIL_MENDED), words=words)
        case _:
            return Answer(Result.ERROR, _backoff(failures), words=words)


def _backoff(failures: int) -> float:
    return _jittered(doubled(_FIRST_BACKOFF, failures, _LONGEST_BACKOFF))


def _jittered(seconds: float) -> float:
    return seconds * (1 + _JITTER * random.random())  # noqa: S311 - spreads load, guards nothing
