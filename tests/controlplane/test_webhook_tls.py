"""TLS of the webhook, looked at from outside as a scanner does, and what it says of itself when it would fail."""

import asyncio
import socket
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from certs.issue import Pair, new_authority, new_leaf
from certs.layout import Holding, body
from certs.spec import Spec, spec_of
from ebbtide.clock import SystemClock
from ebbtide.config.admission import Certs
from ebbtide.kube.resources import MUTATING_WEBHOOKS, SECRETS
from tests.controlplane.program import in_this_process, probe
from tests.controlplane.proxy import FaultProxy, Hold
from tests.controlplane.webhook import registrations
from tests.controlplane.webhook_service import (
    HOST,
    SECRET,
    Replica,
    ask_for,
    replica,
    secret,
    serves,
    settings,
    shown,
)
from tests.controlplane.world import PATIENCE, World

pytestmark = pytest.mark.controlplane

# What the leaf's kind of key allows of what the design allows: ephemeral keys, authenticated encryption.
SUITES = {
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
}
NEWER_SUITES = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
OLD_NEWER_SUITE = "TLS_AES_128_CCM_8_SHA256"
EVERYTHING = "ALL:COMPLEMENTOFALL:@SECLEVEL=0"
UNREACHABLE = {"url": "https://127.0.0.1:1/mutate"}


@pytest.fixture
async def served(tmp_path: Path, cluster: World, proxy: FaultProxy) -> AsyncIterator[Replica]:
    """A webhook that serves what the reconciler has issued."""
    text = settings(cluster)
    async with (
        registrations(cluster, UNREACHABLE),
        in_this_process(tmp_path, cluster, text, proxy=proxy),
        replica(tmp_path / "webhook", cluster, proxy, text) as running,
    ):
        await cluster.wait_until(running.ready, "the webhook is ready")
        yield running


async def openssl(port: int, *flags: str, typed: str = "") -> str:
    """What `openssl s_client` says of a connection with these flags."""
    process = await asyncio.create_subprocess_exec(
        *("openssl", "s_client", "-connect", f"{HOST}:{port}", *flags),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    told, _ = await process.communicate(typed.encode())
    return told.decode(errors="replace")


# --- versions and suites -------------------------------------------------------------------------------------------


async def test_versions(served: Replica, tmp_path: Path) -> None:
    """1.2 and 1.3; nothing older, whatever the client would take."""
    older = [(flag, "-cipher", EVERYTHING) for flag in ("-tls1", "-tls1_1")]
    newer = [("-tls1_2",), ("-tls1_3",)]
    assert [await accepts(served.port, *flags) for flags in older + newer] == [False, False, True, True]
    async with lenient(tmp_path) as port:
        assert [await accepts(port, *flags) for flags in older + newer] == [True, True, True, True]


async def test_suites(served: Replica, tmp_path: Path) -> None:
    """Of everything that this OpenSSL knows, one by one, only what encrypts and authenticates at once, with keys that
    nobody can find out later."""
    assert await accepted(served.port) == SUITES
    async with lenient(tmp_path) as port:
        assert await accepted(port) >= SUITES | {"ECDHE-ECDSA-AES256-SHA", "ECDHE-ECDSA-AES128-CCM"}


@pytest.mark.parametrize(("suite", "taken"), [*((each, True) for each in NEWER_SUITES), (OLD_NEWER_SUITE, False)])
async def test_suites_of_tls_1_3(served: Replica, suite: str, taken: bool) -> None:
    """Those that OpenSSL has switched on by itself."""
    assert await accepts(served.port, "-tls1_3", "-ciphersuites", suite) is taken


async def accepts(port: int, *flags: str) -> bool:
    """Whether there is a handshake with these flags."""
    told = await openssl(port, *flags)
    assert "Cipher is" in told, told
    return "Cipher is (NONE)" not in told


async def accepted(port: int) -> set[str]:
    """The suites of TLS 1.2 with which there is a handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers(EVERYTHING)
    known = {each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"}
    return {name for name in known if await accepts(port, "-tls1_2", "-cipher", f"{name}:@SECLEVEL=0")}


@asynccontextmanager
async def lenient(folder: Path) -> AsyncIterator[int]:
    """The port of a server with a leaf of the same kind that takes everything: what it shows is what clients can."""
    spec, now = spec_of(Certs(), "lenient"), SystemClock().now()
    pair = new_leaf(spec, new_authority(spec, now), now)
    (folder / "lenient.pem").write_bytes(pair.certificate.pem + pair.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    context.set_ciphers(EVERYTHING)
    context.load_cert_chain(folder / "lenient.pem")
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), HOST, 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_http_1_1_is_the_only_protocol(served: Replica) -> None:
    """Offered HTTP/2 as well it takes HTTP/1.1; offered nothing else it does not pretend."""
    assert "ALPN protocol: http/1.1" in await openssl(served.port, "-alpn", "h2,http/1.1")
    assert "ALPN protocol: h2" not in await openssl(served.port, "-alpn", "h2")


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
async def test_what_scanners_complain_of(served: Replica, version: str) -> None:
    """No compression, no renegotiation by the client, no tickets, and a leaf that leads to the CA that is published."""
    told = await openssl(served.port, version, "-comp")
    assert "Compression: NONE" in told
    assert "ticket" not in told.lower()
    if version == "-tls1_2":
        assert "no renegotiation" in await openssl(served.port, version, typed="R\n")


# --- sessions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_no_session_lives_through_a_changed_leaf(
    served: Replica, cluster: World, version: ssl.TLSVersion
) -> None:
    """A client that comes back with its session is shown the new leaf; connections that are open stay so.

    The session is a good one while the leaf is the same, in TLS 1.2; in TLS 1.3 there is none without tickets.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = context.maximum_version = version
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    session, _ = await asyncio.to_thread(asked, served, context, None)
    _, resumed = await asyncio.to_thread(asked, served, context, session)
    assert resumed is (version is ssl.TLSVersion.TLSv1_2)
    old = await shown(served.port)
    _, kept = await asyncio.open_connection(HOST, served.port, ssl=context)
    await ask_for(cluster, "leaf")

    async def changed() -> bool:
        return await shown(served.port) != old and await serves(served, cluster)

    await cluster.wait_until(changed, "the new leaf is served")
    _, resumed = await asyncio.to_thread(asked, served, context, session)
    assert not resumed
    assert not kept.transport.is_closing()
    kept.transport.abort()


def asked(
    replica: Replica, context: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[ssl.SSLSession | None, bool | None]:
    """A connection on which a request was answered, so that the client has got whatever session there is: which one
    that is, and whether it was resumed."""
    with (
        socket.create_connection((HOST, replica.port), timeout=PATIENCE) as plain,
        context.wrap_socket(plain, session=session) as secure,
    ):
        secure.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        while secure.recv(4096):
            pass
        return secure.session, secure.session_reused


# --- readiness -----------------------------------------------------------------------------------------------------


async def test_wh_40_not_ready_for_every_reason_and_alive_all_the_time(
    tmp_path: Path, cluster: World, proxy: FaultProxy
) -> None:
    """Nodes not known, no Secret, a leaf that has expired or is not valid yet, a caBundle that lacks the issuer or
    everything; ready when it is mended, and not any more when the leaf expires under way."""
    text = settings(cluster)
    spec, now = spec_of(Certs(extra_sans=(HOST,)), cluster.namespace), SystemClock().now
    authority, other = new_authority(spec, now()), new_authority(spec, now())
    release = asyncio.Event()
    held = proxy.inject(Hold(before=release), method="GET", path="^/api/v1/nodes")
    async with (
        registrations(cluster, UNREACHABLE) as names,
        replica(tmp_path / "webhook", cluster, proxy, text) as running,
    ):
        not_ready = partial(says, cluster, running)
        await not_ready("state: not read yet: nodes")
        await not_ready(f"Secret {cluster.namespace}/{SECRET} does not exist")
        proxy.withdraw(held)
        release.set()
        day = 86400.0
        await store(cluster, authority, leaf(spec, authority, now() - 2 * day, day))
        await not_ready("the leaf has expired")
        await store(cluster, authority, leaf(spec, authority, now() + day, day))
        await not_ready("the leaf is not valid yet")
        await store(cluster, authority, leaf(spec, authority, now(), day))
        await not_ready("has no caBundle yet")
        await trust(cluster, names, other)
        await not_ready("unable to get local issuer certificate")
        await trust(cluster, names, authority)
        await cluster.wait_until(running.ready, "the webhook is ready")
        await store(cluster, authority, leaf(spec, authority, now(), 5.0))
        await not_ready("has expired")
        async with in_this_process(tmp_path, cluster, text):
            await cluster.wait_until(running.ready, "the leader has mended it")


def leaf(spec: Spec, authority: Pair, issued: float, life: float) -> Pair:
    """A leaf for the names of this world that is valid from `issued` on, for `life` seconds."""
    return new_leaf(replace(spec, leaf_lifetime=life, backdate=0.0), authority, issued)


async def store(cluster: World, authority: Pair, served: Pair) -> None:
    """The Secret as the leader would have written it, had it issued this leaf."""
    found = await secret(cluster)
    holding = Holding(leaf=served, signer=authority, last_leaf_ends=served.certificate.not_after)
    raw = body(SECRET, holding, found)
    if found is None:
        await cluster.client.create(SECRETS, raw, namespace=cluster.namespace)
    else:
        await cluster.client.replace(SECRETS, SECRET, raw, namespace=cluster.namespace)


async def trust(cluster: World, names: list[str], authority: Pair) -> None:
    """Somebody sets the caBundle of each registration."""
    bundle = b64encode(authority.certificate.pem).decode()
    for name in names:
        change = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]
        await cluster.client.patch_json(MUTATING_WEBHOOKS, name, change)


async def says(cluster: World, running: Replica, words: str) -> None:
    """Not ready for that reason, and alive."""

    async def told() -> bool:
        return words in await running.why()

    await cluster.wait_until(told, f"not ready: {words}")
    assert (await probe(running.health, "/healthz"))[0] == 200
