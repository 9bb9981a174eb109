"""`POST /mutate`: a review in, an answer out, and what is said to everything else.

`allowed: false` is never said. What cannot be answered is an HTTP error, so that the failure policy decides; and where
it will be better in a moment it is a 503 with `Retry-After`, upon which the API server asks again within its timeout.
Between the end of a body and the answer nothing is waited for.
"""

from http import HTTPStatus
from time import perf_counter
from typing import Final, Protocol

from webhook.alike import Alike
from webhook.connection import Lost
from webhook.decide import Decision, Known, Rules, decide
from webhook.messages import JSON, Head, Reply
from webhook.patch import POD, TEMPLATE, operations
from webhook.report import Failure, Report, result_of
from webhook.review import Answer, Kind, NotAReviewError, Request, encoded, read, write

PATH: Final = "/mutate"
_TARGET: Final = PATH.encode()


def _refusal(status: HTTPStatus, text: str, fields: bytes = b"") -> Reply:
    """Ends the connection: of a body that is not read there is no telling where the next request begins."""
    return Reply(status, f"{text}\n".encode(), fields=fields, last=True)


_AGAIN: Final = b"Retry-After: 1\r\n"
_REFUSALS: Final = {
    Failure.FAULT: _refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "internal fault"),
    Failure.NOT_SYNCED: _refusal(HTTPStatus.SERVICE_UNAVAILABLE, "the cluster is not known yet", _AGAIN),
    Failure.LEAVING: _refusal(HTTPStatus.SERVICE_UNAVAILABLE, "this replica is leaving", _AGAIN),
    Failure.BUSY: _refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once", _AGAIN),
    Failure.BROKEN_OFF: _refusal(HTTPStatus.BAD_REQUEST, "the body broke off"),
    Failure.TOO_SLOW: _refusal(HTTPStatus.REQUEST_TIMEOUT, "the request came too slowly"),
    Failure.TOO_LARGE: _refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is too large"),
    Failure.CONTENT_TYPE: _refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the content type has to be {JSON.decode()}"),
    Failure.METHOD: _refusal(HTTPStatus.METHOD_NOT_ALLOWED, "only POST", b"Allow: POST\r\n"),
    Failure.PATH: _refusal(HTTPStatus.NOT_FOUND, f"there is only {PATH}"),
}
_LOST: Final = {
    Lost.TOO_LARGE: Failure.TOO_LARGE,
    Lost.TOO_SLOW: Failure.TOO_SLOW,
    Lost.NO_ROOM: Failure.BUSY,
    Lost.BROKEN_OFF: Failure.BROKEN_OFF,
}


class Ready(Known, Protocol):
    """Knowledge that says whether it is complete."""

    @property
    def complete(self) -> bool: ...


class Admission:
    """The handler. `most_at_once` requests are taken at the same time, with bodies of up to `largest` bytes."""

    def __init__(self, known: Ready, rules: Rules, report: Report, *, largest: int, most_at_once: int) -> None:
        self.largest = largest
        self._known = known
        self._rules = rules
        self._report = report
        self._alike = Alike(known, rules)
        self._most_at_once = most_at_once
        self._in_flight = 0
        self._draining = False
        self._leaving = False
        report.in_flight.set_function(lambda: self._in_flight)

    def drain(self) -> None:
        """From now on every answer ends its connection."""
        self._draining = True

    def leave(self) -> None:
        """From now on nothing is answered any more; who still comes is sent to another replica."""
        self._draining = self._leaving = True

    def begin(self, head: Head) -> Reply | None:
        failure = self._refused(head)
        if failure is not None:
            return self._refuse(failure)
        self._in_flight += 1
        return None

    def abandon(self, lost: Lost) -> Reply:
        self._in_flight -= 1
        return self._refuse(_LOST[lost])

    def answer(self, head: Head, body: bytes) -> Reply:
        self._in_flight -= 1
        request: Request | None = None
        try:
            request = read(body)
            return self._answer(request, head)
        except NotAReviewError as error:
            self._report.failed(Failure.NOT_A_REVIEW)
            return _refusal(HTTPStatus.BAD_REQUEST, str(error))
        except Exception as error:  # whatever goes wrong in a decision, the failure policy is to decide, not we
            self._report.fault(error, request, perf_counter() - head.since)
            return _REFUSALS[Failure.FAULT]

    def _refused(self, head: Head) -> Failure | None:
        """Why the body is not even read."""
        if head.target.partition(b"?")[0] != _TARGET:
            return Failure.PATH
        if head.method != b"POST":
            return Failure.METHOD
        if head.content_type != JSON:
            return Failure.CONTENT_TYPE
        if self._leaving:
            return Failure.LEAVING
        if not self._known.complete:
            return Failure.NOT_SYNCED
        if self._in_flight >= self._most_at_once:
            return Failure.BUSY
        return Failure.TOO_LARGE if (head.length or 0) > self.largest else None

    def _answer(self, request: Request, head: Head) -> Reply:
        decision, patch = self._alike.answer(request) or self._answer_alone(request)
        result = result_of(decision, changed=bool(patch))
        audit = {"decision": result, "zones": decision.exclusion.annotation, "pool": decision.pool}
        body = write(request, Answer(patch, decision.warning, audit))
        self._report.answered(request, decision, result, perf_counter() - head.since)
        return Reply(HTTPStatus.OK, body, JSON, last=self._draining)

    def _answer_alone(self, request: Request) -> tuple[Decision, str]:
        decision = decide(request, self._known, self._rules)
        if request.object is None:
            return decision, ""
        where = TEMPLATE if request.kind is Kind.STATEFUL_SET else POD
        return decision, encoded(operations(request.object, decision, self._rules.labels, where))

    def _refuse(self, failure: Failure) -> Reply:
        self._report.failed(failure)
        return _REFUSALS[failure]
