"""Connections and life cycle, over real TLS sockets, in simulated time."""

import asyncio
import socket
import ssl
from base64 import b64encode
from functools import partial
from pathlib import Path

import pytest

from certs.issue import new_authority, new_leaf
from ebbtide.clock import SystemClock
from ebbtide.errors import ClusterAccessError
from ebbtide.kube.client import Client
from ebbtide.kube.resources import MUTATING_WEBHOOKS, NODES
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.faults import Answer, Delay, FreezeWatch, When
from tests.ebbtide.exclusion.builders import pod
from tests.webhook.builders import Raw, operations_of, review
from tests.webhook.stage import LOOPBACK, NAMESPACE, Stage, play, until, webhook

LIST = "/api/v1/nodes"
# The server ends a handshake with an alert, which may be lost in the reset that follows it.
REFUSED = (ssl.SSLError, ConnectionResetError)


async def zones(stage: Stage) -> str:
    """The zones that a pod is kept out of now."""
    reply = await stage.call(review(pod()))
    return str(reply.response["auditAnnotations"]["zones"])


async def half_sent(stage: Stage) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
    """A request of which half the body has been sent, and the other half."""
    reader, writer = await stage.connect()
    body = b" " * 100 + b'{"apiVersion": "admission.k8s.io/v1"'
    head = f"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body[:50])
    await writer.drain()
    return reader, writer, body[50:]


async def status_of(reader: asyncio.StreamReader) -> int:
    return int((await reader.readline()).split()[1])


# --- not ready ----------------------------------------------------------------------------------------------------


def test_wh_33_before_the_first_list_nothing_is_let_through_for_lack_of_knowledge(tmp_path: Path) -> None:
    """The API server is asked to come again; when the nodes are known the pod is patched."""

    def slow(cluster: Cluster) -> None:
        cluster.faults.inject(Delay(before=30), When(path=LIST, times=1))

    async def story() -> None:
        async with webhook(tmp_path, before=slow) as stage:
            await until(lambda: reachable(stage), "the port is served")
            reply = await stage.call(review(pod()))
            assert reply.sends_away
            assert (await stage.probe("/readyz"))[0] == 503
            assert await stage.metric("webhook_errors_total", reason="not-synced") >= 1
            await stage.ready()
            assert await zones(stage) == "a"

    play(story)


async def reachable(stage: Stage) -> bool:
    try:
        await stage.call(review(pod()))
    except OSError:
        return False
    return True


def test_wh_34_half_sent_requests_count_and_one_too_many_is_sent_away(tmp_path: Path) -> None:
    """It succeeds when the others are through."""

    async def story() -> None:
        async with webhook(tmp_path, max_in_flight=2) as stage:
            await stage.ready()
            open_requests = [await half_sent(stage) for _ in range(2)]

            async def counted() -> bool:
                return await stage.metric("webhook_in_flight") == 2

            await until(counted, "both are under way")
            assert (await stage.call(review(pod()))).sends_away
            for reader, writer, rest in open_requests:
                writer.write(rest)
                assert await status_of(reader) == 400
                writer.close()
            assert await zones(stage) == "a"
            assert await stage.metric("webhook_in_flight") == 0

    play(story)


def test_wh_35_the_last_state_is_kept_while_the_api_server_is_away(tmp_path: Path) -> None:
    """For ten minutes and more: pods are kept out, the age rises, the webhook stays ready and alive."""

    async def story() -> None:
        async with webhook(tmp_path) as stage:
            await stage.ready()
            stage.cluster.wire.refusing = True
            stage.cluster.wire.reset()
            await asyncio.sleep(600)
            assert await zones(stage) == "a"
            assert await stage.metric("webhook_state_age_seconds") > 590
            assert (await stage.probe("/healthz"))[0] == 200
            assert (await stage.probe("/readyz"))[0] == 200

    play(story)


def test_what_it_asks_the_cluster_and_how_old_the_answers_are_is_told(tmp_path: Path) -> None:
    """Of everything that it follows."""

    async def story() -> None:
        async with webhook(tmp_path) as stage:
            await stage.ready()
            stage.cluster.wire.refusing = True
            stage.cluster.wire.reset()
            await asyncio.sleep(100)
            for kind in ("nodes", "namespaces", "persistentvolumes", "mutatingwebhookconfigurations"):
                assert await stage.metric("ebbtide_store_age_seconds", kind=kind) > 99
            assert await stage.metric("ebbtide_api_requests_total", verb="watch", resource="nodes", code="200") >= 1
            assert await stage.metric("ebbtide_watch_restarts_total", kind="nodes") >= 1

    play(story)


def test_wh_36_a_watch_that_says_nothing_is_not_believed_for_ever(tmp_path: Path) -> None:
    """Within five minutes a node that went meanwhile is gone from the state."""

    def silent(cluster: Cluster) -> None:
        cluster.faults.inject(FreezeWatch(after_events=5), When(method="WATCH", path=LIST, times=1))

    async def story() -> None:
        async with webhook(tmp_path, before=silent) as stage:
            await stage.ready()
            assert await zones(stage) == "a"
            await delete_node(stage, "n0")

            async def open_again() -> bool:
                return await zones(stage) == ""

            await until(open_again, "the node is gone from the state", within=300)

    play(story)


async def delete_node(stage: Stage, name: str) -> None:
    async with Client(stage.cluster.access(), field_manager="test", user_agent="test") as client:
        await client.delete(NODES, name)


# --- connections --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("idle", [95, 170])
def test_wh_37_an_idle_connection_is_kept_longer_than_the_api_server_does(tmp_path: Path, idle: int) -> None:
    """The next request on it is answered, on the very same connection."""

    async def story() -> None:
        async with webhook(tmp_path) as stage:
            await stage.ready()
            await stage.call(review(pod()))
            (kept,) = stage.connections()
            await asyncio.sleep(idle)
            assert await zones(stage) == "a"
            assert stage.connections() == [kept]

    play(story)


def test_wh_39_slow_requests_are_ended_and_disturb_nobody(tmp_path: Path) -> None:
    """A hundred connections that send a byte a second, some in the head and some in the body."""

    async def story() -> None:
        async with webhook(tmp_path) as stage:
            await stage.ready()
            started = asyncio.get_running_loop().time()
            *ends, _ = await asyncio.gather(
                *(_dribble(stage, in_body=number % 2 == 0) for number in range(100)), _others(stage)
            )
            assert all(end - started <= 10.5 for end, _ in ends)
            assert all(said.startswith(b"HTTP/1.1 408 ") for _, said in ends)
            assert await stage.metric("webhook_in_flight") == 0
            assert await stage.metric("webhook_errors_total", reason="too-slow") == 50

    play(story)


async def _dribble(stage: Stage, *, in_body: bool) -> tuple[float, bytes]:
    """Sends a byte each second until the server ends the connection; the loop's time of that, and what it said."""
    reader, writer = await stage.connect()
    head = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    writer.write(head if in_body else head[:10])
    ended = asyncio.ensure_future(reader.read())
    while not ended.done():
        writer.write(b" " if in_body else b"x")
        await asyncio.wait([ended], timeout=1.0)
    writer.close()
    return asyncio.get_running_loop().time(), await ended


async def _others(stage: Stage) -> tuple[float, bytes]:
    for _ in range(20):
        assert await zones(stage) == "a"
        await asyncio.sleep(0.5)
    return 0.0, b""


def test_connections_without_a_word_are_not_kept_for_ever(tmp_path: Path) -> None:
    """As long as an idle one: a client may open one ahead of its need."""

    async def story() -> None:
        async with webhook(tmp_path) as stage:
            await stage.ready()
            reader, writer = await stage.connect()
            started = asyncio.get_running_loop().time()
            assert await reader.read() == b""
            assert 95 < asyncio.get_running_loop().time() - started <= 181
            writer.close()

    play(story)


# --- the end ------------------------------------------------------------------------------------------------------


def test_wh_38_no_request_is_lost_when_a_replica_stops(tmp_path: Path) -> None:
    """Not ready at once; for the drain answered in full, each ending its connection; then sent away; exit in 20 s."""

    async def story() -> None:
        async with webhook(tmp_path) as stage:
            await stage.ready()
            idle_reader, idle_writer = await stage.connect()
            begun = asyncio.get_running_loop().time()
            stage.stopping.set()
            await asyncio.sleep(0.1)
            status, why = await stage.probe("/readyz")
            assert (status, "stopping: draining" in why) == (503, True)
            assert (await stage.probe("/healthz"))[0] == 200
            while asyncio.get_running_loop().time() < begun + 14.5:
                reply = await stage.call(review(pod()))
                assert operations_of(reply.response)
                assert reply.headers["Connection"] == "close"
                await asyncio.sleep(0.5)
            await asyncio.sleep(begun + 15.5 - asyncio.get_running_loop().time())
            idle_writer.write(
                b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
            )
            assert await status_of(idle_reader) == 503
            assert b"Retry-After: 1" in await idle_reader.read()
            idle_writer.close()
            await stage.ended
            assert asyncio.get_running_loop().time() - begun <= 20

    play(story)


def test_what_is_under_way_at_the_end_is_finished(tmp_path: Path) -> None:
    """A body whose second half comes after the drain has its answer."""

    async def story() -> None:
        async with webhook(tmp_path, drain=1.0) as stage:
            await stage.ready()
            stage.stopping.set()
            await asyncio.sleep(0.9)
            reader, writer, rest = await half_sent(stage)
            await asyncio.sleep(0.6)
            writer.write(rest)
            assert await status_of(reader) == 400
            writer.close()
            await stage.ended

    play(story)


@pytest.mark.parametrize("lacks", ["the cluster", "a certificate"])
def test_one_that_was_never_able_to_answer_ends_at_once(tmp_path: Path, lacks: str) -> None:
    """Nobody has been sent to it."""

    def away(cluster: Cluster) -> None:
        cluster.wire.refusing = lacks == "the cluster"

    async def story() -> None:
        async with webhook(tmp_path, before=away, issued=0.0 if lacks == "the cluster" else None) as stage:
            await not_ready(stage, "cluster:" if lacks == "the cluster" else "certificate:")
            await asyncio.sleep(30)
            begun = asyncio.get_running_loop().time()
            stage.stopping.set()
            await stage.ended
            assert asyncio.get_running_loop().time() - begun < 1

    play(story)


# --- readiness ----------------------------------------------------------------------------------------------------


def configuration(bundle: bytes, name: str = "ebbtide-pods") -> Raw:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name, "labels": {"ebbtide/ca-injection": "enabled"}},
        "webhooks": [
            {
                "name": "pods.ebbtide.example",
                "clientConfig": {
                    "service": {"name": "ebbtide-webhook", "namespace": NAMESPACE, "path": "/mutate"},
                    "caBundle": b64encode(bundle).decode(),
                },
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


async def not_ready(stage: Stage, words: str) -> None:
    async def told() -> bool:
        status, why = await stage.probe("/readyz")
        return status == 503 and words in why

    await until(told, words)
    assert (await stage.probe("/healthz"))[0] == 200


def test_wh_40_a_ca_bundle_that_does_not_trust_us_is_no_readiness(tmp_path: Path) -> None:
    """Seen in the live configuration, told in OpenSSL's words; ready again when the bundle is mended."""

    async def story() -> None:
        async with webhook(tmp_path) as stage:
            await stage.ready()
            other = new_authority(stage.authority.spec, 1_790_000_000.0)
            (created,) = stage.cluster.create(configuration(other.certificate.pem))
            await not_ready(stage, "unable to get local issuer certificate")
            await replace(stage, created, b"")
            await not_ready(stage, "ebbtide-pods has no caBundle yet")
            await replace(stage, created, "größer".encode())
            await not_ready(stage, "ebbtide-pods: the caBundle cannot be read")
            await replace(stage, created, "# größer\n".encode() + stage.authority.ca.certificate.pem)
            await stage.ready()
            await replace(stage, created, other.certificate.pem + stage.authority.ca.certificate.pem)
            await stage.ready()

    play(story)


async def replace(stage: Stage, created: Raw, bundle: bytes) -> None:
    name = created["metadata"]["name"]
    async with Client(stage.cluster.access(), field_manager="test", user_agent="test") as client:
        body = {"webhooks": configuration(bundle)["webhooks"]}
        await client.patch_merge(MUTATING_WEBHOOKS, name, body)


@pytest.mark.parametrize(("issued", "words"), [(-10_000_000.0, "expired"), (10_000_000.0, "not valid yet")])
def test_wh_40_a_leaf_outside_its_dates_is_no_readiness(tmp_path: Path, issued: float, words: str) -> None:
    """The process stays alive (WH-41), and is ready once a good one lies there."""

    async def story() -> None:
        def before(_: Cluster) -> None:
            return None

        async with webhook(tmp_path, issued=issued, before=before) as stage:
            await not_ready(stage, words)
            stage.authority.issue()
            await stage.ready()

    play(story)


def test_wh_49_half_a_new_pair_changes_nothing_and_the_whole_is_served(tmp_path: Path) -> None:
    """The old leaf stays with a wrong key beside the new one; open connections outlive the change."""

    async def story() -> None:
        async with webhook(tmp_path) as stage:
            await stage.ready()
            assert await zones(stage) == "a"
            kept = stage.connections()
            old = await leaf(stage)
            pair = new_leaf(stage.authority.spec, stage.authority.ca, SystemClock().now())
            (tmp_path / "tls.crt").write_bytes(pair.certificate.pem)
            await asyncio.sleep(15)
            assert await leaf(stage) == old
            assert await stage.metric("certs_reload_errors_total") == 1
            (tmp_path / "tls.key").write_bytes(pair.key_pem)

            await until(partial(changed, stage, old), "the new leaf is served", within=15)
            assert await zones(stage) == "a"
            assert stage.connections() == kept

    play(story)


async def changed(stage: Stage, old: bytes) -> bool:
    return await leaf(stage) != old


async def leaf(stage: Stage) -> bytes:
    """What a new handshake is shown."""
    _, writer = await stage.connect()
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    assert isinstance(found, bytes)
    return found


# --- rights -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "words"),
    [(Answer(403, "Forbidden"), "list nodes"), (Answer(401, "Unauthorized"), "does not accept the credentials")],
)
def test_wh_42_wrong_rights_end_the_program(tmp_path: Path, fault: Answer, words: str) -> None:
    """With verb and resource in the message, and exit code 3."""

    def refuse(cluster: Cluster) -> None:
        cluster.faults.inject(fault)

    async def story() -> None:
        async with webhook(tmp_path, before=refuse) as stage:
            with pytest.raises(ClusterAccessError, match=words) as caught:
                await stage.ended
            assert caught.value.exit_code == 3

    play(story)


def test_wh_42_an_unreachable_api_server_is_waited_for(tmp_path: Path) -> None:
    """Not ready, alive; ready when it is there."""

    def away(cluster: Cluster) -> None:
        cluster.wire.refusing = True

    async def story() -> None:
        async with webhook(tmp_path, before=away) as stage:
            await not_ready(stage, "cluster:")
            await asyncio.sleep(60)
            stage.cluster.wire.refusing = False
            await stage.ready()

    play(story)


# --- TLS ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ciphers", "accepted"),
    [
        ("ECDHE-ECDSA-AES128-GCM-SHA256", True),
        ("ECDHE-ECDSA-AES256-GCM-SHA384", True),
        ("ECDHE-ECDSA-CHACHA20-POLY1305", True),
        ("ECDHE-ECDSA-AES128-SHA256", False),
        ("ECDHE-ECDSA-AES256-SHA", False),
    ],
)
def test_tls_1_2_is_spoken_with_authenticated_encryption_only(tmp_path: Path, ciphers: str, accepted: bool) -> None:
    """Whatever the client would rather have."""

    async def story() -> None:
        async with webhook(tmp_path) as stage:
            await stage.ready()
            context = stage.authority.client
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            context.set_ciphers(ciphers + ":@SECLEVEL=0")
            if accepted:
                _, writer = await asyncio.open_connection(LOOPBACK, stage.port, ssl=context)
                writer.close()
            else:
                with pytest.raises(REFUSED):
                    await asyncio.open_connection(LOOPBACK, stage.port, ssl=context)

    play(story)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_older_versions_are_not_spoken(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """TLS 1.2 is the least."""

    async def story() -> None:
        async with webhook(tmp_path) as stage:
            await stage.ready()
            context = stage.authority.client
            context.minimum_version = version
            context.maximum_version = version
            context.set_ciphers("ALL:@SECLEVEL=0")
            with pytest.raises(REFUSED):
                await asyncio.open_connection(LOOPBACK, stage.port, ssl=context)

    play(story)


def test_http_1_1_is_chosen_and_no_session_outlives_its_pair(tmp_path: Path) -> None:
    """Neither by ticket nor, in TLS 1.2, by identifier."""

    async def story() -> None:
        async with webhook(tmp_path) as stage:
            await stage.ready()
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                context = stage.authority.client
                context.maximum_version = version
                context.set_alpn_protocols(["h2", "http/1.1"])
                chosen, session, _ = await _blocking(stage, context, None)
                assert chosen == "http/1.1"
                old = await leaf(stage)
                stage.authority.issue()
                await until(partial(changed, stage, old), "the new leaf is served")
                _, _, reused = await _blocking(stage, context, session)
                assert not reused

    play(story)


Session = ssl.SSLSession | None


async def _blocking(stage: Stage, context: ssl.SSLContext, session: Session) -> tuple[str | None, Session, bool | None]:
    """Protocol, session and whether it was resumed; only plain sockets can ask for a session."""

    def handshake() -> tuple[str | None, Session, bool | None]:
        with (
            socket.create_connection((LOOPBACK, stage.port)) as plain,
            context.wrap_socket(plain, server_hostname=LOOPBACK, session=session) as secured,
        ):
            secured.sendall(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
            secured.recv(4096)
            return secured.selected_alpn_protocol(), secured.session, secured.session_reused

    return await asyncio.to_thread(handshake)
