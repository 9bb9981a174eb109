"""One request per connection, each way: what is sent, what is understood, and what is not put up with."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from ebbtide.http1 import Asked, HttpError, Request, Response, exchange, serve_one
from ebbtide.sim.time import simulate

Server = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(server: Server) -> AsyncIterator[str]:
    """A server of raw bytes; gives its URL."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await server(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"


def says(*parts: bytes) -> Server:
    """Reads a request's head, then sends these parts one after the other, and ends."""

    async def server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)

    return server


async def ask(url: str, path: str = "/x", largest: int = 1000) -> Response:
    return await exchange(Request("GET", url + path), within=5.0, largest=largest)


ANSWERS = {
    "with a length": ([b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"], b"hello"),
    "more than the length": ([b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"], b"hello"),
    "in chunks": (
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n", b"3\r\nllo\r\n0\r\n\r\n"],
        b"hello",
    ),
    "until the end": ([b"HTTP/1.0 200 OK\r\n\r\nhel", b"lo"], b"hello"),
    "byte by byte": ([bytes([each]) for each in b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"], b"hi"),
    "no body": ([b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"], b""),
}


@pytest.mark.parametrize(("parts", "body"), ANSWERS.values(), ids=ANSWERS.keys())
async def test_an_answer_is_read_whole(parts: list[bytes], body: bytes) -> None:
    async with serving(says(*parts)) as url:
        assert (await ask(url)).body == body


BROKEN = {
    "nothing": ([], "ended before the answer"),
    "half a head": ([b"HTTP/1.1 200 OK\r\nConte"], "ended before the answer"),
    "half a body": ([b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"], "ended before the answer"),
    "half a chunk": ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"], "ended before the answer"),
    "no HTTP": ([b"SSH-2.0-OpenSSH_9.6\r\n"], "no HTTP"),
    "TLS": ([b"\x15\x03\x01\x00\x02\x02\x16"], "no HTTP"),
    "too long": ([b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n", b"x" * 1001], "longer body"),
    "another protocol": ([b"HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"], "another protocol"),
}


@pytest.mark.parametrize(("parts", "words"), BROKEN.values(), ids=BROKEN.keys())
async def test_what_is_no_answer_is_said_in_words(parts: list[bytes], words: str) -> None:
    async with serving(says(*parts)) as url:
        with pytest.raises(HttpError, match=words):
            await ask(url)


async def test_endless_headers_and_endless_bodies_end_here() -> None:
    """Whatever the other side sends, no more than a bound of it is kept."""

    async def headers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"X-More: of this\r\n" * 100)
            await writer.drain()

    async def body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 1000)
            await writer.drain()

    for server, words in ((headers, "endless headers|no HTTP"), (body, "longer body")):
        async with serving(server) as url:
            with pytest.raises(HttpError, match=words):
                await ask(url)


TRAILERS = b"X-More: of this\r\n" * 100


async def test_endless_trailers_end_here_too() -> None:
    """After the head as in it, what brings nothing of the body is counted; an answer with a few is read."""

    async def trailers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n")
        for _ in range(1000):
            writer.write(TRAILERS)
            await writer.drain()
        writer.write(b"\r\n")

    async with serving(trailers) as url:
        with pytest.raises(HttpError, match="endless headers"):
            await ask(url)
    few = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-One: 1\r\n\r\n"
    async with serving(says(few)) as url:
        assert (await ask(url)).body == b"hi"


async def test_a_long_body_in_small_chunks_is_no_endless_head() -> None:
    """However much of it is not body: each piece brings some."""
    chunks = [b"1\r\nx\r\n" * 500] * 60
    async with serving(says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *chunks, b"0\r\n\r\n")) as url:
        assert (await ask(url, largest=50_000)).body == b"x" * 30_000


async def test_a_request_says_what_it_has_to() -> None:
    """Host, length, and that the connection ends with the answer."""
    seen: list[bytes] = []

    async def server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        seen.append(await reader.readexactly(4))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    async with serving(server) as url:
        request = Request("PUT", url + "/a/b", {"X-One": "1"}, {"q": "a b"}, b"body")
        answer = await exchange(request, within=5.0, largest=10)
    head = seen[0].decode()
    assert answer.status == 204
    assert head.startswith("PUT /a/b?q=a+b HTTP/1.1\r\n")
    for field in ("Host: 127.0.0.1", "X-One: 1", "Content-Length: 4", "Connection: close"):
        assert field in head


async def test_a_line_break_in_a_header_is_not_sent() -> None:
    """It would begin another header."""

    async def never(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0)

    async with serving(never) as url:
        with pytest.raises(HttpError, match="line break"):
            await exchange(Request("GET", url, {"X": "a\r\nHost: evil"}), within=5.0, largest=10)


def test_a_trickle_is_not_waited_for() -> None:
    """The time limit is for the whole answer, not for each piece of it."""

    async def trickle() -> None:
        async def server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while not writer.is_closing():
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(1)

        async with serving(server) as url:
            with pytest.raises(HttpError, match="within 5 s"):
                await ask(url)
            await asyncio.sleep(5)  # the server finds out that nobody listens any more

    simulate(trickle())


# --- the other way ------------------------------------------------------------------------------------------------


@asynccontextmanager
async def answering(within: float = 5.0) -> AsyncIterator[tuple[int, list[Asked]]]:
    """A server of ours; gives its port and what it was asked."""
    seen: list[Asked] = []

    async def answer(asked: Asked) -> Response:
        seen.append(asked)
        return Response(200, {"X-Own": "1"}, b"fine\n")

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve_one(reader, writer, answer, within=within)

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1], seen


async def send(port: int, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_a_request_is_answered_and_the_connection_closed() -> None:
    async with answering() as (port, seen):
        answer = await send(port, b"GET /healthz?verbose HTTP/1.1\r\nHost: x\r\nAccept: text/plain\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200")
        assert answer.endswith(b"\r\n\r\nfine\n")
        assert seen == [Asked("GET", "/healthz", {"host": "x", "accept": "text/plain"})]


@pytest.mark.parametrize("data", [b"nonsense\r\n\r\n", b"\x16\x03\x01\x02", b"GET / HTTP/1.1\r\n: x\r\n\r\n"])
async def test_what_is_no_request_gets_a_400(data: bytes) -> None:
    async with answering() as (port, seen):
        assert (await send(port, data)).startswith(b"HTTP/1.1 400")
        assert seen == []


@pytest.mark.parametrize(
    "begin",
    [b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"],
    ids=["head", "trailers"],
)
async def test_a_request_that_goes_on_and_on_is_refused(begin: bytes) -> None:
    """A few hundred kilobytes of it at most are taken, of the megabytes that its client has."""
    async with answering() as (port, seen):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begin)
        with suppress(ConnectionError):
            for _ in range(20_000):
                writer.write(TRAILERS)
                await writer.drain()
            writer.write(b"\r\n")
            assert not (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.transport.abort()
        assert seen == []


def test_a_client_that_says_nothing_is_not_kept() -> None:
    """Nor does it hold up anybody else."""

    async def silent() -> None:
        async with answering() as (port, seen):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /hea")
            other = await send(port, b"GET / HTTP/1.1\r\n\r\n")
            assert other.startswith(b"HTTP/1.1 200")
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
            assert len(seen) == 1

    simulate(silent())
