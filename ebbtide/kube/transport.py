"""HTTP to one API server: the session, credentials, lanes, time limits, and what becomes of failures.

A request passes in this order: lane, credentials, permit, wire. The permit is asked last, because all before it may
take seconds in which leadership can end. aiohttp's errors stop here.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final, Self
from urllib.parse import urlsplit

import aiohttp

from ebbtide.connecting import words_of
from ebbtide.kube.access import Access
from ebbtide.kube.answers import Answer, failure
from ebbtide.kube.backoff import Backoff
from ebbtide.kube.errors import ApiError, NoCredentials, NotLeading, Silent, Throttled, Unavailable, Unreachable
from ebbtide.kube.limits import LONGEST_PAUSE, Lane, RateLimits, Throttle
from ebbtide.kube.traffic import NO_ANSWER, Traffic, Verb

# An eviction can wait behind others under one budget: more than 3 s were seen at 32 in parallel, and the server
# itself gives up after 34 s (apiserver --request-timeout caps it at 60 s).
REQUEST_SECONDS: Final = 60.0
CONNECT_SECONDS: Final = 10.0
# The watch cache answers resourceVersion=0 with the whole list, whatever the limit: 15,000 nodes of 15 KB.
LARGEST_BODY: Final = 256 << 20
_READ_ATTEMPTS: Final = 4


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `verb` is None for paths that are no resource; `permit` None for what needs no permit."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    verb: Verb | None = None
    lane: Lane = Lane.NORMAL
    permit: Callable[[], bool] | None = None

    @property
    def what(self) -> str:
        """For messages: method and path."""
        return f"{self.method} {self.path}"


class Transport:
    """Sends calls. Everything it raises is a `KubeError`; cancellation passes.

    `patience` is how long (seconds) a read may go without a word from the server, its repetitions included.
    """

    def __init__(self, access: Access, user_agent: str, limits: RateLimits, patience: float = inf) -> None:
        self._access = access
        self._peer = urlsplit(access.server).netloc
        self._user_agent = user_agent
        self._throttle = Throttle(limits)
        self._patience = patience
        self._pool: _Pool | None = None
        self._retired: list[_Pool] = []
        self.traffic = Traffic()

    async def close(self) -> None:
        pools = [*self._retired, *([self._pool] if self._pool else [])]
        self._pool, self._retired = None, []
        for pool in pools:
            await pool.session.close()

    async def ask(self, call: Call) -> Answer:
        """The answer of a request that succeeded.

        A read in the NORMAL lane is tried a few times when the server is away or asks to slow down. Writes are never
        repeated, since the caller has to look and decide again; urgent reads have a deadline of their own.
        """
        attempts = _READ_ATTEMPTS if call.method == "GET" and call.lane is Lane.NORMAL else 1
        pauses = Backoff(0.25, 4.0)
        last_begin = asyncio.get_running_loop().time() + self._patience
        for remaining in reversed(range(attempts)):
            try:
                answer, error = await self.exchange(call)
                if error is None:
                    return answer
                raise error
            except (Throttled, Unavailable, Unreachable) as error:
                if not remaining or asyncio.get_running_loop().time() >= last_begin:
                    raise
                asked = getattr(error, "retry_after", None) or 0.0
                await asyncio.sleep(max(pauses.next(), min(asked, LONGEST_PAUSE)))
        raise AssertionError("the last attempt returns or raises")

    async def exchange(self, call: Call) -> tuple[Answer, ApiError | None]:
        """Whatever the server answers, and the error that it stands for."""
        async with self._throttle.slot(call.lane), self._accepted(call, self._timeout(call)) as response:
            answer = await _answer(call, response)
        error = failure(call.what, answer) if answer.status >= 300 else None
        self._throttle.learn(call.lane, error)
        return answer, error

    def _timeout(self, call: Call) -> aiohttp.ClientTimeout:
        """Writes get their whole time: webhooks may hold up each of them for half a minute."""
        return aiohttp.ClientTimeout(
            total=REQUEST_SECONDS,
            sock_connect=min(CONNECT_SECONDS, self._patience),
            sock_read=self._patience if call.method == "GET" and self._patience < inf else None,
        )

    async def chunks(
        self, call: Call, silent_after: float, opened: Callable[[], None] | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The body of an endless answer as it comes; `opened` is called when the server has begun to answer.

        Raises Silent when nothing at all arrives for `silent_after` seconds: a connection whose other end has vanished
        without a word looks exactly like a quiet one.
        """
        await self._throttle.wait(call.lane)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=silent_after)
        async with self._accepted(call, timeout) as response:
            if response.status >= 300:
                error = failure(call.what, await _answer(call, response))
                self._throttle.learn(call.lane, error)
                raise error
            if opened is not None:
                opened()
            async for chunk in response.content.iter_any():
                yield chunk

    @contextlib.asynccontextmanager
    async def _accepted(self, call: Call, timeout: aiohttp.ClientTimeout) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response, the second one when the first says that the credentials are no longer accepted."""
        for last in (False, True):
            # In this order: a login may bring the client certificate with which the pool is to be made.
            credentials = await self._access.headers()
            pool = self._current_pool(call)
            async with self._response(pool, call, credentials, timeout) as response:
                if last or response.status != 401:
                    yield response
                    return
            await self._renew(pool)

    @contextlib.asynccontextmanager
    async def _response(
        self, pool: "_Pool", call: Call, credentials: Mapping[str, str], timeout: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        if call.permit is not None and not call.permit():
            raise NotLeading(f"{call.what}: held back, this process may not write")
        if call.verb is not None:
            self.traffic.sent[call.verb] += 1
        answered = False
        try:
            async with (
                pool,
                pool.session.request(
                    call.method,
                    self._access.server + call.path,
                    params=call.params,
                    data=call.body,
                    headers={"Content-Type": call.content_type, **call.headers, **credentials},
                    timeout=timeout,
                    allow_redirects=False,
                    proxy=self._access.proxy or None,
                    server_hostname=self._access.server_name or None,
                ) as response,
            ):
                answered = True
                self._count(call, str(response.status))
                yield response
        except aiohttp.ClientSSLError as error:
            # Certificates change on disk: the next attempt reads them anew.
            await self._renew(pool)
            raise Unreachable(call.what, words_of(error)) from error
        except aiohttp.SocketTimeoutError as error:
            raise Silent(call.what, f"silent for {timeout.sock_read:.0f} s") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(call.what, words_of(error, self._peer)) from error
        finally:
            if not answered:
                self._count(call, NO_ANSWER)

    def _count(self, call: Call, code: str) -> None:
        if call.verb is not None:
            self.traffic.answers[call.verb, code] += 1

    def _current_pool(self, call: Call) -> "_Pool":
        if self._pool is None:
            try:
                connector = self._access.connector()
            except OSError as error:
                raise NoCredentials(f"{call.what}: certificates of {self._access.identity}: {error}") from error
            session = aiohttp.ClientSession(
                connector=connector,
                headers={"Accept": "application/json", "User-Agent": self._user_agent},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
            self._pool = _Pool(session)
        return self._pool

    async def _renew(self, refused: "_Pool") -> None:
        """Once per pool, whoever notices first: fresh credentials, and connections that were opened with them.

        A connection keeps the client certificate with which it was opened, so the old ones must go too. They do when
        the last request on them has ended.
        """
        if refused is not self._pool:
            return
        self._pool = None
        self._access.forget()
        self._retired = [pool for pool in self._retired if not pool.session.closed]
        self._retired.append(refused)
        await refused.retire()


class _Pool:
    """A session that closes itself when it is retired and its last request has ended."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        self._users = 0
        self._retired = False

    async def __aenter__(self) -> Self:
        self._users += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        self._users -= 1
        await self._close_when_idle()

    async def retire(self) -> None:
        self._retired = True
        await self._close_when_idle()

    async def _close_when_idle(self) -> None:
        if self._retired and not self._users:
            await self.session.close()


async def _answer(call: Call, response: aiohttp.ClientResponse) -> Answer:
    pieces: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > LARGEST_BODY:
            raise Unreachable(call.what, f"an answer of more than {LARGEST_BODY >> 20} MiB")
        pieces.append(chunk)
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status, headers, b"".join(pieces))
