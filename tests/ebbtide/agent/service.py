"""An instance metadata service that does what a test says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from ebbtide.agent.imds import INTERRUPTION_PATH, REBALANCE_PATH, TOKEN_PATH

NOTICE = b'{"noticeTime": "2026-03-01T11:58:00Z"}'
NOTICE_AT = 1772366280.0
INTERRUPTION = b'{"action": "terminate", "time": "2026-03-01T12:02:00Z"}'
INTERRUPTION_AT = 1772366520.0


@dataclass
class Service:
    """`documents` are answered with 200, paths without one with 404. `failures` are answered first, one by one.

    `tokens` are those that are accepted; each token request makes a new one, good until it is taken out of the set.
    `late` is how many seconds it takes before the first byte of an answer.
    """

    documents: dict[str, bytes] = field(default_factory=dict)
    failures: dict[str, list[int]] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    ttl: str = "21600"
    token: bytes | None = None
    silent: bool = False
    late: float = 0.0
    asked: list[tuple[float, str, str]] = field(default_factory=list)
    url: str = ""
    _made: int = 0

    def count(self, path: str) -> int:
        """How often the path was asked for."""
        return sum(asked == path for _, asked, _ in self.asked)

    def times(self, path: str) -> list[float]:
        """When, in loop time."""
        return [at for at, asked, _ in self.asked if asked == path]

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        given = request.headers.get("X-aws-ec2-metadata-token", "")
        self.asked.append((asyncio.get_running_loop().time(), request.path, given))
        if self.silent:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(self.late)
        failures = self.failures.get(request.path)
        if failures:
            return web.Response(status=failures.pop(0))
        if request.path == TOKEN_PATH:
            return self._new_token(request)
        if given not in self.tokens:
            return web.Response(status=401)
        document = self.documents.get(request.path)
        return web.Response(status=404) if document is None else web.Response(body=document)

    def _new_token(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method != "PUT" or not request.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "").isdecimal():
            return web.Response(status=400)
        self._made += 1
        token = f"token-{self._made}"
        self.tokens.add(token)
        headers = {"X-aws-ec2-metadata-token-ttl-seconds": self.ttl} if self.ttl else {}
        return web.Response(body=self.token if self.token is not None else token.encode(), headers=headers)


@asynccontextmanager
async def serving(**state: object) -> AsyncIterator[Service]:
    """A service on loopback."""
    service = Service(**state)  # type: ignore[arg-type] # the fields of Service, by name
    runner = web.ServerRunner(web.Server(service.answer, access_log=None, handler_cancellation=True))
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        service.url = "http://{}:{}".format(*runner.addresses[0][:2])
        yield service
    finally:
        await runner.cleanup()


@asynccontextmanager
async def dribbling(service: Service, seconds: float) -> AsyncIterator[str]:
    """The URL of a way to it on which each answer takes so many seconds: in scraps, the last of them single bytes."""

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        under_way.add(asyncio.current_task())
        with closing(writer):
            there, back = await asyncio.open_connection("127.0.0.1", urlsplit(service.url).port)
            with closing(back):
                back.write(await reader.readuntil(b"\r\n\r\n"))
                answer = await there.read()
            pieces = [answer[at : at + 16] for at in range(0, len(answer) - 40, 16)]
            pieces += [bytes([byte]) for byte in answer[len(b"".join(pieces)) :]]
            for piece in pieces:
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds / len(pieces)):
                        await reader.read(1)  # the asker sends nothing more: it has gone
                        return
                writer.write(piece)

    under_way = set[Any]()
    server = await asyncio.start_server(pass_on, "127.0.0.1", 0)
    async with server:
        yield "http://{}:{}".format(*server.sockets[0].getsockname()[:2])
    await asyncio.gather(*under_way)


REBALANCE_ONLY = {REBALANCE_PATH: NOTICE}
BOTH = {REBALANCE_PATH: NOTICE, INTERRUPTION_PATH: INTERRUPTION}
