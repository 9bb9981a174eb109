"""A hundred thousand broken reviews: no crash, no wrong patch, the right status, and nothing left behind.

`make test` does as many as fit into its share of time, `make fuzz` all of them (`EBBTIDE_FUZZ` says how many).
"""

import asyncio
import gc
import json
import os
import time
from pathlib import Path
from random import Random
from typing import Any

import jsonpatch
import orjson

from tests.ebbtide.exclusion.builders import pod
from tests.webhook.builders import Cluster, Raw, operations_of, review
from tests.webhook.mutations import mutated, originals
from tests.webhook.stage import Stage, play, webhook
from tests.webhook.test_laws import keeps
from webhook.alike import Alike
from webhook.decide import Rules, decide
from webhook.patch import POD, TEMPLATE, operations
from webhook.review import Kind, NotAReviewError, Request, encoded, read

CASES = int(os.environ.get("EBBTIDE_FUZZ", "100000"))
SECONDS = float("inf") if "EBBTIDE_FUZZ" in os.environ else 20.0
CLUSTER = Cluster("a! a b c", volumes=[["c"]])
RULES = Rules()
ALIKE = Alike(CLUSTER, RULES)
_FILLING = 3000


def ops_of(request: Request) -> list[Raw]:
    """Raises whatever a decision raises, which is a 500."""
    decision = decide(request, CLUSTER, RULES)
    if request.object is None:
        return []
    return operations(request.object, decision, RULES.labels, TEMPLATE if request.kind is Kind.STATEFUL_SET else POD)


def strictly(body: bytes) -> Any:
    """JSON by the letter, in every corner; None for anything else."""
    try:
        return orjson.loads(body)
    except ValueError:
        return None


def leniently(body: bytes) -> Any:
    """The same, whatever its strings and numbers are: nobody has to look at those that decide nothing."""
    return json.loads(body.decode("utf-8", "surrogateescape"))


def is_review(parsed: Any) -> bool:
    """By the plain definition."""
    request = parsed.get("request") if isinstance(parsed, dict) else None
    if not isinstance(request, dict):
        return False
    texts = [request.get(name) for name in ("uid", "operation", "subResource", "namespace", "name")]
    kind = request.get("kind")
    if isinstance(kind, dict):
        texts += [kind.get(name) for name in ("group", "version", "kind")]
    return (
        parsed.get("kind") == "AdmissionReview"
        and parsed.get("apiVersion") in ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
        and bool(request.get("uid"))
        and isinstance(kind, dict)
        and all(text is None or isinstance(text, str) for text in texts)
        and all(request.get(name) is None or isinstance(request[name], dict) for name in ("object", "oldObject"))
    )


def check(body: bytes) -> int:
    """The status of the answer, after what is patched has been looked at."""
    try:
        request = read(body)
    except NotAReviewError:
        assert not is_review(strictly(body))
        return 400
    whole = leniently(body)
    assert is_review(whole)
    try:
        ops = ops_of(request)
    except (TypeError, AttributeError, KeyError):
        return 500
    shared = ALIKE.answer(request)
    assert shared is None or shared[1] == encoded(ops)
    if ops:
        _check_patch(whole["request"]["object"], orjson.loads(orjson.dumps(ops)))
    return 200


def _check_patch(raw: Raw, ops: list[Raw]) -> None:
    stored = jsonpatch.apply_patch(raw, ops)
    assert {each["op"] for each in ops} <= {"add", "replace"}
    assert keeps(raw, stored)


def test_broken_reviews_have_the_right_answer_and_leave_nothing_behind() -> None:
    """Whatever has been done to them."""
    bodies, end, seen = originals(), time.monotonic() + SECONDS, dict.fromkeys((200, 400, 500), 0)
    for body in bodies:
        assert check(orjson.dumps(body)) == 200
    for seed in range(-_FILLING, 0):  # what is remembered of alike pods has its bounds
        check(mutated(seed, bodies))
    gc.collect()
    before = len(gc.get_objects())
    for seed in range(CASES):
        seen[check(mutated(seed, bodies))] += 1
        if seed % 256 == 0 and time.monotonic() > end:
            break
    gc.collect()
    assert len(gc.get_objects()) - before < 2000
    assert all(seen.values())


def test_garbage_on_the_socket_never_stops_the_next_request(tmp_path: Path) -> None:
    """Raw bytes, heads of no sense, broken bodies: each has an answer or an end, and then all is as before."""

    async def story() -> None:
        async with webhook(tmp_path) as stage:
            await stage.ready()
            for seed in range(60):
                await _throw(stage, seed)
            assert operations_of((await stage.call(review(pod()))).response)
            assert await stage.metric("webhook_in_flight") == 0
            assert (await stage.probe("/readyz"))[0] == 200

    play(story)


async def _throw(stage: Stage, seed: int) -> None:
    random = Random(seed)
    body = mutated(seed, originals())
    length = random.choice((len(body), len(body) + 7, 0, -1, 10**12, "x"))
    kind = random.choice(("application/json", "application/json; charset=utf-8", "text/plain", ""))
    head = f"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n".encode()
    chunked = (
        b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    sent = random.choice(
        (head + body, chunked + body, random.randbytes(300) + b"\r\n\r\n", head[: random.randrange(1, 80)])
    )
    reader, writer = await stage.connect()
    writer.write(sent)
    if random.random() < 0.5:
        writer.transport.abort()
        return
    writer.write_eof() if writer.can_write_eof() else None
    answered = await asyncio.wait_for(reader.read(65_536), timeout=30)
    assert not answered or answered.startswith((b"HTTP/1.1 ", b"HTTP/1.0 "))
    writer.transport.abort()
