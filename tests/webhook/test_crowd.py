"""More connections than are kept, over real TLS sockets, in simulated time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.ebbtide.exclusion.builders import pod
from tests.webhook.builders import operations_of, review
from tests.webhook.large import Streams
from tests.webhook.stage import LOOPBACK, Stage, play, webhook

# With `max_in_flight=1`.
MOST = 257
HEAD = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"


@asynccontextmanager
async def crowded(folder: Path, *, tls: bool = True, sent: bytes = b"") -> AsyncIterator[tuple[Stage, list[Streams]]]:
    """A webhook with as many connections as it keeps, by whom `sent` was sent; the oldest is the first."""
    async with webhook(folder, max_in_flight=1) as stage, AsyncExitStack() as stack:
        await stage.ready()
        opened: list[Streams] = []
        while len(opened) < MOST:
            reader, writer = await (stage.connect() if tls else asyncio.open_connection(LOOPBACK, stage.port))
            stack.callback(writer.transport.abort)
            writer.write(sent)
            opened.append((reader, writer))
            await asyncio.sleep(0.01)
        yield stage, opened


async def is_served(stage: Stage) -> None:
    assert operations_of((await stage.call(review(pod()))).response)


async def ended(opened: list[Streams]) -> list[int]:
    """Which of them the webhook has ended."""
    await asyncio.sleep(0)
    return [number for number, (reader, _) in enumerate(opened) if reader.at_eof() or reader.exception() is not None]


def test_for_one_more_the_one_that_has_been_idle_longest_ends(tmp_path: Path) -> None:
    """And no other; those that are left are served."""

    async def story() -> None:
        async with crowded(tmp_path) as (stage, opened):
            await is_served(stage)
            assert await ended(opened) == [0]
            reader, writer = opened[1]
            writer.write(HEAD + b"{}")
            assert (await reader.readline()).split()[1] == b"400"

    play(story)


def test_who_begins_a_request_or_a_handshake_and_does_not_go_on_keeps_nobody_out(tmp_path: Path) -> None:
    async def story() -> None:
        for tls, sent in ((True, HEAD[:20]), (False, b"")):
            async with crowded(tmp_path, tls=tls, sent=sent) as (stage, opened):
                begun = asyncio.get_running_loop().time()
                await is_served(stage)
                assert asyncio.get_running_loop().time() - begun < 5
                assert 0 in await ended(opened)

    play(story)
