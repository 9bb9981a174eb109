"""What is asked of the metadata service, and what is made of its answers."""

import asyncio
import time

import pytest

from ebbtide.agent.imds import INTERRUPTION_PATH, REBALANCE_PATH, TOKEN_PATH, Metadata, MetadataError, Result
from ebbtide.notices import Kind, Notice
from ebbtide.sim.time import simulate
from tests.ebbtide.agent.service import BOTH, INTERRUPTION_AT, NOTICE_AT, REBALANCE_ONLY, dribbling, serving

HOUR = 3600.0


async def test_without_a_notice_there_is_none() -> None:
    """404 is the usual answer, and no failure; one token serves all questions."""
    async with serving() as service:
        metadata = Metadata(service.url)
        assert [await metadata.ask(kind) for kind in (*Kind, *Kind)] == [None] * 4
        assert service.count(TOKEN_PATH) == 1


async def test_both_notices_are_read() -> None:
    """`noticeTime` is when the recommendation was made, `time` when the instance goes."""
    async with serving(documents=BOTH) as service:
        metadata = Metadata(service.url)
        assert await metadata.ask(Kind.REBALANCE) == Notice(Kind.REBALANCE, NOTICE_AT)
        assert await metadata.ask(Kind.INTERRUPTION) == Notice(Kind.INTERRUPTION, INTERRUPTION_AT, "terminate")


async def test_every_question_carries_a_token() -> None:
    """Version 1 of the service, which does without, is never tried."""
    async with serving(documents=BOTH) as service:
        metadata = Metadata(service.url + "/")
        for kind in Kind:
            await metadata.ask(kind)
        assert all(token for _, path, token in service.asked if path != TOKEN_PATH)


async def test_a_token_that_is_not_accepted_is_replaced_once() -> None:
    """401, a new token, the same request again."""
    async with serving(documents=REBALANCE_ONLY) as service:
        metadata = Metadata(service.url)
        await metadata.ask(Kind.REBALANCE)
        service.tokens.clear()
        assert await metadata.ask(Kind.REBALANCE) == Notice(Kind.REBALANCE, NOTICE_AT)
        again = [TOKEN_PATH, REBALANCE_PATH]
        assert [path for _, path, _ in service.asked] == [TOKEN_PATH, REBALANCE_PATH, REBALANCE_PATH, *again]


async def test_a_second_refusal_in_a_row_is_told() -> None:
    """Nobody asks for tokens in a hot loop."""
    async with serving(failures={REBALANCE_PATH: [401, 401, 401]}) as service:
        with pytest.raises(MetadataError, match="401") as caught:
            await Metadata(service.url).ask(Kind.REBALANCE)
        assert caught.value.result is Result.REFUSED
        assert service.count(TOKEN_PATH) == 2


@pytest.mark.parametrize(
    ("ttl", "good_for"), [("21600", 5.4 * HOUR), ("60", 54.0), ("", 5.4 * HOUR), ("x", 5.4 * HOUR)]
)
def test_a_token_is_renewed_before_its_end(ttl: str, good_for: float) -> None:
    """The service says how long it lives."""

    async def hours() -> None:
        async with serving(ttl=ttl) as service:
            metadata = Metadata(service.url)
            await metadata.ask(Kind.REBALANCE)
            await asyncio.sleep(good_for - 1)
            await metadata.ask(Kind.REBALANCE)
            assert service.count(TOKEN_PATH) == 1
            await asyncio.sleep(2)
            await metadata.ask(Kind.REBALANCE)
            assert service.count(TOKEN_PATH) == 2

    simulate(hours())


NONSENSE = {
    "no JSON": b"<html>not here</html>",
    "empty": b"",
    "another document": b'{"time": "2026-03-01T11:58:00Z"}',
    "no document": b"[1, 2]",
    "a number": b"17",
    "null": b"null",
    "a time that is none": b'{"noticeTime": "soon"}',
    "a time without a zone": b'{"noticeTime": "2026-03-01T11:58:00"}',
    "seconds": b'{"noticeTime": 1772366280}',
    "long ago": b'{"noticeTime": "1970-01-01T00:00:00Z"}',
    "bytes that are no text": b'{"noticeTime": "\xff\xfe"}',
    "cut off": b'{"noticeTime": "2026-03-01T11:5',
}


@pytest.mark.parametrize("body", NONSENSE.values(), ids=NONSENSE.keys())
async def test_nonsense_is_named(body: bytes) -> None:
    """With the path and the beginning of what came."""
    async with serving(documents={REBALANCE_PATH: body}) as service:
        with pytest.raises(MetadataError, match=REBALANCE_PATH) as caught:
            await Metadata(service.url).ask(Kind.REBALANCE)
        assert caught.value.result is Result.NONSENSE


async def test_an_endless_document_is_not_read() -> None:
    async with serving(documents={REBALANCE_PATH: b"x" * (1 << 20)}) as service:
        with pytest.raises(MetadataError, match="longer body"):
            await Metadata(service.url).ask(Kind.REBALANCE)


@pytest.mark.parametrize("token", [b"", b"two\nlines", b"\x00", "ü".encode(), b"x" * 2000])
async def test_what_is_no_token_is_not_sent_on(token: bytes) -> None:
    """It would end up in a header."""
    async with serving(token=token) as service:
        with pytest.raises(MetadataError, match="no token"):
            await Metadata(service.url).ask(Kind.REBALANCE)
        assert service.count(REBALANCE_PATH) == 0


@pytest.mark.parametrize("status", [400, 403, 429, 500, 503])
@pytest.mark.parametrize("path", [TOKEN_PATH, INTERRUPTION_PATH])
async def test_a_refusal_names_the_request(path: str, status: int) -> None:
    async with serving(failures={path: [status]}) as service:
        with pytest.raises(MetadataError, match=f"{path}: {status}") as caught:
            await Metadata(service.url).ask(Kind.INTERRUPTION)
        assert caught.value.result is Result.REFUSED


async def test_a_service_that_is_not_there_is_named(unused_tcp_port: int) -> None:
    """The message says where it was looked for."""
    endpoint = f"http://127.0.0.1:{unused_tcp_port}"
    with pytest.raises(MetadataError, match=f"is there an instance metadata service at {endpoint}") as caught:
        await Metadata(endpoint).ask(Kind.REBALANCE)
    assert caught.value.result is Result.UNREACHABLE


def test_a_silent_service_is_given_up_after_seconds() -> None:
    async def silence() -> None:
        async with serving(silent=True) as service:
            loop = asyncio.get_running_loop()
            begun = loop.time()
            with pytest.raises(MetadataError, match="no answer within 5 s"):
                await Metadata(service.url).ask(Kind.REBALANCE)
            assert loop.time() - begun == pytest.approx(5.0, abs=0.1)

    simulate(silence())


def test_an_answer_that_is_late_is_read() -> None:
    """Token and document may each take what a request has, which is more than a service needs."""

    async def late() -> None:
        async with serving(documents=REBALANCE_ONLY, late=4.9) as service:
            loop = asyncio.get_running_loop()
            begun = loop.time()
            assert await Metadata(service.url).ask(Kind.REBALANCE) == Notice(Kind.REBALANCE, NOTICE_AT)
            assert loop.time() - begun == pytest.approx(2 * 4.9, abs=0.1)

    simulate(late())


def test_an_answer_in_single_bytes_is_read_if_all_of_it_is_in_time() -> None:
    async def dribbled() -> None:
        async with serving(documents=BOTH) as service, dribbling(service, 4.9) as url:
            notice = await Metadata(url).ask(Kind.INTERRUPTION)
            assert notice == Notice(Kind.INTERRUPTION, INTERRUPTION_AT, "terminate")

    simulate(dribbled())


@pytest.mark.parametrize("seconds", [5.1, 3600.0])
def test_single_bytes_do_not_hold_up_a_question(seconds: float) -> None:
    """The time is that of the whole answer: it does not begin anew with each byte."""

    async def dribbled() -> None:
        async with serving(documents=BOTH) as service, dribbling(service, seconds) as url:
            loop = asyncio.get_running_loop()
            begun = loop.time()
            with pytest.raises(MetadataError, match="no answer within 5 s") as caught:
                await Metadata(url).ask(Kind.REBALANCE)
            assert caught.value.result is Result.UNREACHABLE
            assert loop.time() - begun == pytest.approx(5.0, abs=0.1)

    simulate(dribbled())


def test_a_token_that_comes_late_is_aged_from_when_it_was_asked_for() -> None:
    """The service may have made it at once: what was lost on the way is lost of its life."""

    async def late() -> None:
        async with serving(ttl="60", late=4.9) as service:
            metadata = Metadata(service.url)
            await metadata.ask(Kind.REBALANCE)
            service.late = 0.0
            (asked_at,) = service.times(TOKEN_PATH)
            loop = asyncio.get_running_loop()
            for seconds, tokens in ((53.0, 1), (55.0, 2)):
                await asyncio.sleep(asked_at + seconds - loop.time())
                await metadata.ask(Kind.REBALANCE)
                assert service.count(TOKEN_PATH) == tokens

    simulate(late())


@pytest.mark.parametrize("jump", [-400 * 24 * HOUR, 400 * 24 * HOUR], ids=["back", "ahead"])
def test_a_clock_that_jumps_does_not_age_a_token(jump: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set by NTP at the start of an instance, say: no token is thrown away, and none is kept past its end."""
    real = time.time

    async def hours() -> None:
        async with serving() as service:
            metadata = Metadata(service.url)
            await metadata.ask(Kind.REBALANCE)
            monkeypatch.setattr(time, "time", lambda: real() + jump)
            await metadata.ask(Kind.REBALANCE)
            await asyncio.sleep(5.3 * HOUR)
            await metadata.ask(Kind.REBALANCE)
            assert service.count(TOKEN_PATH) == 1
            await asyncio.sleep(0.2 * HOUR)
            await metadata.ask(Kind.REBALANCE)
            assert service.count(TOKEN_PATH) == 2

    simulate(hours())
