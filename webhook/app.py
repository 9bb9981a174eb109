"""`POST /mutate`: a review in, an answer out, and what is said to everything else.

`allowed: false` is never said. What cannot be answered is an HTTP error, so that the failure policy decides; and where
it will be better in a moment it is a 503 with `Retry-After`, upon which the API server asks again within its timeout.
Between the end of a body and the answer nothing is waited for.
"""

from dataclasses import dataclass
from time import perf_counter
from typing import Final, Protocol, cast

from aiohttp import web

from webhook.decide import Decision, Known, Rules, decide
from webhook.patch import POD, TEMPLATE, operations
from webhook.report import Failure, Report, result_of
from webhook.review import Answer, Kind, NotAReviewError, Request, read, write
from webhook.serving import Connection

PATH: Final = "/mutate"
_JSON: Final = "application/json"
# The library would tell its name and version.
_SERVER: Final = {"Server": "ebbtide"}
_ANSWER: Final = {"Content-Type": _JSON, **_SERVER}
_BESIDE: Final = {503: {"Retry-After": "1"}, 405: {"Allow": "POST"}}


class TooLargeError(Exception):
    """The body is longer than it may be."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What is said instead of an answer."""

    status: int
    text: str


_REFUSALS: Final = {
    Failure.FAULT: Refusal(500, "internal fault"),
    Failure.NOT_SYNCED: Refusal(503, "the cluster is not known yet"),
    Failure.LEAVING: Refusal(503, "this replica is leaving"),
    Failure.BUSY: Refusal(503, "too many requests at once"),
    Failure.BROKEN_OFF: Refusal(400, "the body broke off"),
    Failure.NOT_A_REVIEW: Refusal(400, "not an AdmissionReview"),
    Failure.TOO_LARGE: Refusal(413, "the body is too large"),
    Failure.CONTENT_TYPE: Refusal(415, f"the content type has to be {_JSON}"),
    Failure.METHOD: Refusal(405, "only POST"),
    Failure.PATH: Refusal(404, f"there is only {PATH}"),
}


class Ready(Known, Protocol):
    """Knowledge that says whether it is complete."""

    @property
    def complete(self) -> bool: ...


class Admission:
    """The handler. `most_at_once` requests are taken at the same time, with bodies of up to `largest` bytes."""

    def __init__(self, known: Ready, rules: Rules, report: Report, *, largest: int, most_at_once: int) -> None:
        self._known = known
        self._rules = rules
        self._report = report
        self._largest = largest
        self._most_at_once = most_at_once
        self._in_flight = 0
        self._draining = False
        self._leaving = False
        report.in_flight.set_function(lambda: self._in_flight)

    @property
    def in_flight(self) -> int:
        return self._in_flight

    def drain(self) -> None:
        """From now on every answer ends its connection."""
        self._draining = True

    def leave(self) -> None:
        """From now on nothing is answered any more; who still comes is sent to another replica."""
        self._draining = self._leaving = True

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = cast("Connection", request.protocol)
        refused = self._refused(request)
        if refused is not None:
            return self._refuse(refused)
        begun = perf_counter()
        self._in_flight += 1
        try:
            body = await self._body(request)
            connection.coming_since = None
            return self._answer(body, begun)
        except TooLargeError:
            return self._refuse(Failure.TOO_LARGE)
        except web.RequestPayloadError:
            return self._refuse(Failure.BROKEN_OFF)
        except ConnectionError:
            self._report.failed(Failure.TOO_SLOW if connection.too_slow else Failure.BROKEN_OFF)
            raise
        finally:
            self._in_flight -= 1
            connection.coming_since = None

    def _refused(self, request: web.BaseRequest) -> Failure | None:
        """Why the body is not even read."""
        if request.raw_path.partition("?")[0] != PATH:
            return Failure.PATH
        if request.method != "POST":
            return Failure.METHOD
        if request.content_type != _JSON:
            return Failure.CONTENT_TYPE
        if self._leaving:
            return Failure.LEAVING
        if not self._known.complete:
            return Failure.NOT_SYNCED
        return Failure.BUSY if self._in_flight >= self._most_at_once else None

    async def _body(self, request: web.BaseRequest) -> bytes:
        """Reads no more than is allowed. Raises TooLargeError, RequestPayloadError, ConnectionError."""
        if (request.content_length or 0) > self._largest:
            raise TooLargeError
        content = request.content
        chunk = await content.readany()
        if content.at_eof():
            return self._allowed(chunk, len(chunk))
        chunks, size = [chunk], len(chunk)
        while chunk := await content.readany():
            size += len(chunk)
            chunks.append(self._allowed(chunk, size))
        return b"".join(chunks)

    def _allowed(self, chunk: bytes, size: int) -> bytes:
        if size > self._largest:
            raise TooLargeError
        return chunk

    def _answer(self, body: bytes, begun: float) -> web.Response:
        request: Request | None = None
        try:
            request = read(body)
            decision = decide(request, self._known, self._rules)
            patch = self._patch(request, decision)
            result = result_of(decision, changed=bool(patch))
            audit = {"decision": result, "zones": decision.exclusion.annotation, "pool": decision.pool}
            answer = web.Response(body=write(request, Answer(patch, decision.warning, audit)), headers=_ANSWER)
            self._report.answered(request, decision, result, perf_counter() - begun)
        except NotAReviewError as error:
            return self._refuse(Failure.NOT_A_REVIEW, str(error))
        except Exception as error:  # whatever goes wrong in a decision, the failure policy is to decide, not we
            self._report.fault(error, request, perf_counter() - begun)
            return _refusal(Failure.FAULT)
        if self._draining:
            answer.force_close()
        return answer

    def _patch(self, request: Request, decision: Decision) -> list[dict[str, object]]:
        if request.object is None:
            return []
        where = TEMPLATE if request.kind is Kind.STATEFUL_SET else POD
        return operations(request.object, decision, self._rules.labels, where)

    def _refuse(self, failure: Failure, words: str = "") -> web.Response:
        self._report.failed(failure)
        return _refusal(failure, words)


def _refusal(failure: Failure, words: str = "") -> web.Response:
    """Ends the connection: of a body that is not read there is no telling where the next request begins."""
    refusal = _REFUSALS[failure]
    headers = {**_SERVER, **_BESIDE.get(refusal.status, {})}
    response = web.Response(status=refusal.status, text=(words or refusal.text) + "\n", headers=headers)
    response.force_close()
    return response
