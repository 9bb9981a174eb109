"""AWS's own mock of the instance metadata service, and a way to it that has troubles where a test wants them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import aiohttp
from aiohttp import web

from tests.controlplane.build import tool
from tests.controlplane.processes import Server, free_port
from tests.controlplane.proxy import GOODBYE
from tests.controlplane.world import wait_until

MOCK = "ec2-metadata-mock"


@dataclass
class Way:
    """Passes requests on to the mock. `troubles` are statuses that it answers itself, first come first served."""

    mock: str
    troubles: list[int] = field(default_factory=list)
    asked: list[tuple[str, str, int]] = field(default_factory=list)
    url: str = ""

    async def pass_on(self, request: web.BaseRequest) -> web.StreamResponse:
        if self.troubles:
            status, body = self.troubles.pop(0), b""
        else:
            status, body = await self._mock(request)
        self.asked.append((request.method, request.path, status))
        return web.Response(status=status, body=body)

    async def _mock(self, request: web.BaseRequest) -> tuple[int, bytes]:
        headers = {key: value for key, value in request.headers.items() if key.lower().startswith("x-aws")}
        async with (
            aiohttp.ClientSession() as session,
            session.request(request.method, self.mock + request.path, headers=headers) as answer,
        ):
            return answer.status, await answer.read()


@asynccontextmanager
async def metadata(folder: Path, *flags: str) -> AsyncIterator[Way]:
    """The mock with tokens required (`--imdsv2`) and these flags, and the way to it."""
    binary, port = await asyncio.to_thread(tool, MOCK), free_port()
    command = [str(binary), "spot", "--imdsv2", "--hostname", "127.0.0.1", "--port", str(port), *flags]
    server = Server(MOCK, command, folder / f"{MOCK}.log")
    way = Way(f"http://127.0.0.1:{port}")
    runner = web.ServerRunner(web.Server(way.pass_on, access_log=None), shutdown_timeout=GOODBYE)
    await runner.setup()
    try:
        await wait_until(partial(_serves, port), "the mock listens", check=server.check)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        way.url = "http://{}:{}".format(*runner.addresses[0][:2])
        yield way
    finally:
        await runner.cleanup()
        server.stop()


async def _serves(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True
