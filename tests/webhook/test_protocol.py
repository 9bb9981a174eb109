"""What the API server is told, over real sockets."""

import io
import json
import logging
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import orjson
import pytest
import structlog

from ebbtide import vocabulary
from ebbtide.exclusion.decide import LONGEST_WARNING
from ebbtide.service import log
from tests.ebbtide.exclusion.builders import G, Raw, Z, pod
from tests.webhook.builders import operations_of, patched, review
from tests.webhook.stage import LOOPBACK, Stage, play, webhook

MIB = 1 << 20
MANY_ZONES = [f"{number:02}{'z' * 58}" for number in range(20)]


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """What is logged, as JSON lines; the process's logging is put back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    output = io.StringIO()
    log.configure("info", "json", output)
    yield output
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(False)
    structlog.reset_defaults()


def decisions(output: io.StringIO) -> list[Raw]:
    return [line for line in map(json.loads, output.getvalue().splitlines()) if line["event"] == "admission"]


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_wh_28_the_answer_names_what_was_asked(tmp_path: Path, version: str) -> None:
    """uid, apiVersion and kind; patch and patchType together, or neither."""

    async def story() -> None:
        async with webhook(tmp_path) as stage:
            await stage.ready()
            asked = {**review(pod()), "apiVersion": f"admission.k8s.io/{version}"}
            reply = await stage.call(asked)
            whole = orjson.loads(reply.body)
            assert (whole["apiVersion"], whole["kind"]) == (asked["apiVersion"], "AdmissionReview")
            assert (reply.response["uid"], reply.response["allowed"]) == (asked["request"]["uid"], True)
            assert patched(pod(), operations_of(reply.response))["metadata"]["annotations"] == {
                vocabulary.BLOCKED_ZONES_ANNOTATION: "a"
            }
            left = await stage.call(review(pod(labels={})))
            assert set(left.response) == {"uid", "allowed", "auditAnnotations"}

    play(story)


STATEFUL_SET = {
    "kind": "StatefulSet",
    "metadata": {"labels": {vocabulary.POOL_LABEL: "shared"}},
    "spec": {"template": {"metadata": {}, "spec": {}}},
}


def test_wh_29_null_objects(tmp_path: Path) -> None:
    """An object that is not there is not changed, and nobody can tell what a template was before."""

    async def story() -> None:
        async with webhook(tmp_path) as stage:
            await stage.ready()
            assert operations_of((await stage.call(review(pod(), oldObject=None))).response)
            assert not operations_of((await stage.call(review(None))).response)
            update = review(STATEFUL_SET, operation="UPDATE")
            assert not operations_of((await stage.call(update)).response)

    play(story)


LEFT_ALONE: list[tuple[str, Raw]] = [
    ("other-operation", review(pod(), pod())),
    ("other-operation", review(None, pod(), operation="DELETE")),
    *(("subresource", review(pod(), subResource=name)) for name in ("status", "eviction", "binding")),
    ("subresource", review(pod(), pod(), subResource="ephemeralcontainers")),
    ("other-kind", review(pod(), kind={"group": "apps", "version": "v1", "kind": "Deployment"})),
    ("other-kind", review(pod(), kind={"group": "example.com", "version": "v1", "kind": "Pod"})),
    ("bound", review(pod(nodeName="n1"))),
    ("not-opted-in", review(pod(labels={}))),
    ("template-unchanged", review({**STATEFUL_SET, "status": {}}, STATEFUL_SET)),
]


def test_wh_18_requests_that_pass_untouched_are_counted(tmp_path: Path) -> None:
    """No patch, and `webhook_skipped_total` goes up by one under the reason."""

    async def story() -> None:
        async with webhook(tmp_path) as stage:
            await stage.ready()
            for reason, asked in LEFT_ALONE:
                before = await stage.metric("webhook_skipped_total", reason=reason)
                assert not operations_of((await stage.call(asked)).response)
                assert await stage.metric("webhook_skipped_total", reason=reason) == before + 1

    play(story)


def test_wh_30_a_dry_run_gets_the_same_patch_and_leaves_no_trace(tmp_path: Path) -> None:
    """Nothing is written, neither then nor for any other request."""

    async def story() -> None:
        async with webhook(tmp_path) as stage:
            await stage.ready()
            version = stage.cluster.storage.version
            real = await stage.call(review(pod()))
            dry = await stage.call(review(pod(), dryRun=True))
            assert dry.body == real.body
            assert stage.cluster.storage.version == version

    play(story)


BROKEN: list[tuple[str, int, dict[str, Any]]] = [
    ("text/plain", 415, {"body": review(pod()), "headers": {"Content-Type": "text/plain"}}),
    ("no content type", 415, {"body": review(pod()), "headers": {"Content-Type": ""}}),
    ("empty", 400, {"body": b""}),
    ("half", 400, {"body": b"{"}),
    ("a list", 400, {"body": []}),
    ("no request", 400, {"body": {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}}),
    ("no uid", 400, {"body": review(pod(), uid="")}),
    ("another kind", 400, {"body": {**review(pod()), "kind": "ConversionReview"}}),
    ("a version of the future", 400, {"body": {**review(pod()), "apiVersion": "admission.k8s.io/v2"}}),
    ("object is text", 400, {"body": review(pod(), object="secret")}),
    ("not UTF-8", 400, {"body": b'{"kind": "\xff"}'}),
    ("too deep", 400, {"body": b"[" * 100_000}),
    ("GET", 405, {"body": None, "method": "GET"}),
    ("another path", 404, {"body": review(pod()), "path": "/"}),
]


def test_wh_31_broken_requests_have_their_status(tmp_path: Path) -> None:
    """A short text, and never a part of the body; the next request works."""

    async def story() -> None:
        async with webhook(tmp_path) as stage:
            await stage.ready()
            for name, status, options in BROKEN:
                path = options.pop("path", "/mutate?timeout=4s")
                reply = await stage.call(**options, url=f"https://{LOOPBACK}:{stage.port}{path}")
                assert reply.status == status, name
                assert len(reply.body) < 80
                assert b"secret" not in reply.body
            assert operations_of((await stage.call(review(pod()))).response)

    play(story)


def test_wh_31_large_bodies(tmp_path: Path) -> None:
    """6 MB are read; a byte too many is refused, declared or chunked."""

    async def story() -> None:
        async with webhook(tmp_path, max_body_size=7 * MIB) as stage:
            await stage.ready()
            large = pod()
            large["metadata"]["managedFields"] = [{"manager": "x" * 6_000_000}]
            assert operations_of((await stage.call(review(large))).response)

            async def chunks() -> Any:
                for _ in range(7):
                    yield b" " * MIB
                yield b" "

            assert (await stage.call(b" " * (7 * MIB))).status == 400
            assert (await stage.call(b" " * (7 * MIB + 1))).status == 413
            async with stage.session.post(
                stage.url, data=chunks(), headers={"Content-Type": "application/json"}
            ) as answer:
                assert answer.status == 413
            assert await stage.metric("webhook_errors_total", reason="too-large") == 2

    play(story)


def test_wh_32_a_fault_of_our_own_is_a_500_and_no_refusal(tmp_path: Path, logged: io.StringIO) -> None:
    """The failure policy decides; the log tells where it was, and nothing of the object."""

    async def story() -> None:
        async with webhook(tmp_path) as stage:
            await stage.ready()
            reply = await stage.call(review(pod(tolerations="s3cret")))
            assert (reply.status, reply.body) == (500, b"internal fault\n")
            assert await stage.metric("webhook_requests_total", webhook="pod", operation="create", result="error") == 1
            assert (await stage.call(review(pod()))).status == 200

    play(story)
    assert "admission failed" in logged.getvalue()
    assert "s3cret" not in logged.getvalue()


def test_wh_17_the_log_names_a_pod_that_has_no_name_yet(tmp_path: Path, logged: io.StringIO) -> None:
    """By its prefix, and the namespace of the request."""

    async def story() -> None:
        async with webhook(tmp_path) as stage:
            await stage.ready()
            unnamed = pod()
            del unnamed["metadata"]["namespace"]
            await stage.call(review(unnamed, namespace="prod"))

    play(story)
    (line,) = decisions(logged)
    assert (line["name"], line["namespace"], line["result"], line["zones"]) == ("web-*", "prod", "mutated", "a")


def test_wh_58_one_short_warning_three_audit_annotations_and_no_secret(tmp_path: Path, logged: io.StringIO) -> None:
    """However many zones are blocked and however long their names are."""
    nodes = " ".join([*(f"{zone}!" for zone in MANY_ZONES), "open"])

    async def story() -> None:
        async with webhook(tmp_path, nodes=nodes) as stage:
            await stage.ready()
            secret = pod(selector={G: "g", Z: MANY_ZONES[0]})
            secret["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": "hunter2"}]
            response = (await stage.call(review(secret))).response
            (warning,) = response["warnings"]
            assert len(warning) <= LONGEST_WARNING
            assert set(response["auditAnnotations"]) == {"decision", "zones", "pool"}
            assert "hunter2" not in orjson.dumps(response).decode()
            whole = orjson.dumps(review(secret))
            for broken in (whole[:-1], whole.replace(b'"spec"', b'"spec":"x","spec"', 1)):
                assert b"hunter2" not in (await stage.call(broken)).body
            faulty = deepcopy(secret)
            faulty["spec"]["tolerations"] = {"hunter2": "hunter2"}
            assert b"hunter2" not in (await stage.call(review(faulty))).body

    play(story)
    assert "hunter2" not in logged.getvalue()


def test_headers_say_nothing_about_the_libraries(tmp_path: Path) -> None:
    """Neither an answer nor a refusal."""

    async def story() -> None:
        async with webhook(tmp_path) as stage:
            await stage.ready()
            for reply in (await stage.call(review(pod())), await stage.call(b"")):
                assert reply.headers["Server"] == "ebbtide"

    play(story)


async def _garbage(stage: Stage, sent: bytes) -> bytes:
    reader, writer = await stage.connect()
    writer.write(sent)
    received = await reader.read()
    writer.close()
    return received


def test_what_is_no_http_gets_a_400_that_does_not_quote_it(tmp_path: Path) -> None:
    """And the connection ends."""

    async def story() -> None:
        async with webhook(tmp_path) as stage:
            await stage.ready()
            received = await _garbage(stage, b"hunter2 hunter2 hunter2\r\n\r\n")
            assert received.startswith(b"HTTP/1.")
            assert b" 400 " in received.split(b"\r\n")[0]
            assert b"hunter2" not in received

    play(story)
