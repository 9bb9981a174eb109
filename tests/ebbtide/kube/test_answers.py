"""Which error a failing answer becomes."""

import orjson
import pytest

from ebbtide.kube import errors
from ebbtide.kube.answers import Answer, failure
from tests.ebbtide.kube.wire import status

UID_MESSAGE = (
    'Operation cannot be fulfilled on pods "p": Precondition failed: UID in precondition: a, UID in object meta: b'
)
RECORD_MESSAGE = (
    'Operation cannot be fulfilled on Node "n": the UID in the precondition (a) does not match the UID in record (b).'
)
CASES = {
    "bad request": (status(400, "BadRequest"), errors.Invalid),
    "credentials not accepted": (status(401, "Unauthorized"), errors.Unauthorized),
    "not permitted": (status(403, "Forbidden"), errors.Forbidden),
    "namespace is going": (status(403, "Forbidden", causes=["NamespaceTerminating"]), errors.NamespaceTerminating),
    "not there": (status(404, "NotFound"), errors.NotFound),
    "method not allowed": (status(405, "MethodNotAllowed"), errors.Invalid),
    "somebody was faster": (status(409, "Conflict", "the object has been modified"), errors.Conflict),
    "fields owned by others": (status(409, "Conflict", causes=["FieldManagerConflict"]), errors.Conflict),
    "already there": (status(409, "AlreadyExists"), errors.AlreadyExists),
    "another pod of that name": (status(409, "Conflict", UID_MESSAGE), errors.PreconditionFailed),
    "another node of that name": (status(409, "Conflict", RECORD_MESSAGE), errors.PreconditionFailed),
    "version compacted": (status(410, "Expired"), errors.Gone),
    "too large": (status(413, "RequestEntityTooLarge"), errors.Invalid),
    "wrong media type": (status(415, "UnsupportedMediaType"), errors.Invalid),
    "failed patch test": (status(422, "Invalid"), errors.Invalid),
    "slow down": (status(429, "TooManyRequests"), errors.Throttled),
    "budget": (status(429, "TooManyRequests", causes=["DisruptionBudget"]), errors.BudgetRefused),
    "fault": (status(500, "InternalError"), errors.ServerFault),
    "more than one budget": (
        status(
            500, "", "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        ),
        errors.Misconfigured,
    ),
    "server timeout": (status(500, "ServerTimeout", after=2), errors.Unavailable),
    "bad gateway": (status(502), errors.Unavailable),
    "unavailable": (status(503, "ServiceUnavailable"), errors.Unavailable),
    "timeout": (status(504, "Timeout"), errors.Unavailable),
    "some other fault": (status(507), errors.ServerFault),
    "some other refusal": (status(418), errors.ApiError),
}


@pytest.mark.parametrize(("body", "kind"), CASES.values(), ids=CASES)
def test_each_answer_becomes_exactly_the_error_that_says_what_to_do(body: dict[str, object], kind: type) -> None:
    code = body["code"]
    assert isinstance(code, int)
    error = failure("GET /x", Answer(code, {}, orjson.dumps(body)))
    assert type(error) is kind
    assert error.code == code
    assert error.reason == body["reason"]
    assert error.message == body["message"]


@pytest.mark.parametrize(
    ("headers", "after", "expected"),
    [
        ({"retry-after": "3"}, 0, 3.0),
        ({"retry-after": "3"}, 9, 3.0),
        ({}, 9, 9.0),
        ({}, 0, None),
        ({"retry-after": "0"}, 0, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, 9, 9.0),
    ],
)
def test_the_header_wins_over_the_body_and_nonsense_counts_as_nothing(
    headers: dict[str, str], after: int, expected: float | None
) -> None:
    body = orjson.dumps(status(429, "TooManyRequests", after=after))
    assert failure("GET /x", Answer(429, headers, body)).retry_after == expected


@pytest.mark.parametrize(
    "body", [b"", b"<html>\n  <b>503</b>  upstream\n</html>", b"[1, 2]", b'{"kind": "Other"}', b"\xff\xfe\x00"]
)
def test_what_a_proxy_says_instead_of_a_status_is_quoted_in_short(body: bytes) -> None:
    error = failure("GET /x", Answer(503, {}, body * 100))
    assert type(error) is errors.Unavailable
    assert len(error.message) <= 200
    assert "\n" not in error.message


@pytest.mark.parametrize(
    "details", [None, [], "x", {"causes": None}, {"causes": ["x", None]}, {"causes": 3}, {"retryAfterSeconds": "x"}]
)
def test_a_malformed_status_still_becomes_an_error(details: object) -> None:
    body = orjson.dumps({"kind": "Status", "code": 429, "details": details})
    assert type(failure("GET /x", Answer(429, {}, body))) is errors.Throttled


def test_the_message_names_request_code_reason_and_words() -> None:
    error = failure("PATCH /api/v1/nodes/a", Answer(409, {}, orjson.dumps(status(409, "Conflict", "modified"))))
    assert str(error) == "PATCH /api/v1/nodes/a: 409 Conflict: modified"
