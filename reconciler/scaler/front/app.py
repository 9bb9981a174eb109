"""`/load_data` over HTTP: a request is read, dispatched, answered.

There is one path, and requests have no bodies. What needs no body read is answered without reading one, and its
connection ends with the answer.
"""

import asyncio
from typing import Final, cast

from aiohttp import web

from reconciler.scaler.front import answers
from reconciler.scaler.front.answers import Answer
from reconciler.scaler.front.dispatch import Dispatch
from reconciler.scaler.front.forward import PASSED_ON
from reconciler.scaler.front.query import PATH, Asked, Bad, DataRequest, Nowhere, Rules, read
from reconciler.scaler.front.report import Report
from reconciler.scaler.front.serving import Connection

# An init has no body. Some clients send one all the same, and are answered rather than cut off.
LARGEST_BODY: Final = 64 * 1024
BODY_WITHIN: Final = 10.0
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_SERVER: Final = ("Server", "ebbtide")


class _BodyError(Exception):
    """The body of a request is not as it may be; `answer` says so."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


class Front:
    """The handler of all requests; `most_at_once` may be under way, waiting ones included."""

    def __init__(self, dispatch: Dispatch, rules: Rules, report: Report, most_at_once: int) -> None:
        self._dispatch = dispatch
        self._rules = rules
        self._report = report
        self._most_at_once = most_at_once
        self._in_flight = 0
        self._came = float("-inf")
        self._leaving = False
        report.in_flight.set_function(lambda: self._in_flight)

    def leave(self) -> None:
        """From now on every answer ends its connection."""
        self._leaving = True

    def quiet(self, seconds: float) -> bool:
        """Whether nobody has asked for a task for so long, or waits."""
        return not self._in_flight and asyncio.get_running_loop().time() - self._came > seconds

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = cast("Connection", request.protocol)
        connection.taken()
        if request.method == "HEAD" and PASSED_ON in request.headers:
            connection.over()
            return self._response(request, self._dispatch.leads())
        asked, loop = read(request.method, request.raw_path, self._rules), asyncio.get_running_loop()
        begun = loop.time()
        self._in_flight += 1
        try:
            answer = await self._answer(request, asked)
        except asyncio.CancelledError:
            self._report.broken_off(asked.kind)
            raise
        except Exception as error:  # whatever went wrong is our fault, and nothing that a client should see
            self._report.fault(asked.kind, error)
            answer = answers.fault()
        finally:
            self._in_flight -= 1
            connection.over()
        self._report.answered(asked.kind, answer, loop.time() - begun)
        return self._response(request, answer)

    async def _answer(self, request: web.BaseRequest, asked: Asked) -> Answer:
        match asked:
            case Bad(why):
                return answers.refused(why)
            case Nowhere():
                return answers.not_found(f"there is only {PATH}")
            case DataRequest():
                return answers.not_found("no worker is here: chunks, flush and build go to where the init was sent")
        self._came = asyncio.get_running_loop().time()
        if self._in_flight > self._most_at_once:
            return answers.later("too many requests at once")
        try:
            if request.can_read_body:
                await _body_ends(request)
        except _BodyError as error:
            return error.answer
        return await self._dispatch(asked, passed_on=PASSED_ON in request.headers)

    def _response(self, request: web.BaseRequest, answer: Answer) -> web.Response:
        headers = dict((*answer.headers, _SERVER))
        if answer.content_type:
            headers["Content-Type"] = answer.content_type
        response = web.Response(status=answer.status, body=answer.body or None, headers=headers)
        # Of a body that is not read there is no telling where the next request begins.
        if self._leaving or request.can_read_body:
            response.force_close()
        return response


async def _body_ends(request: web.BaseRequest) -> None:
    """Reads what nobody needs. Raises _BodyError."""
    size = 0
    try:
        async with asyncio.timeout(BODY_WITHIN):
            if request.headers.get("Expect", "").lower() == "100-continue":
                await request.writer.write(_CONTINUE)
                request.writer.output_size = 0
            while chunk := await request.content.readany():
                size += len(chunk)
                if size > LARGEST_BODY:
                    raise _BodyError(answers.refused(f"the request has a body of more than {LARGEST_BODY} bytes"))
    except TimeoutError as error:
        raise _BodyError(answers.too_slow("the body came too slowly")) from error
    except web.RequestPayloadError as error:
        raise _BodyError(answers.refused("the body broke off")) from error
