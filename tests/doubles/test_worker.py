"""The worker double answers as a real worker does, on a real socket."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from ebbtide.sim.time import simulate
from ebbtide.sim.wire import Network
from tests.doubles.worker import Worker

TASK = "1-170-139--1"


class Wire:
    """Requests to one worker."""

    def __init__(self, session: aiohttp.ClientSession, worker: Worker) -> None:
        self._session = session
        self.worker = worker

    async def ask(self, method: str, cluster: str = "7", **query: str) -> tuple[int, Any]:
        url = f"http://127.0.0.9:{self.worker.port}/load_data"
        params = {"cluster_id": cluster, **query}
        async with self._session.request(method, url, params=params) as answer:
            return (
                answer.status,
                await answer.json() if answer.content_type == "application/json" else await answer.text(),
            )


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    async with aiohttp.ClientSession() as session, Worker().listening("127.0.0.9") as worker:
        yield Wire(session, worker)


async def test_the_life_of_a_task(wire: Wire) -> None:
    """Init, chunk, flush, build: then it is finished, and stays listed."""
    assert await wire.ask("POST", task_id=TASK, data_size="1") == (200, "")
    assert await wire.ask("POST", task_id=TASK, data_size="1") == (400, "task exists")
    assert (await wire.ask("PUT", task_id=TASK, writer_id="1", chunk_id="1"))[0] == 200
    _, flushed = await wire.ask("POST", task_id=TASK, writer_id="1", flush="true")
    assert flushed["flushed-files"] == 2
    assert await wire.ask("POST", task_id=TASK, build="true") == (200, "")
    _, [listed] = await wire.ask("GET")
    assert (listed["task-id"], listed["finished"], listed["canceled"]) == (TASK, True, False)
    assert (await wire.ask("GET", task_id=TASK))[1] == listed
    assert (await wire.ask("PUT", task_id=TASK, writer_id="1", chunk_id="2"))[0] == 400


async def test_what_it_does_not_know(wire: Wire) -> None:
    """404 for everything about it but its init."""
    for method, query in (("GET", {}), ("DELETE", {}), ("PUT", {"chunk_id": "1"}), ("POST", {"build": "true"})):
        assert (await wire.ask(method, task_id=TASK, **query))[0] == 404
    assert await wire.ask("GET") == (200, [])
    assert await wire.ask("GET", cluster="8") == (400, "cluster id mismatch")


async def test_cancelling(wire: Wire) -> None:
    """One, or all that begin so; what is cancelled stays listed until the worker collects."""
    wire.worker.begin(TASK, "1-170-139-0", "10-170-139-0")
    assert (await wire.ask("DELETE", task_id=TASK))[0] == 200
    assert (await wire.ask("DELETE", task_id_prefix="1"))[0] == 200
    _, listed = await wire.ask("GET")
    assert [each["canceled"] for each in listed] == [True, True, False]
    wire.worker.collects = True
    assert (await wire.ask("DELETE", task_id="10-170-139-0"))[0] == 200
    assert await wire.ask("GET") == (200, [])


async def test_moods(wire: Wire) -> None:
    """Full, refusing, restarted."""
    wire.worker.full = True
    assert (await wire.ask("POST", task_id=TASK))[0] == 503
    wire.worker.full = False
    await wire.ask("POST", task_id=TASK)
    wire.worker.refusing = 500
    assert (await wire.ask("GET"))[0] == 500
    wire.worker.refusing = 0
    wire.worker.restart(keeps=True)
    assert len((await wire.ask("GET"))[1]) == 1
    wire.worker.restart()
    assert await wire.ask("GET") == (200, [])


async def test_a_full_one_goes_on_with_what_it_has(wire: Wire) -> None:
    """Only a further task is refused, with the status upon which clients come again."""
    wire.worker.begin(TASK)
    wire.worker.full = True
    assert await wire.ask("POST", task_id=TASK) == (400, "task exists")
    assert (await wire.ask("PUT", task_id=TASK, writer_id="1", chunk_id="1"))[0] == 200
    assert (await wire.ask("POST", task_id="1-170-139-0"))[0] == 503
    assert [each["task-id"] for each in (await wire.ask("GET"))[1]] == [TASK]


async def test_one_that_fails_and_loses_a_task(wire: Wire) -> None:
    """An error does not end a task; what is lost is neither listed nor known."""
    wire.worker.begin(TASK, "1-170-139-0")
    wire.worker.fail(TASK, "no space left")
    _, state = await wire.ask("GET", task_id=TASK)
    assert (state["error"], state["finished"], state["canceled"]) == ("no space left", False, False)
    wire.worker.lose(TASK)
    assert (await wire.ask("GET", task_id=TASK))[0] == 404
    assert [each["task-id"] for each in (await wire.ask("GET"))[1]] == ["1-170-139-0"]
    assert await wire.ask("POST", task_id=TASK) == (200, "")


async def test_a_mute_one_lists_nonsense_and_works(wire: Wire) -> None:
    wire.worker.begin(TASK)
    wire.worker.mute = b"[nonsense"
    url = f"http://127.0.0.9:{wire.worker.port}/load_data?cluster_id=7"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert (answer.status, await answer.read()) == (200, b"[nonsense")
    assert (await wire.ask("GET", task_id=TASK))[0] == 200


def test_a_slow_one_answers_later_and_a_silent_one_never() -> None:
    """In simulated time; who hangs up on a slow one has done nothing there."""

    async def story() -> None:
        network, worker = Network(), Worker()
        network.listen("10.0.0.1", 19500, worker.accept)
        loop = asyncio.get_running_loop()
        url = f"http://10.0.0.1:19500/load_data?cluster_id=7&task_id={TASK}"
        async with aiohttp.ClientSession(connector=network.connector()) as session:
            worker.delay = 7.0
            async with session.post(url) as answer:
                assert answer.status == 200
                assert loop.time() == pytest.approx(7.0)
            worker.lose(TASK)
            with pytest.raises(TimeoutError):
                await session.post(url, timeout=aiohttp.ClientTimeout(total=5.0))
            worker.delay, worker.silent = 0.0, True
            with pytest.raises(TimeoutError):
                await session.post(url, timeout=aiohttp.ClientTimeout(total=3600.0))
            worker.silent = False
            assert not worker.tasks
            assert [each.method for each in worker.taken] == ["POST"] * 3
            async with session.post(url) as answer:
                assert answer.status == 200
        await worker.close()

    simulate(story())
