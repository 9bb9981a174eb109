"""What the API server's answer to an eviction means."""

import pytest

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
    PreconditionFailed,
    ServerFault,
    Throttled,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from reconciler.rebalance.answers import Answer, Result, read_answer
from tests.reconciler.rebalance.builders import DEFAULTS, rules

MANY = 200


def _error(kind: type[ApiError], code: int, retry_after: float | None = None) -> ApiError:
    return kind("POST eviction of default/p1", code, "Reason", "the server's words", (), retry_after)


def _answers(failure: KubeError | None, failures: int = 0) -> list[Answer]:
    """Many, since waits are jittered."""
    return [read_answer(failure, failures, DEFAULTS) for _ in range(MANY)]


@pytest.mark.parametrize(
    ("failure", "result", "earliest", "latest"),
    [
        pytest.param(None, Result.ACCEPTED, 0, 0, id="accepted"),
        pytest.param(_error(NotFound, 404), Result.GONE, 30, 30, id="NR-48 404"),
        pytest.param(_error(PreconditionFailed, 409), Result.GONE, 30, 30, id="NR-48 409, another UID"),
        pytest.param(_error(BudgetRefused, 429), Result.BUDGET, 10, 15, id="NR-45 a budget"),
        pytest.param(_error(BudgetRefused, 429, 3), Result.BUDGET, 10, 15, id="NR-45 a budget that states a time"),
        pytest.param(_error(Throttled, 429, 5), Result.THROTTLED, 5, 5, id="NR-46 throttled"),
        pytest.param(_error(Throttled, 429), Result.THROTTLED, 1, 1.5, id="throttled without a time"),
        pytest.param(_error(Throttled, 429, 0), Result.THROTTLED, 1, 1.5, id="throttled for no time"),
        pytest.param(_error(Misconfigured, 500), Result.MISCONFIGURED, 60, 120, id="NR-47 two budgets"),
        pytest.param(_error(NamespaceTerminating, 403), Result.ERROR, 10, 15, id="NR-48 the namespace is going"),
        pytest.param(_error(Forbidden, 403), Result.FORBIDDEN, 60, 120, id="NR-48 403"),
        pytest.param(_error(Unavailable, 503), Result.ERROR, 1, 1.5, id="NR-48 503"),
        pytest.param(_error(Unavailable, 504), Result.ERROR, 1, 1.5, id="504"),
        pytest.param(_error(ServerFault, 500), Result.ERROR, 1, 1.5, id="another 500"),
        pytest.param(_error(Conflict, 409), Result.ERROR, 1, 1.5, id="another 409"),
        pytest.param(_error(AlreadyExists, 409), Result.ERROR, 1, 1.5, id="409 AlreadyExists"),
        pytest.param(_error(Unauthorized, 401), Result.ERROR, 1, 1.5, id="401"),
        pytest.param(_error(Invalid, 422), Result.ERROR, 1, 1.5, id="422"),
        pytest.param(_error(Gone, 410), Result.ERROR, 1, 1.5, id="410"),
        pytest.param(_error(TooManyRequests, 429), Result.ERROR, 1, 1.5, id="429 of no known kind"),
        pytest.param(_error(ApiError, 418), Result.ERROR, 1, 1.5, id="a code nobody knows"),
        pytest.param(Unreachable("POST", "reset by peer"), Result.ERROR, 1, 1.5, id="no answer"),
        pytest.param(NoCredentials("no token"), Result.ERROR, 1, 1.5, id="no credentials"),
        pytest.param(NotLeading("no lease"), Result.ERROR, 1, 1.5, id="not leading"),
    ],
)
def test_an_answer_means_one_result_and_one_wait(
    failure: KubeError | None, result: Result, earliest: float, latest: float
) -> None:
    """When the pod is asked again; only the first answer is never asked about again."""
    for answer in _answers(failure):
        assert answer.result is result
        assert earliest <= answer.retry_in <= latest


@pytest.mark.parametrize("retry_after", [None, 0, 1, 5, 120])
def test_only_throttling_stops_all_evictions(retry_after: float | None) -> None:
    """NR-46 against NR-45: a budget speaks for its pods, a throttle for the whole client."""
    assert all(answer.pause_all for answer in _answers(_error(Throttled, 429, retry_after)))
    others = [_error(BudgetRefused, 429, retry_after), _error(Unavailable, 503, retry_after), None]
    assert not any(answer.pause_all for failure in others for answer in _answers(failure))


@pytest.mark.parametrize("seconds", [0.5, 10, 60])
@pytest.mark.parametrize("failures", [0, 1, 50, 10**6])
def test_a_budget_is_asked_at_the_configured_pace_for_ever(seconds: float, failures: int) -> None:
    """NR-45: never earlier, at most half as late again, and never slower with each refusal."""
    settings = rules(retry_too_many_requests_time=seconds)
    waits = [read_answer(_error(BudgetRefused, 429), failures, settings).retry_in for _ in range(MANY)]
    assert seconds <= min(waits)
    assert max(waits) <= 1.5 * seconds
    assert len(set(waits)) > 1


@pytest.mark.parametrize(
    ("failures", "pause"),
    [(0, 1), (1, 2), (2, 4), (3, 8), (4, 16), (5, 32), (6, 60), (7, 60), (100, 60), (10**6, 60)],
)
@pytest.mark.parametrize("kind", [Unavailable, ServerFault, Throttled])
def test_other_failures_are_asked_about_more_and_more_slowly(kind: type[ApiError], failures: int, pause: float) -> None:
    """NR-48: doubling up to a minute, spread so that many pods do not come back at once."""
    waits = [answer.retry_in for answer in _answers(_error(kind, 500), failures)]
    assert pause <= min(waits)
    assert max(waits) <= 1.5 * pause
    assert len(set(waits)) > 1


@pytest.mark.parametrize("kind", [BudgetRefused, Misconfigured, Forbidden, Unavailable, NamespaceTerminating])
def test_a_failure_keeps_the_server_s_words(kind: type[ApiError]) -> None:
    """They go into the log and the event as they are, without verb and path."""
    assert read_answer(_error(kind, 500), 0, DEFAULTS).words == "the server's words"


def test_a_failure_without_an_answer_keeps_the_transport_s_words() -> None:
    """There is nothing else to say."""
    assert "reset by peer" in read_answer(Unreachable("POST x", "reset by peer"), 0, DEFAULTS).words


def test_the_results_are_the_closed_list_of_the_metric() -> None:
    """A new one has to be documented."""
    assert [*Result] == ["accepted", "gone", "budget", "throttled", "misconfigured", "forbidden", "error"]
