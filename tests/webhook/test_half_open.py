"""Clients that are gone without a word: nothing of them is left in time, over real sockets, in simulated time.

Such a client sends nothing more, reads nothing and does not close, as one whose machine has lost its power.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import orjson
import pytest

from tests.ebbtide.exclusion.builders import pod
from tests.webhook.builders import operations_of, review
from tests.webhook.stage import LOOPBACK, Stage, play, until, webhook

# Of a body.
LARGEST = 100_000
# As many as may be held at once with bodies of that size.
COUNT = 8
# For the rest of a request, for what follows its answer, and for the goodbye of TLS.
REQUEST, LINGERING, GOODBYE = 10.0, 5.0, 5.0
KEEP_ALIVE = 20.0
# Requests whose answers fit into no buffer between the two.
MANY = 20_000
# Looked at every quarter of a second.
_LATER = 1.0


def head(length: int) -> bytes:
    fields = f"Host: x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    return f"POST /mutate HTTP/1.1\r\n{fields}".encode()


def request_of(length: int) -> bytes:
    """A review, filled up with spaces to that many bytes."""
    body = orjson.dumps(review(pod()))
    return head(length) + body + b" " * (length - len(body))


def held(stage: Stage) -> int:
    """How many connections the webhook has not closed, by what the kernel says of its port."""
    rows = [row.split() for row in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    established, closed_by_the_client = "01", "08"
    own = [state for _, local, _, state, *_ in rows if int(local.rpartition(":")[2], 16) == stage.port]
    return sum(state in (established, closed_by_the_client) for state in own)


@asynccontextmanager
async def gone(stage: Stage, sent: bytes, *, count: int = COUNT, tls: bool = True) -> AsyncIterator[None]:
    """So many clients that have sent this, and are gone."""
    writers = []
    for _ in range(count):
        opened = stage.connect() if tls else asyncio.open_connection(LOOPBACK, stage.port)
        _, writer = await opened
        writers.append(writer)
        cast("asyncio.Transport", writer.transport).pause_reading()
        writer.write(sent)
    try:
        yield
    finally:
        for writer in writers:
            writer.transport.abort()


async def forgotten(stage: Stage, within: float) -> None:
    """Nothing is left of them in that time, and the next ones are served: small ones, and all large ones at once."""

    async def nothing_left() -> bool:
        return held(stage) == 0 and await stage.metric("webhook_in_flight") == 0

    await until(nothing_left, "nothing is left of them", within=within + _LATER)
    assert operations_of((await stage.call(review(pod()))).response)
    begun = asyncio.get_running_loop().time()
    opened, large = [await stage.connect() for _ in range(COUNT)], request_of(LARGEST)
    for _, writer in opened:
        writer.write(large[:-1000])

    async def half_there() -> bool:
        return await stage.metric("webhook_in_flight") == COUNT

    await until(half_there, "half of each is there")
    for reader, writer in opened:
        writer.write(large[-1000:])
        assert (await reader.readline()).split()[1] == b"200"
        writer.transport.abort()
    assert asyncio.get_running_loop().time() - begun < REQUEST / 2


@pytest.mark.parametrize(
    ("sent", "taken"),
    [
        (b"", 0),
        (head(LARGEST)[:30], 0),
        (request_of(1000)[:-500], COUNT),
        (request_of(LARGEST)[: -LARGEST // 2], COUNT),
    ],
    ids=["no word", "half a head", "half a small body", "half a large body"],
)
def test_who_is_gone_with_half_a_request_is_forgotten(tmp_path: Path, sent: bytes, taken: int) -> None:
    """With what it has sent, its share of the room for large bodies, and its connection."""

    async def story() -> None:
        async with webhook(tmp_path, max_body_size=LARGEST, keep_alive=KEEP_ALIVE) as stage:
            await stage.ready()
            async with gone(stage, sent):

                async def have_come() -> bool:
                    return held(stage) >= COUNT and await stage.metric("webhook_in_flight") == taken

                await until(have_come, "they have come", within=REQUEST / 2)
                await forgotten(stage, REQUEST + LINGERING + GOODBYE if sent else KEEP_ALIVE + GOODBYE)

    play(story)


def test_who_is_gone_before_the_handshake_is_forgotten(tmp_path: Path) -> None:
    """Which has as much time as a request."""

    async def story() -> None:
        async with webhook(tmp_path, max_body_size=LARGEST, keep_alive=KEEP_ALIVE) as stage:
            await stage.ready()
            async with gone(stage, b"\x16\x03\x01", tls=False):
                await forgotten(stage, REQUEST)

    play(story)


@pytest.mark.parametrize("rest", [b"", request_of(LARGEST)[:1000]], ids=["whole", "and a half"])
def test_who_does_not_read_its_answers_is_forgotten(tmp_path: Path, rest: bytes) -> None:
    """However many it has asked for: it is not read from any more when they pile up, and is let go with them."""

    async def story() -> None:
        async with webhook(tmp_path, max_body_size=LARGEST, keep_alive=KEEP_ALIVE) as stage:
            await stage.ready()
            async with gone(stage, request_of(1000) * MANY + rest, count=2):
                await forgotten(stage, KEEP_ALIVE + LINGERING + GOODBYE)
                assert await stage.metric("webhook_requests_total", result="mutated") < 2 * MANY

    play(story)
