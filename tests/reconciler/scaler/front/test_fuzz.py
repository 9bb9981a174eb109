"""Whatever comes over a connection, the front says nothing that it may not say, makes nothing, and goes on."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.sim.time import simulate
from tests.reconciler.scaler.front.laws import STATUSES
from tests.reconciler.scaler.front.stage import KNOWN, front, init, known, raw, state

GOOD = [
    f"POST /load_data?{init()} HTTP/1.1\r\nHost: front\r\nContent-Length: 4\r\n\r\nbody".encode(),
    f"GET /load_data?{state()} HTTP/1.1\r\nHost: front\r\n\r\n".encode(),
    f"PUT /load_data?{state()}&writer_id=1 HTTP/1.1\r\nHost: front\r\nContent-Length: 4\r\n\r\nrows".encode(),
    f"DELETE /load_data?{state()} HTTP/1.1\r\nHost: front\r\n\r\n".encode(),
    b"POST /load_data?x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nrows\r\n0\r\n\r\n",
]
PIECES = [
    b"\r\n",
    b"\0",
    b"%00",
    b"%",
    b"&",
    b"=",
    b"?",
    b" ",
    b"\xff\xfe",
    b"task_id=",
    b"-1",
    b"9" * 40,
    b"HTTP/1.1",
    b":",
]


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """A good request or two, of which some bytes are others, or missing, or too many."""
    found = bytearray(b"".join(draw(st.lists(st.sampled_from(GOOD), min_size=1, max_size=3))))
    for _ in range(draw(st.integers(0, 6))):
        at, length = draw(st.integers(0, len(found))), draw(st.integers(0, 5))
        found[at : at + length] = draw(st.sampled_from(PIECES) | st.binary(max_size=4))
    return bytes(found)


async def sent(data: bytes, cuts: list[int]) -> None:
    async with front(known(), in_memory=True) as stage:
        client = raw(stage)
        for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            client.transport.write(data[begin:end])
            await asyncio.sleep(0.1)
        await asyncio.sleep(30)
        assert set(client.statuses) <= {*STATUSES, 100} - {500}
        assert set(stage.desk.places) <= {KNOWN} | {arrival.task for arrival in stage.desk.asked}
        assert stage.metric("worker_scaler_requests_in_flight") == 0
        assert (await stage.ask("GET", state())).status == 302


@settings(max_examples=60)
@given(spoilt(), st.lists(st.integers(0, 400), max_size=3))
def test_spoilt_requests_are_refused_and_nothing_else(data: bytes, cuts: list[int]) -> None:
    simulate(sent(data, sorted(min(cut, len(data)) for cut in cuts)))


@settings(max_examples=40)
@given(st.binary(max_size=3000))
def test_noise_is_refused(data: bytes) -> None:
    simulate(sent(data, []))
