"""Broken reviews by the thousand: no crash, no wrong patch, the right status, and nothing left behind.

`make test` does as many as fit into 20 seconds of a processor, 8,000 at least and 100,000 at most, and says how many
they were; `make fuzz` does a million (`EBBTIDE_FUZZ` says how many).
"""

import asyncio
import gc
import json
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from random import Random
from typing import Any, NotRequired, TypedDict

import jsonpatch
import msgspec
import orjson
import structlog
from prometheus_client import CollectorRegistry

from ebbtide import vocabulary
from ebbtide.service import log
from tests.ebbtide.exclusion.builders import Z, pod
from tests.ebbtide.exclusion.injector import REQUIRED
from tests.webhook.builders import Cluster, Raw, operations_of, review
from tests.webhook.mutations import Damage, mutated, originals
from tests.webhook.stage import Stage, play, webhook
from tests.webhook.test_laws import OWN_PATHS, keeps
from webhook.app import PATH, Admission
from webhook.connection import JSON, Head
from webhook.decide import Rules
from webhook.report import Report

CASES = int(os.environ.get("EBBTIDE_FUZZ", "100000"))
SECONDS = float("inf") if "EBBTIDE_FUZZ" in os.environ else 20.0
# So many reach every status that there is for each kind of damage, however slow the machine is.
_AT_LEAST = 8000
_FILLING = 3000
OK, BAD, FAULT = HTTPStatus.OK, HTTPStatus.BAD_REQUEST, HTTPStatus.INTERNAL_SERVER_ERROR
# What each kind of damage must lead to, somewhere.
REACHED: Mapping[Damage, set[HTTPStatus]] = {
    Damage.NONE: {OK, BAD, FAULT},
    Damage.NUMBER: {OK, BAD, FAULT},
    Damage.NEST: {OK, BAD, FAULT},
    Damage.TEXT: {OK, BAD, FAULT},
    Damage.TWICE: {OK, BAD, FAULT},
    Damage.NO_JSON: {BAD},
    Damage.CUT: {BAD},
    Damage.FLIPPED: {OK, BAD},
    Damage.NOISE: {BAD},
}


class Knowledge(Cluster):
    """All of it: zone a of group g is blocked, and every claim that is looked for lies in zone c."""

    complete = True


def head() -> Head:
    found = Head()
    found.method, found.target, found.content_type, found.since = b"POST", PATH.encode(), JSON, time.perf_counter()
    return found


@contextmanager
def handler() -> Iterator[Admission]:
    """The handler itself, whose lines of the log nobody keeps; the process's logging is put back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    with Path(os.devnull).open("w") as nowhere:
        log.configure("info", "json", nowhere)
        root.handlers[:] = [each for each in root.handlers if each not in handlers]
        report = Report(CollectorRegistry(), lambda: 0.0)
        yield Admission(Knowledge("a! a b c", volumes=[["c"]]), Rules(), report, largest=1 << 20, most_at_once=1)
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(False)
    structlog.reset_defaults()


class _Expression(TypedDict):
    key: str
    operator: str
    values: NotRequired[list[str] | None]


class _Term(TypedDict, total=False):
    matchExpressions: list[_Expression] | None
    matchFields: list[_Expression] | None


class _Selector(TypedDict, total=False):
    nodeSelectorTerms: list[_Term] | None


class _NodeAffinity(TypedDict, total=False):
    requiredDuringSchedulingIgnoredDuringExecution: _Selector | None


class _AffinityTerm(TypedDict, total=False):
    topologyKey: str | None


class _Weighted(TypedDict, total=False):
    podAffinityTerm: _AffinityTerm | None


class _AntiAffinity(TypedDict, total=False):
    requiredDuringSchedulingIgnoredDuringExecution: list[_AffinityTerm] | None
    preferredDuringSchedulingIgnoredDuringExecution: list[_Weighted] | None


class _Affinity(TypedDict, total=False):
    nodeAffinity: _NodeAffinity | None
    podAntiAffinity: _AntiAffinity | None


class _Toleration(TypedDict, total=False):
    key: str | None
    operator: str | None
    value: str | None
    effect: str | None


class _Claim(TypedDict, total=False):
    claimName: str | None


class _Volume(TypedDict, total=False):
    persistentVolumeClaim: _Claim | None


class _Owner(TypedDict, total=False):
    kind: str | None
    controller: bool | None


class _Metadata(TypedDict, total=False):
    namespace: str | None
    labels: dict[str, str | None] | None
    annotations: dict[str, str | None] | None
    ownerReferences: list[_Owner] | None


class _PodSpec(TypedDict, total=False):
    nodeName: str | None
    nodeSelector: dict[str, str | None] | None
    affinity: _Affinity | None
    tolerations: list[_Toleration] | None
    topologySpreadConstraints: list[_AffinityTerm] | None
    volumes: list[_Volume] | None


class _Pod(TypedDict, total=False):
    metadata: _Metadata | None
    spec: _PodSpec | None


class _SetSpec(TypedDict, total=False):
    template: _Pod | None


class _Set(TypedDict, total=False):
    metadata: _Metadata | None
    spec: _SetSpec | None


def is_typed(raw: Any, kind: Any) -> bool:
    """Whether it is of the types that the API gives to what admission looks at, so that an API server may send it."""
    try:
        msgspec.convert(raw, kind | None)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return False
    return True


def strictly(body: bytes) -> Any:
    """JSON by the letter, in every corner; None for anything else."""
    try:
        return orjson.loads(body)
    except ValueError:
        return None


def by_the_first(body: bytes) -> Any:
    """The same, of two members of one name the first; of what others read the last counts."""
    return json.loads(body, object_pairs_hook=lambda pairs: dict(reversed(pairs)))


def leniently(body: bytes) -> Any:
    """The same, whatever its strings and numbers are: nobody has to look at those that decide nothing."""
    return json.loads(body.decode("utf-8", "surrogateescape"), parse_int=float)


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


def check(admission: Admission, body: bytes) -> HTTPStatus:
    """The status of the answer, after it has been held against the body."""
    asked = head()
    assert admission.begin(asked) is None
    reply = admission.answer(asked, body)
    if reply.status is BAD:
        assert not is_review(strictly(body)) or not is_review(by_the_first(body))
        assert reply.last
        return BAD
    whole = leniently(body)
    assert is_review(whole)
    request = whole["request"]
    if reply.status is FAULT:
        assert reply.last
        assert not is_sendable(request)
        return FAULT
    assert reply.status is OK
    answer = orjson.loads(reply.body)
    assert (answer["kind"], answer["apiVersion"]) == (whole["kind"], whole["apiVersion"])
    response = answer["response"]
    assert response["uid"] == request["uid"]
    assert response["allowed"] is True
    check_patch(request, response, leniently(body)["request"].get("object"))
    return OK


def is_sendable(request: Raw) -> bool:
    """Whether an API server may send this: it knows the types of pods and of StatefulSets, and checks them before."""
    kind = _Set if request["kind"].get("kind") == "StatefulSet" else _Pod
    return is_typed(request.get("object"), kind) and is_typed(request.get("oldObject"), kind)


def check_patch(request: Raw, response: Raw, stored: Any) -> None:
    """Nothing but our own is added, and the zones that are said to be excluded are, wherever the pod might go.

    `stored` is the object once more, to be changed.
    """
    ops, zones = operations_of(response), response["auditAnnotations"]["zones"]
    assert zones in ("", "a")
    if ops:
        template = "/spec/template" if request["kind"]["kind"] == "StatefulSet" else ""
        assert all(each["op"] in ("add", "replace") and is_ours(each["path"], template) for each in ops)
        jsonpatch.apply_patch(stored, ops, in_place=True)
        assert keeps(request["object"], stored)
    if zones:
        assert request["kind"]["kind"] == "Pod"
        assert is_kept_out(stored, zones)
    else:
        added = orjson.dumps(ops)
        assert b"NotIn" not in added
        assert vocabulary.BLOCKED_ZONES_ANNOTATION.encode() not in added


def is_ours(path: str, template: str) -> bool:
    """Whether it leads to a place of ours, or to what that one would be in."""
    return any(path.startswith(template + place) or f"{template}{place}/".startswith(f"{path}/") for place in OWN_PATHS)


def is_kept_out(stored: Raw, zone: str) -> bool:
    """Whether all alternatives that the scheduler has say so, as it reads them."""
    terms = stored["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    alternatives = [term for term in terms if term.get("matchExpressions") or term.get("matchFields")]
    return bool(alternatives) and all(_excludes(term, zone) for term in alternatives)


def _excludes(term: Raw, zone: str) -> bool:
    return any(
        (each.get("key"), each.get("operator")) == (Z, "NotIn")
        and type(each.get("values")) is list
        and zone in each["values"]
        for each in term.get("matchExpressions") or ()
    )


def test_broken_reviews_have_the_right_answer_and_leave_nothing_behind(
    record_property: Callable[[str, object], None],
) -> None:
    """Whatever has been done to them; and each kind of damage leads wherever it can lead."""
    bodies = [orjson.dumps(each) for each in originals()]
    seen: Counter[tuple[Damage, HTTPStatus]] = Counter({(each, status): 0 for each in Damage for status in HTTPStatus})
    with handler() as admission:
        for body in bodies:
            assert check(admission, body) is OK
        for seed in range(-_FILLING, 0):  # what is remembered of alike pods has its bounds
            check(admission, mutated(seed, bodies).body)
        gc.collect()
        before, end = len(gc.get_objects()), time.process_time() + SECONDS
        for seed in range(CASES):
            damage, body = mutated(seed, bodies)
            seen[damage, check(admission, body)] += 1
            if seed >= _AT_LEAST and seed % 256 == 0 and time.process_time() > end:
                break
        gc.collect()
        assert len(gc.get_objects()) - before < 2000
    record_property("broken reviews", seen.total())
    for damage, statuses in REACHED.items():
        assert {status for status in HTTPStatus if seen[damage, status]} >= statuses, damage


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
    body = mutated(seed, [orjson.dumps(each) for each in originals()]).body
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
