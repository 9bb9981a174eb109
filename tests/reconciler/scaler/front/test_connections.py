"""Connections that are slow, silent, half-sent or full of nonsense: none costs more than its own answer.

On simulated time, over a network in memory.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from ebbtide.sim.time import simulate
from reconciler.scaler.front.app import LARGEST_BODY
from reconciler.scaler.front.files import fitting
from reconciler.scaler.front.serving import HEAD_WITHIN, KEEP_ALIVE, LONGEST_LINE, READ_WITHIN
from reconciler.scaler.task import TaskId
from tests.reconciler.scaler.front.laws import check
from tests.reconciler.scaler.front.stage import Raw, Stage, front, init, known, raw, state

HEAD = f"POST /load_data?{init()} HTTP/1.1\r\nHost: front\r\n".encode()


def play(story: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with front(known(), in_memory=True) as stage:
            await story(stage)

    simulate(main())


async def seconds(condition: Callable[[], bool]) -> float:
    """Until it comes true, to a tenth."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with asyncio.timeout(1000):
        await turned(condition)
    return loop.time() - begun


async def turned(condition: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0.1)
    raise TimeoutError


# --- slow -------------------------------------------------------------------------------------------------------------


def test_half_a_head_is_waited_for_a_while_only() -> None:
    async def story(stage: Stage) -> None:
        client = raw(stage)
        client.transport.write(HEAD[:20])
        assert HEAD_WITHIN <= await seconds(lambda: client.closed) <= HEAD_WITHIN + 2

    play(story)


def test_a_head_that_drips_in_gains_no_time() -> None:
    async def story(stage: Stage) -> None:
        client = raw(stage)

        async def drip() -> None:
            for byte in HEAD * 10:
                client.transport.write(bytes([byte]))
                await asyncio.sleep(0.5)

        async with asyncio.TaskGroup() as group:
            dripping = group.create_task(drip())
            assert await seconds(lambda: client.closed) <= HEAD_WITHIN + 2
            dripping.cancel()

    play(story)


def test_a_head_on_a_connection_that_was_used_before_has_the_same_time() -> None:
    async def story(stage: Stage) -> None:
        client = raw(stage)
        client.transport.write(HEAD + b"\r\n")
        await turned(lambda: client.statuses == [302])
        await asyncio.sleep(60)
        client.transport.write(HEAD[:20])
        assert HEAD_WITHIN <= await seconds(lambda: client.closed) <= HEAD_WITHIN + 2

    play(story)


def test_a_body_that_does_not_come_is_answered_so_that_the_client_tries_again() -> None:
    async def story(stage: Stage) -> None:
        client = raw(stage)
        client.transport.write(HEAD + b"Content-Length: 100\r\n\r\nten bytes!")
        await turned(lambda: client.closed)
        assert client.statuses == [408]
        assert stage.desk.asked == []

    play(story)


def test_who_says_nothing_at_all_is_let_go() -> None:
    async def story(stage: Stage) -> None:
        client = raw(stage)
        assert KEEP_ALIVE - 1 <= await seconds(lambda: client.closed) <= KEEP_ALIVE + 2

    play(story)


def test_a_connection_is_kept_longer_than_clients_keep_theirs() -> None:
    async def story(stage: Stage) -> None:
        client = raw(stage)
        for number in range(1, 4):
            client.transport.write(HEAD + b"\r\n")
            await turned(lambda number=number: len(client.statuses) == number)  # type: ignore[misc]
            await asyncio.sleep(100)
        assert client.statuses == [302] * 3
        assert not client.closed
        assert await seconds(lambda: client.closed) <= KEEP_ALIVE

    play(story)


def test_who_does_not_read_a_long_answer_is_let_go() -> None:
    async def story(stage: Stage) -> None:
        for number in range(20_000):
            task = TaskId(1, 1, number, 0)
            stage.desk.places[task] = known(task)
        client = raw(stage)
        client.transport.pause_reading()
        client.transport.write(b"GET /load_data?cluster_id=7 HTTP/1.1\r\nHost: front\r\n\r\n")
        assert READ_WITHIN <= await seconds(lambda: client.closed) <= READ_WITHIN + 2

    play(story)


def test_a_wait_for_a_worker_is_no_slowness_of_the_client() -> None:
    async def story(stage: Stage) -> None:
        stage.desk.opened.clear()
        client = raw(stage)
        client.transport.write(HEAD + b"\r\n")
        await asyncio.sleep(250)
        assert not client.closed
        stage.desk.opened.set()
        await turned(lambda: client.statuses == [302])

    play(story)


def test_no_wait_is_without_an_end() -> None:
    """Even where the desk forgets a client, it is told to come again."""

    async def story(stage: Stage) -> None:
        stage.desk.opened.clear()
        client = raw(stage)
        client.transport.write(HEAD + b"\r\n")
        assert 300 < await seconds(lambda: client.statuses == [503]) < 330
        client.transport.write(f"DELETE /load_data?{state()} HTTP/1.1\r\nHost: front\r\n\r\n".encode())
        assert await seconds(lambda: client.statuses == [503, 503]) < 65

    play(story)


def test_requests_behind_one_that_waits_are_answered_in_their_order() -> None:
    async def story(stage: Stage) -> None:
        stage.desk.opened.clear()
        client = raw(stage)
        client.transport.write(HEAD + b"\r\n")
        await turned(lambda: stage.desk.waiting == 1)
        client.transport.write(f"PUT /load_data?{state()} HTTP/1.1\r\nHost: front\r\n\r\n".encode())
        await asyncio.sleep(100)
        stage.desk.opened.set()
        await turned(lambda: client.statuses == [302, 404])

    play(story)


# --- bodies -----------------------------------------------------------------------------------------------------------


async def pieces(count: int, size: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b"x" * size


def test_a_small_body_of_an_init_does_no_harm() -> None:
    async def story(stage: Stage) -> None:
        for body in (b"x", b"x" * LARGEST_BODY, pieces(10, 1000)):
            assert (await stage.ask("POST", init(), body=body)).status == 302
        assert stage.wire.accepted == 1

    play(story)


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_a_large_body_is_refused_and_nothing_is_taken_for_the_next_request(method: str) -> None:
    async def story(stage: Stage) -> None:
        query = init() if method == "POST" else state()
        for body in (b"x" * (LARGEST_BODY + 1), pieces(1000, 1000)):
            answer = await stage.ask(method, query, body=body)
            check(answer, may_redirect=False)
            assert answer.status == 400
            assert "body" in answer.text
            assert (await stage.ask("GET", state())).status == 302
        assert stage.desk.asked == []
        assert stage.desk.cancelled == []

    play(story)


def test_the_body_of_a_chunk_is_not_waited_for() -> None:
    async def story(stage: Stage) -> None:
        client = raw(stage)
        client.transport.write(b"PUT /load_data HTTP/1.1\r\nHost: front\r\nContent-Length: 1000000000\r\n\r\nfirst")
        await turned(lambda: client.statuses == [404])
        await turned(lambda: client.closed)

    play(story)


def test_who_waits_to_be_told_to_send_its_body_is_told() -> None:
    async def story(stage: Stage) -> None:
        client = raw(stage)
        client.transport.write(HEAD + b"Expect: 100-continue\r\nContent-Length: 4\r\n\r\n")
        await turned(lambda: client.statuses == [100])
        client.transport.write(b"body")
        await turned(lambda: client.statuses == [100, 302])

    play(story)


def test_a_body_that_makes_no_sense_as_chunks_ends_its_connection_with_an_answer() -> None:
    async def story(stage: Stage) -> None:
        client = raw(stage)
        client.transport.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        await asyncio.sleep(1)
        client.transport.write(b"no length\r\n")
        await turned(lambda: client.closed)
        assert client.statuses == [408]
        assert stage.desk.asked == []

    play(story)


# --- nonsense ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200,
        b"\r\n\r\nnot http at all\r\n\r\n",
        b"POST\r\n\r\n",
        b"POST /load_data HTTP/9.9\r\n\r\n",
        b"GET /load_data?cluster_id=7 HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET /load_data?cluster_id=7 HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET /load_data?cluster_id=7 HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET /load_data?cluster_id=7 HTTP/1.1\r\n" + b"A: b\r\n" * 1000 + b"\r\n",
        b"GET /load_data?cluster_id=7 HTTP/1.1\r\nA: " + b"b" * (LONGEST_LINE + 1) + b"\r\n\r\n",
    ],
    ids=lambda sent: ascii(sent[:20]),
)
def test_what_is_no_http_is_refused(sent: bytes) -> None:
    async def story(stage: Stage) -> None:
        client = raw(stage)
        client.transport.write(sent)
        await turned(lambda: client.closed)
        assert client.statuses == [400]

    play(story)


@pytest.mark.parametrize(
    "name", ["cluster_id", "task_id", "start_ts", "commit_ts", "data_size", "task_id_prefix", "writer_id", "chunk_id"]
)
def test_a_parameter_of_ten_megabytes_is_refused_by_its_name_and_not_kept(name: str) -> None:
    async def story(stage: Stage) -> None:
        client = raw(stage)
        client.transport.write(f"POST /load_data?other=1&{name}=".encode())
        for _ in range(160):
            client.transport.write(b"1" * 65_536)
        client.transport.write(b" HTTP/1.1\r\nHost: front\r\n\r\n")
        await turned(lambda: client.closed)
        assert client.statuses == [400]
        assert name.encode() in client.received
        assert stage.desk.asked == []

    play(story)


def test_a_connection_that_was_refused_says_nothing_more() -> None:
    async def story(stage: Stage) -> None:
        client = raw(stage)
        client.transport.write(b"no http\r\n\r\n")
        await turned(lambda: client.statuses == [400])
        for _ in range(10):
            client.transport.write(HEAD + b"\r\n")
            await asyncio.sleep(0.2)
        await turned(lambda: client.closed)
        assert client.statuses == [400]

    play(story)


def test_half_open_connections_are_noticed_by_the_kernel() -> None:
    """Waiting clients whose machine has gone cost nothing for longer than the wait; idle ones end with keep-alive."""

    async def story(stage: Stage) -> None:
        stage.desk.opened.clear()
        clients: list[Raw] = [raw(stage) for _ in range(3)]
        for client in clients:
            client.transport.write(HEAD + b"\r\n")
        await turned(lambda: stage.desk.waiting == 3)
        clients[0].transport.abort()
        await turned(lambda: stage.desk.waiting == 2)
        assert await seconds(lambda: stage.desk.waiting == 0) < 330

    play(story)


# --- many -------------------------------------------------------------------------------------------------------------


def test_more_connections_than_there_may_be_are_ended_and_the_others_are_served() -> None:
    async def story(stage: Stage) -> None:
        stage.service.connections.most = 3
        kept = [raw(stage) for _ in range(3)]
        over = raw(stage)
        await turned(lambda: over.closed)
        for client in kept:
            client.transport.write(HEAD + b"\r\n")
        await turned(lambda: all(client.statuses == [302] for client in kept))
        kept[0].transport.close()
        await asyncio.sleep(1)
        again = raw(stage)
        again.transport.write(HEAD + b"\r\n")
        await turned(lambda: again.statuses == [302])

    play(story)


def test_deletes_whose_clients_hang_up_do_not_pile_up() -> None:
    async def story(stage: Stage) -> None:
        stage.desk.opened.clear()
        for _ in range(600):
            client = raw(stage)
            client.transport.write(f"DELETE /load_data?{state()} HTTP/1.1\r\nHost: front\r\n\r\n".encode())
            await asyncio.sleep(0)
            await asyncio.sleep(0.001)
            client.transport.abort()
        answer = await stage.ask("DELETE", state())
        check(answer, may_redirect=False)
        assert (answer.status, "too many" in answer.text) == (503, True)
        stage.desk.opened.set()
        await asyncio.sleep(1)
        assert (await stage.ask("DELETE", state())).status == 200
        assert len(stage.desk.cancelled) <= 513

    play(story)


@pytest.mark.parametrize(("files", "connections"), [(1024, 512), (256, 128), (65_536, 65_024)])
def test_clients_leave_files_for_everything_else(files: int, connections: int) -> None:
    assert fitting(files) == connections
