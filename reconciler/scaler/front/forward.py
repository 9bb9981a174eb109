"""What a replica that does not lead has done by the one that does: lists and deletes; and whether it is there at all.

A lease is in force for a while after its holder has died, and a client that is sent to an address asks there for hours.
So nobody is sent to a leader that has not just been heard of, and that does not itself say that it leads.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlsplit

import aiohttp

from ebbtide.connecting import words_of
from reconciler.scaler.front import answers
from reconciler.scaler.front.answers import Answer, Status
from reconciler.scaler.front.query import PATH, PassedOn

# Says that a front sent the request: it is not passed on a second time. With it HEAD asks whether the other leads.
PASSED_ON: Final = "Ebbtide-Passed-On"
# Requests under way to the leader, and those that wait for one of them to end.
_AT_ONCE: Final = 32
_MOST_WAITING: Final = 256
_CONNECT_WITHIN: Final = 3.0
# A little more than the leader itself takes at most, see `dispatch`.
ANSWER_WITHIN: Final = 65.0
# A list of ten thousand tasks has some three megabytes.
_LARGEST: Final = 64 * 2**20
_PASSED_BACK: Final = frozenset((Status.OK, Status.BAD, Status.NOT_FOUND, Status.FAULT, Status.LATER))
# For how long what was heard of the leader counts, and how long it is waited for; seconds.
HEARD_FOR: Final = 1.0
_HEARD_WITHIN: Final = aiohttp.ClientTimeout(total=2.0)


@dataclass(frozen=True, slots=True)
class _Heard:
    """What was heard of whom, and when (loop time)."""

    leader: str
    leads: bool
    at: float


class Forward:
    """Asks the leader, and gives its answer back; an async context manager."""

    def __init__(self, connect: Callable[[], aiohttp.BaseConnector]) -> None:
        self._connect = connect
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0
        self._one_look = asyncio.Lock()
        self._heard = _Heard("", leads=False, at=0.0)

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=ANSWER_WITHIN, sock_connect=_CONNECT_WITHIN)
        self._session = aiohttp.ClientSession(
            connector=self._connect(), timeout=timeout, headers={PASSED_ON: "1"}, auto_decompress=False
        )
        return self

    async def __aexit__(self, *_why: object) -> None:
        await self._session.close()

    async def finds(self, leader: str) -> bool:
        """Whether there is a front at that address, and it leads, as it says now or has said a moment ago."""
        loop = asyncio.get_running_loop()
        async with self._one_look:
            heard = self._heard
            if heard.leader != leader or loop.time() - heard.at > HEARD_FOR:
                self._heard = _Heard(leader, await self._hear(leader), loop.time())
            return self._heard.leads

    async def _hear(self, leader: str) -> bool:
        try:
            async with self._session.head(leader + PATH, timeout=_HEARD_WITHIN, allow_redirects=False) as answer:
                return answer.status == Status.OK
        except (aiohttp.ClientError, OSError):
            return False

    async def __call__(self, asked: PassedOn, leader: str) -> Answer:
        """What the leader at that address says; 503 where it says nothing that a client may be told."""
        if self._waiting >= _MOST_WAITING:
            return answers.later("too many requests wait for the leading replica")
        self._waiting += 1
        try:
            async with self._places:
                return await self._ask(asked, leader)
        except (aiohttp.ClientError, OSError) as error:
            return answers.later(f"the leading replica does not answer: {words_of(error, urlsplit(leader).netloc)}")
        finally:
            self._waiting -= 1

    async def _ask(self, asked: PassedOn, leader: str) -> Answer:
        url = f"{leader}{PATH}?{asked.query}"
        async with self._session.request(asked.method, url, allow_redirects=False) as answer:
            if answer.status not in _PASSED_BACK:
                return answers.later(f"the leading replica answers with {answer.status}")
            body = await _bounded(answer.content)
            if body is None:
                return answers.later("the leading replica's answer is too long")
            wait = answer.headers.get("Retry-After", "")
            again = (("Retry-After", wait if wait.isdigit() else str(answers.SOON)),)
            headers = again if answer.status == Status.LATER else ()
            return Answer(Status(answer.status), body, answer.headers.get("Content-Type", ""), headers)


async def _bounded(content: aiohttp.StreamReader) -> bytes | None:
    chunks, size = [], 0
    while chunk := await content.readany():
        chunks.append(chunk)
        size += len(chunk)
        if size > _LARGEST:
            return None
    return b"".join(chunks)
