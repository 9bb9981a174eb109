"""The instance metadata service, version 2: a token first, then what AWS says about this instance.

Facts are from the EC2 user guide ("Use the Instance Metadata Service", "EC2 instance rebalance recommendations", "Spot
Instance interruption notices"): tokens live for at most six hours, 401 means that a token is not good (any more), 404
that there is nothing to say, 403 that the service is switched off. Tokens are aged by loop time; no clock is set back
under them.
"""

import asyncio
from collections.abc import Callable
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final

import orjson

from ebbtide.http1 import HttpError, Request, Response, exchange
from ebbtide.notices import Kind, Notice, notice_time

TOKEN_PATH: Final = "/latest/api/token"  # noqa: S105 - a path
REBALANCE_PATH: Final = "/latest/meta-data/events/recommendations/rebalance"
INTERRUPTION_PATH: Final = "/latest/meta-data/spot/instance-action"

_TTL_HEADER: Final = "X-aws-ec2-metadata-token-ttl-seconds"
_TOKEN_HEADER: Final = "X-aws-ec2-metadata-token"  # noqa: S105 - a header's name
_TTL: Final = 21600
# A token is renewed when a tenth of its life is left.
_USED: Final = 0.9
# The service is on the same host: an answer takes a millisecond, half a second under load.
_WITHIN: Final = 5.0
# Documents have a hundred bytes, tokens 56.
_LARGEST: Final = 16 << 10
_LONGEST_TOKEN: Final = 1024
_QUOTED: Final = 80


class Result(StrEnum):
    """How a request ended, for the metrics."""

    NOTICE = "notice"
    NONE = "none"
    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    NONSENSE = "nonsense"


class MetadataError(Exception):
    """No usable answer. The words name the request and what was wrong with the answer."""

    def __init__(self, result: Result, words: str) -> None:
        super().__init__(words)
        self.result = result


def _uncounted(_kind: Kind, _result: Result) -> None:
    """Default of `count`."""


class Metadata:
    """One service. `endpoint` is a URL without a path; `count` is told how each question ended."""

    def __init__(self, endpoint: str, count: Callable[[Kind, Result], None] = _uncounted) -> None:
        self.endpoint = endpoint.rstrip("/")
        self._count = count
        self._token = ""
        self._renew_at = 0.0

    async def ask(self, kind: Kind) -> Notice | None:
        """What AWS says of that kind, None if nothing. Raises MetadataError."""
        try:
            notice = await self._notice(kind)
        except MetadataError as error:
            self._count(kind, error.result)
            raise
        self._count(kind, Result.NONE if notice is None else Result.NOTICE)
        return notice

    async def _notice(self, kind: Kind) -> Notice | None:
        path = REBALANCE_PATH if kind is Kind.REBALANCE else INTERRUPTION_PATH
        response = await self._get(path)
        if response.status == HTTPStatus.NOT_FOUND:
            return None
        if response.status != HTTPStatus.OK:
            raise _refused("GET", path, response)
        try:
            return _read(kind, orjson.loads(response.body))
        except (ValueError, LookupError, TypeError) as error:
            quoted = response.body[:_QUOTED].decode(errors="replace")
            raise MetadataError(Result.NONSENSE, f"GET {path}: {error!r} in {quoted!r}") from error

    async def _get(self, path: str) -> Response:
        """With a good token; one that is not accepted is replaced once."""
        for attempt in ("first", "second"):
            headers = {_TOKEN_HEADER: await self._good_token(), "Accept": "application/json"}
            response = await self._exchange(Request("GET", self.endpoint + path, headers), path)
            if response.status != HTTPStatus.UNAUTHORIZED or attempt == "second":
                return response
            self._token = ""
        raise AssertionError("the second attempt returns")

    async def _good_token(self) -> str:
        loop = asyncio.get_running_loop()
        if not self._token or loop.time() >= self._renew_at:
            asked_at = loop.time()
            request = Request("PUT", self.endpoint + TOKEN_PATH, {_TTL_HEADER: str(_TTL)})
            response = await self._exchange(request, TOKEN_PATH)
            if response.status != HTTPStatus.OK:
                raise _refused("PUT", TOKEN_PATH, response)
            self._token = _read_token(response)
            self._renew_at = asked_at + _USED * _lifetime(response)
        return self._token

    async def _exchange(self, request: Request, path: str) -> Response:
        try:
            return await exchange(request, within=_WITHIN, largest=_LARGEST)
        except HttpError as error:
            words = f"{request.method} {path}: {error} (is there an instance metadata service at {self.endpoint}?)"
            raise MetadataError(Result.UNREACHABLE, words) from error


def _read(kind: Kind, document: Any) -> Notice:
    """Raises ValueError, LookupError or TypeError for what is no such document."""
    if kind is Kind.REBALANCE:
        return Notice(kind, notice_time(document["noticeTime"]))
    return Notice(kind, notice_time(document["time"]), str(document["action"])[:_QUOTED])


def _read_token(response: Response) -> str:
    token = response.body.decode("latin-1").strip()
    if not token or len(token) > _LONGEST_TOKEN or not (token.isascii() and token.isprintable()):
        raise MetadataError(Result.NONSENSE, f"PUT {TOKEN_PATH}: the answer is no token")
    return token


def _lifetime(response: Response) -> float:
    """Seconds that the service gives the token, what was asked for where it does not say."""
    stated = response.headers.get(_TTL_HEADER.lower(), "")
    return float(stated) if stated.isdecimal() and len(stated) <= len(str(_TTL)) else float(_TTL)


def _refused(method: str, path: str, response: Response) -> MetadataError:
    words = f"{method} {path}: {response.status}"
    if response.status == HTTPStatus.FORBIDDEN:
        words += " (the instance metadata service is switched off for this instance)"
    return MetadataError(Result.REFUSED, words)
