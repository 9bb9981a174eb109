"""Sends a watch over HTTP, one JSON document per line, with what faults do to it on the way."""

import asyncio
from collections.abc import Iterable
from typing import Final

from aiohttp import web

from ebbtide.sim.faults import CutWatch, Effect, Faults, FreezeWatch, Stream
from ebbtide.sim.watches import Watch

_BOOKMARK: Final = b'{"type":"BOOKMARK"'


async def send(
    request: web.BaseRequest, watch: Watch, seconds: float, faults: Faults, effects: list[Effect]
) -> web.StreamResponse:
    """The whole stream, until its time is over or somebody breaks it."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    transport, stream = request.transport, faults.stream(effects)
    assert transport is not None
    faults.opened(request.path, transport.abort)
    try:
        if stream is not None and await _ended(transport, stream):
            return response
        async for lines in watch.batches(seconds):
            if stream is None:
                await response.write(b"".join(lines))
            elif await _tampered(response, transport, stream, lines):
                break
    finally:
        faults.closed(transport.abort)
    return response


async def _tampered(
    response: web.StreamResponse, transport: asyncio.Transport, stream: Stream, lines: Iterable[bytes]
) -> bool:
    """Writes what is left of the lines; True when the stream is to end as if its time were over."""
    for line in lines:
        copies = 1 if line.startswith(_BOOKMARK) else stream.copies()
        if copies:
            await response.write(line * copies)
        if await _ended(transport, stream):
            return True
    return False


async def _ended(transport: asyncio.Transport, stream: Stream) -> bool:
    """Whether the stream has had its events; one that is to break does so here, a frozen one never comes back."""
    end = stream.end
    if isinstance(end, FreezeWatch):
        await asyncio.Event().wait()
    if isinstance(end, CutWatch) and not end.cleanly:
        transport.abort()
        raise ConnectionResetError("cut on order")
    return end is not None
