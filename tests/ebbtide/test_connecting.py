"""What people are told of a connection that could not be had: where to, and what was wrong; the same by every way."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest

from ebbtide.connecting import words_of
from ebbtide.http1 import HttpError, Request, exchange
from ebbtide.kube.trust import server_trust
from tests.ebbtide.kube.pki import Authority

Speaking = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Fetching = Callable[[str, ssl.SSLContext], Awaitable[str]]


async def by_aiohttp(url: str, trust: ssl.SSLContext) -> str:
    """The words for what goes wrong there."""
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError) as failed:
            async with session.get(url, ssl=trust):
                pass
    return words_of(failed.value)


async def by_http1(url: str, trust: ssl.SSLContext) -> str:
    """The same by the other client."""
    with pytest.raises(HttpError) as failed:
        await exchange(Request("GET", url, context=trust), within=30.0, largest=100)
    return str(failed.value)


both = pytest.mark.parametrize("fetch", [by_aiohttp, by_http1])


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@asynccontextmanager
async def server(speaking: Speaking, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Host and port of one that has its say and ends the connection."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, ssl.SSLError):
            await speaking(reader, writer)
        writer.transport.abort()

    async with AsyncExitStack() as stack:
        listening = await stack.enter_async_context(await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls))
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"


async def nothing(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    pass


async def something_else(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
    await writer.drain()


def pair(authority: Authority, host: str = "127.0.0.1") -> ssl.SSLContext:
    """A server with a certificate of that authority, for that host."""
    issued = authority.issue("server", host=host)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(issued.certificate, issued.key)
    return context


@both
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_port_where_nobody_listens(
    fetch: Fetching, scheme: str, authority: Authority, unused_tcp_port: int
) -> None:
    url = f"{scheme}://127.0.0.1:{unused_tcp_port}/"
    assert await fetch(url, server_trust(str(authority.file))) == f"127.0.0.1:{unused_tcp_port} refuses connections"


@both
async def test_a_host_of_several_addresses_is_said_by_its_name(
    fetch: Fetching, authority: Authority, unused_tcp_port: int
) -> None:
    said = await fetch(f"http://localhost:{unused_tcp_port}/", server_trust(str(authority.file)))
    assert said == f"localhost:{unused_tcp_port} refuses connections"


@both
async def test_an_address_of_the_sixth_version_keeps_its_brackets(
    fetch: Fetching, authority: Authority, unused_tcp_port: int
) -> None:
    assert (await fetch(f"http://[::1]:{unused_tcp_port}/", server_trust(str(authority.file)))).startswith(
        ("[::1]:", "there is no way to [::1]:")
    )


@both
async def test_a_name_that_nobody_knows(fetch: Fetching, authority: Authority) -> None:
    said = await fetch("https://nowhere.invalid:6443/", server_trust(str(authority.file)))
    assert said.startswith("the name nowhere.invalid cannot be resolved: ")


@both
async def test_a_server_of_another_authority(fetch: Fetching, authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "stranger")
    async with server(nothing, pair(authority)) as peer:
        said = await fetch(f"https://{peer}/", server_trust(str(stranger.file)))
    assert said.startswith(f"the certificate of {peer} is not trusted: ")
    assert "issuer certificate" in said
    assert "ssl" not in said.lower()


@both
async def test_a_certificate_for_another_name(fetch: Fetching, authority: Authority) -> None:
    async with server(nothing, pair(authority, host="kube.example")) as peer:
        said = await fetch(f"https://{peer}/", server_trust(str(authority.file)))
    assert said.startswith(f"the certificate of {peer} is not trusted: ")
    assert said.endswith("certificate is not valid for '127.0.0.1'")


@both
async def test_a_server_that_speaks_no_tls(fetch: Fetching, authority: Authority) -> None:
    async with server(something_else) as peer:
        said = await fetch(f"https://{peer}/", server_trust(str(authority.file)))
    assert said.startswith(f"no TLS with {peer}: ")
    assert "_ssl.c" not in said


async def test_a_server_that_speaks_no_http(authority: Authority) -> None:
    """In one line, whatever it says; the other client has words of its own for that."""
    async with server(something_else) as peer:
        said = await by_aiohttp(f"http://{peer}/", server_trust(str(authority.file)))
    assert said == f"{peer} does not speak HTTP: Bad status line"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionResetError(104, "Connection reset by peer"), "a:1 broke the connection off"),
        (BrokenPipeError(32, "Broken pipe"), "a:1 broke the connection off"),
        (OSError(113, "No route to host"), "there is no way to a:1"),
        (OSError(101, "Network is unreachable"), "there is no way to a:1"),
        (TimeoutError(110, "Connect call failed ('10.0.0.1', 1)"), "no answer from a:1 in time"),
        (TimeoutError(), "no answer from a:1 in time"),
        (OSError(24, "Too many open files"), "Too many open files"),
        (FileNotFoundError(2, "No such file", "/x/plugin"), "[Errno 2] No such file: '/x/plugin'"),
        (OSError("Multiple exceptions: one, two"), "Multiple exceptions: one, two"),
        (aiohttp.ServerDisconnectedError(), "Server disconnected"),
        (KeyError(), "KeyError"),
    ],
)
def test_what_the_system_says_becomes_words(error: Exception, words: str) -> None:
    """For errors that do not know whom they are about."""
    assert words_of(error, "a:1") == words


def test_without_any_address_there_is_still_a_sentence() -> None:
    assert words_of(ConnectionRefusedError(111, "x")) == "the other end refuses connections"
