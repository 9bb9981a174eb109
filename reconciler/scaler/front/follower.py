"""Who leads, and what a replica that does not lead has done by the one that does.

The leader writes on the Lease where its front is. Others send new clients there, which is only done while the Lease is
in force and names somebody else: a client that is sent on follows at once and as often as it is told to, so that two
fronts which each take the other for the leader would have it chase between them.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol, Self
from urllib.parse import urlsplit

import aiohttp

from ebbtide import vocabulary
from ebbtide.config.names import ANY_HOST, HostPort, is_host_name, is_http_url
from ebbtide.config.scaler import WorkerScaler
from ebbtide.kube.lease_record import Record
from reconciler.scaler.front import answers
from reconciler.scaler.front.answers import Answer, Status
from reconciler.scaler.front.query import PATH, PassedOn

# Says that a front sent the request: it is not passed on a second time.
PASSED_ON: Final = "Ebbtide-Passed-On"
# Requests under way to the leader, and those that wait for one of them to end.
_AT_ONCE: Final = 32
_MOST_WAITING: Final = 256
_CONNECT_WITHIN: Final = 3.0
# A little more than the leader itself takes at most, see `app`.
ANSWER_WITHIN: Final = 65.0
# A list of ten thousand tasks has some three megabytes.
_LARGEST: Final = 64 * 2**20
_PASSED_BACK: Final = frozenset((Status.OK, Status.BAD, Status.NOT_FOUND, Status.FAULT, Status.LATER))
_DEFAULT_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}
_WILDCARDS: Final = frozenset((ANY_HOST, "::"))


class Leadership(Protocol):
    """What a front has to know of the election."""

    @property
    def own(self) -> str:
        """Where this front is, "" where that is not known."""
        ...

    def leads(self) -> bool:
        """Whether this process decides now."""
        ...

    def leader(self) -> str:
        """Where the front of the other replica is that leads now, "" while none is known."""
        ...

    def trouble(self) -> str:
        """Why there is neither, in words."""
        ...


class Election(Protocol):
    """The part of an Elector that matters here."""

    @property
    def observed(self) -> Record | None: ...

    def permit(self) -> bool: ...

    def remaining(self) -> float: ...


@dataclass(frozen=True, slots=True)
class OnLease:
    """Leadership as the Lease tells it. `identity` and `own` are this process's name and address."""

    election: Election
    identity: str
    own: str

    def leads(self) -> bool:
        return self.election.permit()

    def leader(self) -> str:
        record = self.election.observed
        if record is None or record.holder in ("", self.identity) or self.election.remaining() <= 0:
            return ""
        address = address_of(record.annotations.get(vocabulary.LOAD_DATA_URL_ANNOTATION) or "")
        return "" if address and same(address, self.own) else address

    def trouble(self) -> str:
        record = self.election.observed
        if record is None or not record.holder or self.election.remaining() <= 0:
            return "no replica leads at the moment"
        if record.holder == self.identity:
            return "this replica has lost the lead, and no other has it yet"
        return f"the leading replica, {record.holder}, has told no address of its own"


def advertised(rules: WorkerScaler, environ: Mapping[str, str], port: int) -> str:
    """Where this replica's front is for others, "" where that cannot be told; `port` is the one it listens on."""
    if rules.advertise_url:
        return address_of(rules.advertise_url)
    anywhere = rules.listen.host in _WILDCARDS
    host = environ.get("POD_IP", "") if anywhere else rules.listen.host
    return f"http://{HostPort(host, port)}" if is_host_name(host) else ""


def address_of(url: str) -> str:
    """`<scheme>://<host>:<port>` of a URL at which a front is, "" for anything that is none."""
    return url.rstrip("/").removesuffix(PATH).rstrip("/") if is_http_url(url) else ""


def same(one: str, other: str) -> bool:
    """Whether two addresses lead to the same port."""
    return _origin(one) == _origin(other)


@lru_cache(maxsize=4096)
def _origin(address: str) -> tuple[str, str, int | None]:
    url = urlsplit(address)
    return url.scheme, (url.hostname or "").removesuffix("."), url.port or _DEFAULT_PORTS.get(url.scheme)


class Forward:
    """Asks the leader, and gives its answer back; an async context manager."""

    def __init__(self, connect: Callable[[], aiohttp.BaseConnector]) -> None:
        self._connect = connect
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=ANSWER_WITHIN, sock_connect=_CONNECT_WITHIN)
        self._session = aiohttp.ClientSession(
            connector=self._connect(), timeout=timeout, headers={PASSED_ON: "1"}, auto_decompress=False
        )
        return self

    async def __aexit__(self, *_why: object) -> None:
        await self._session.close()

    async def __call__(self, asked: PassedOn, leader: str) -> Answer:
        """What the leader at that address says; 503 where it says nothing that a client may be told."""
        if self._waiting >= _MOST_WAITING:
            return answers.later("too many requests wait for the leading replica")
        self._waiting += 1
        try:
            async with self._places:
                return await self._ask(asked, leader)
        except (aiohttp.ClientError, OSError) as error:
            return answers.later(f"the leading replica does not answer: {type(error).__name__}")
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
