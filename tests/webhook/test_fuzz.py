"""Broken reviews by the thousand: no crash, no wrong patch, the right status, and nothing left behind.

`make test` sends 100,000, always the same ones; `make fuzz` sends a million (`EBBTIDE_FUZZ` says how many). Each answer
is judged by `oracle`.
"""

import asyncio
import gc
import logging
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from random import Random

import orjson
import structlog
from prometheus_client import CollectorRegistry

from ebbtide.service import log
from tests.ebbtide.exclusion.builders import pod
from tests.webhook.builders import Cluster, operations_of, review
from tests.webhook.mutations import Damage, mutated, originals
from tests.webhook.oracle import BAD, FAULT, OK, check
from tests.webhook.stage import Stage, play, webhook
from webhook.app import Admission
from webhook.decide import Rules
from webhook.report import Report

CASES = int(os.environ.get("EBBTIDE_FUZZ", "100000"))
_FILLING = 3000
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


def test_broken_reviews_have_the_right_answer_and_leave_nothing_behind() -> None:
    """Whatever has been done to them; and each kind of damage leads wherever it can lead."""
    bodies = [orjson.dumps(each) for each in originals()]
    seen: Counter[tuple[Damage, HTTPStatus]] = Counter({(each, status): 0 for each in Damage for status in HTTPStatus})
    with handler() as admission:
        for body in bodies:
            assert check(admission, body) is OK
        for seed in range(-_FILLING, 0):  # what is remembered of alike pods has its bounds
            check(admission, mutated(seed, bodies).body)
        gc.collect()
        before = len(gc.get_objects())
        for seed in range(CASES):
            damage, body = mutated(seed, bodies)
            seen[damage, check(admission, body)] += 1
        gc.collect()
        assert len(gc.get_objects()) - before < 2000
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
