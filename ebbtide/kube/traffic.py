"""What a client has sent and how it was answered, counted for whoever tells the operator. No name of an object."""

from collections import Counter
from enum import StrEnum
from typing import Final, NamedTuple

from ebbtide.kube.errors import Forbidden, Gone, KubeError, Silent, Unauthorized, Unreachable

# In the place of a status code: the connection failed, or broke before there was an answer.
NO_ANSWER: Final = "none"


class Verb(NamedTuple):
    """What RBAC is asked about a request."""

    verb: str
    group: str
    resource: str
    subresource: str


class Ending(StrEnum):
    """Why a watch has ended, to begin again; the values are those of a metric label."""

    AGREED = "agreed"
    GONE = "gone"
    SILENT = "silent"
    UNREACHABLE = "unreachable"
    FORBIDDEN = "forbidden"
    ERROR = "error"


def ending_of(problem: KubeError | None) -> Ending:
    """The metric's word for what ended a watch; None is the end that was agreed on when it was opened."""
    match problem:
        case None:
            return Ending.AGREED
        case Gone():
            return Ending.GONE
        case Silent():
            return Ending.SILENT
        case Unreachable():
            return Ending.UNREACHABLE
        case Unauthorized() | Forbidden():
            return Ending.FORBIDDEN
        case _:
            return Ending.ERROR


class Traffic:
    """Counts of one client and of all its views.

    `answers` is by verb and status code (`NO_ANSWER` without one), `endings` by the plural name of what was watched and
    why that ended. Retries count as requests of their own.
    """

    def __init__(self) -> None:
        self.sent: Counter[Verb] = Counter()
        self.answers: Counter[tuple[Verb, str]] = Counter()
        self.endings: Counter[tuple[str, Ending]] = Counter()
