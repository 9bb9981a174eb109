"""What becomes of a key, by the error that its reconcile raised."""

import pytest

from certs.consult import NoAnswerError
from ebbtide.kube.errors import (
    AlreadyExists,
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
    NotSent,
    PreconditionFailed,
    ServerFault,
    Throttled,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from reconciler.engine.verdict import RESULTS, Retry, Verdict, judge, words

TABLE = [
    (NotLeading("no lease"), Verdict(Retry.DROP, "not-leading")),
    (NotFound("GET pod", 404), Verdict(Retry.DROP, "not-found")),
    (NamespaceTerminating("POST eviction", 403), Verdict(Retry.DROP, "not-found")),
    (Conflict("PATCH node", 409), Verdict(Retry.SOON, "conflict")),
    (AlreadyExists("POST lease", 409), Verdict(Retry.SOON, "conflict")),
    (PreconditionFailed("DELETE pod", 409), Verdict(Retry.SOON, "conflict")),
    (Gone("GET nodes", 410), Verdict(Retry.SOON, "conflict")),
    (Invalid("PATCH node", 422), Verdict(Retry.SOON, "conflict")),
    (Throttled("PATCH node", 429, retry_after=3.0), Verdict(Retry.ASKED, "throttled", 3.0)),
    (Throttled("PATCH node", 429), Verdict(Retry.ASKED, "throttled")),
    (BudgetRefused("POST eviction", 429, retry_after=10), Verdict(Retry.ASKED, "budget", 10)),
    (Unreachable("PATCH node", "reset"), Verdict(Retry.BACKOFF, "unreachable")),
    (ServerFault("PATCH node", 500), Verdict(Retry.BACKOFF, "server-fault")),
    (Unavailable("PATCH node", 503), Verdict(Retry.BACKOFF, "server-fault")),
    (Unavailable("PATCH node", 503, retry_after=7.0), Verdict(Retry.ASKED, "server-fault", 7.0)),
    (Misconfigured("POST eviction", 500), Verdict(Retry.SLOW, "misconfigured")),
    (NoCredentials("no token"), Verdict(Retry.BACKOFF, "unreachable")),
    (NoAnswerError("certificates were not looked at within 30 s"), Verdict(Retry.BACKOFF, "unreachable")),
    (Unauthorized("PATCH node", 401), Verdict(Retry.SLOW, "forbidden")),
    (Forbidden("PATCH node", 403), Verdict(Retry.SLOW, "forbidden")),
    (Invalid("POST pod", 400), Verdict(Retry.DEFECT, "defect")),
    (KeyError("uid"), Verdict(Retry.DEFECT, "defect")),
]


@pytest.mark.parametrize(("error", "verdict"), TABLE, ids=lambda value: type(value).__name__)
def test_every_error_has_its_retry(error: Exception, verdict: Verdict) -> None:
    assert judge(error) == verdict


def test_no_error_of_the_tree_is_taken_for_a_defect_but_a_request_that_can_never_succeed() -> None:
    abstract = {KubeError, NotSent, ApiError, TooManyRequests, Invalid}
    covered = tuple(type(error) for error, verdict in TABLE if verdict.retry is not Retry.DEFECT)
    assert [kind for kind in _family(KubeError) - abstract if not issubclass(kind, covered)] == []


def test_the_metrics_words_are_a_closed_list() -> None:
    assert {verdict.result for _, verdict in TABLE} | {"done", "again"} == set(RESULTS)


def test_a_group_counts_as_its_gravest_part() -> None:
    group = ExceptionGroup(
        "nodes",
        [Conflict("PATCH a", 409), ExceptionGroup("more", [Unreachable("PATCH b", "reset")]), NotFound("c", 404)],
    )
    assert judge(group) == Verdict(Retry.BACKOFF, "unreachable")


def test_a_lost_lease_outweighs_whatever_else_went_wrong() -> None:
    assert judge(ExceptionGroup("nodes", [ValueError("bug"), NotLeading("no lease")])).retry is Retry.DROP


def test_of_two_waits_that_the_server_asked_for_the_longer_counts() -> None:
    group = ExceptionGroup("pods", [Throttled("a", 429, retry_after=1.0), Throttled("b", 429, retry_after=5.0)])
    assert judge(group).after == 5.0


def test_the_words_of_a_group_are_those_of_its_parts_without_repetition() -> None:
    same = [
        Conflict("PATCH a", 409, "Conflict", "object was modified"),
        Conflict("PATCH b", 409, "", "object was modified"),
    ]
    assert words(ExceptionGroup("nodes", [*same, Unreachable("PATCH c", "reset")])) == (
        "object was modified; PATCH c: reset"
    )


def _family(kind: type[Exception]) -> set[type[Exception]]:
    return {kind}.union(*(_family(child) for child in kind.__subclasses__()))
