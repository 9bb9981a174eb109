"""Creations with very large objects, many at once, as an API server has them: who is told to come again does so."""

import asyncio
import ssl
from http import HTTPStatus
from typing import Final

from tests.webhook.stage import LOOPBACK

# The API server waits as long as `Retry-After` says.
_AGAIN_AFTER: Final = 1.0
# So that bodies come in side by side, and not one after the other.
_PIECE: Final = 1 << 16

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Creator:
    """Asks the webhook on that port of loopback, each time for the same body and on a connection of its own."""

    def __init__(self, port: int, trust: ssl.SSLContext, body: bytes) -> None:
        self._port = port
        self._trust = trust
        head = (
            f"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._request = head.encode() + body

    async def many(self, count: int) -> list[tuple[float, int]]:
        """Asks so often at once; of each the seconds until it was answered with 200, and how often it came again."""
        opened = [await self._connected() for _ in range(count)]
        return await asyncio.gather(*map(self._answered, opened))

    async def _connected(self) -> Streams:
        return await asyncio.open_connection(LOOPBACK, self._port, ssl=self._trust, server_hostname=LOOPBACK)

    async def _answered(self, connection: Streams) -> tuple[float, int]:
        loop = asyncio.get_running_loop()
        begun, again = loop.time(), 0
        while (status := await self._asked(connection)) != HTTPStatus.OK:
            assert status == HTTPStatus.SERVICE_UNAVAILABLE
            again += 1
            await asyncio.sleep(_AGAIN_AFTER)
            connection = await self._connected()
        return loop.time() - begun, again

    async def _asked(self, connection: Streams) -> int:
        """The status of the answer, which may come before all has been sent; 0 without one."""
        reader, writer = connection
        sending = asyncio.ensure_future(self._send(writer))
        line = await reader.readline()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.transport.abort()
        return int(line.split()[1]) if line else 0

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        for start in range(0, len(self._request), _PIECE):
            writer.write(self._request[start : start + _PIECE])
            await writer.drain()
            await asyncio.sleep(0)
