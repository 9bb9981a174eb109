"""Clients that wait for their worker: thousands of them, some of whom go away."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ebbtide.config.scaler import WorkerScaler
from ebbtide.sim.time import simulate
from reconciler.scaler.contract import MOST_AT_ONCE, Unavailable
from reconciler.scaler.task import TaskId
from tests.reconciler.scaler.front.laws import check
from tests.reconciler.scaler.front.stage import KNOWN, LEADER, LOOPBACK, Stage, front, init, known, raw, state, until

MANY = 1500


def play(story: Callable[[Stage], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def main() -> None:
        async with front(in_memory=True, **options) as stage:
            await story(stage)

    simulate(main())


def test_thousands_wait_at_once_and_each_has_its_answer() -> None:
    async def story(stage: Stage) -> None:
        stage.desk.opened.clear()
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(stage.ask("POST", init(TaskId(1, 1, n // 2, 0)))) for n in range(MANY)]
            await until(lambda: stage.desk.waiting == MANY)
            assert stage.metric("worker_scaler_requests_in_flight") == MANY
            assert (await stage.ask("GET", "cluster_id=7")).status == 200
            stage.desk.opened.set()
        assert Counter(each.result().status for each in asked) == {302: MANY}
        assert len(stage.desk.places) == MANY // 2
        assert stage.metric("worker_scaler_requests_in_flight") == 0
        assert stage.metric("worker_scaler_requests_total", request="init", code="302") == MANY

    play(story)


def test_a_client_that_hangs_up_ends_its_own_waiting_and_nothing_else() -> None:
    async def story(stage: Stage) -> None:
        stage.desk.opened.clear()
        gone, stays = (asyncio.create_task(stage.ask("POST", init())) for _ in range(2))
        await until(lambda: stage.desk.waiting == 2)
        gone.cancel()
        await asyncio.wait([gone])
        await until(lambda: stage.desk.waiting == 1)
        stage.desk.opened.set()
        assert (await stays).status == 302
        assert stage.metric("worker_scaler_requests_in_flight") == 0

    play(story)


@pytest.mark.parametrize("query", [state(), "cluster_id=7&task_id_prefix=1"], ids=["delete", "bulk"])
def test_a_delete_goes_on_when_its_client_hangs_up(query: str) -> None:
    async def story(stage: Stage) -> None:
        stage.desk.places[KNOWN] = known()
        stage.desk.opened.clear()
        gone = asyncio.create_task(stage.ask("DELETE", query))
        await until(lambda: stage.metric("worker_scaler_requests_in_flight") == 1)
        await asyncio.sleep(1)
        gone.cancel()
        await until(lambda: stage.metric("worker_scaler_requests_in_flight") == 0)
        assert stage.desk.cancelled == []
        stage.desk.opened.set()
        await until(lambda: stage.desk.cancelled == [str(KNOWN)])

    play(story)


def test_more_than_can_wait_are_told_to_come_again() -> None:
    async def story(stage: Stage) -> None:
        stage.desk.opened.clear()
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(stage.ask("POST", init())) for _ in range(20)]
            await until(lambda: stage.desk.waiting == 20)
            over = await stage.ask("POST", init())
            check(over, may_redirect=False)
            assert over.status == 503
            stage.desk.opened.set()
        assert {each.result().status for each in asked} == {302}
        assert (await stage.ask("POST", init())).status == 302

    play(story, most_at_once=20)


def test_ten_times_as_many_as_there_may_be_workers_can_wait() -> None:
    assert 10 * WorkerScaler().worker_count_limit < MOST_AT_ONCE


def test_a_replica_that_loses_the_lead_sends_who_waits_to_the_next_leader() -> None:
    async def story(stage: Stage) -> None:
        stage.desk.opened.clear()
        asked = asyncio.create_task(stage.ask("POST", init()))
        await until(lambda: stage.desk.waiting == 1)
        stage.leadership.leading, stage.leadership.elsewhere = False, LEADER
        stage.desk.trouble = Unavailable("this replica does not lead any more")
        stage.desk.opened.set()
        assert (await asked).headers["Location"] == f"{LEADER}/load_data"

    play(story)


# --- the end of a process ---------------------------------------------------------------------------------------------


def test_at_its_end_a_replica_sends_who_waits_and_who_still_comes_to_the_next_leader() -> None:
    async def story(stage: Stage) -> None:
        stage.desk.opened.clear()
        waits = asyncio.create_task(stage.ask("POST", init()))
        await until(lambda: stage.desk.waiting == 1)
        stage.leadership.leading = False
        stage.leadership.successors = ["", "", LEADER]
        stage.service.stop()
        comes = [asyncio.create_task(stage.ask("POST", init())), asyncio.create_task(stage.ask("GET", state()))]
        for answer in [await waits, *[await each for each in comes]]:
            check(answer, may_redirect=True)
            assert (answer.status, answer.headers.get("Location")) == (302, f"{LEADER}/load_data")
            assert answer.headers["Connection"] == "close"
        await stage.serving

    play(story)


def test_at_its_end_a_replica_waits_for_clients_that_were_told_to_come_again() -> None:
    async def story(stage: Stage) -> None:
        stage.desk.trouble = Unavailable("the limit is reached")
        assert (await stage.ask("POST", init())).status == 503
        stage.leadership.leading, stage.leadership.elsewhere = False, LEADER
        stage.service.stop()
        await asyncio.sleep(3)
        assert (await stage.ask("POST", init())).headers["Location"] == f"{LEADER}/load_data"
        await stage.serving

    play(story)


def test_who_waits_for_a_place_when_the_desk_ends_is_sent_to_the_next_leader_too() -> None:
    """The desk ends before the lease is released."""

    async def story(stage: Stage) -> None:
        stage.desk.opened.clear()
        waits = asyncio.create_task(stage.ask("POST", init()))
        await until(lambda: stage.desk.waiting == 1)
        stage.service.leave()
        stage.desk.trouble = Unavailable("its placement was given up")
        stage.desk.opened.set()
        await asyncio.sleep(1)
        stage.leadership.leading = False
        stage.leadership.successors = ["", LEADER]
        stage.service.stop()
        assert (await waits).headers["Location"] == f"{LEADER}/load_data"

    play(story)


def test_at_its_end_a_replica_without_successor_tells_who_waits_to_come_again() -> None:
    async def story(stage: Stage) -> None:
        stage.desk.opened.clear()
        waits = asyncio.create_task(stage.ask("POST", init()))
        await until(lambda: stage.desk.waiting == 1)
        stage.leadership.leading = False
        begun = asyncio.get_running_loop().time()
        stage.service.stop()
        answer = await waits
        check(answer, may_redirect=False)
        assert answer.status == 503
        await stage.serving
        assert asyncio.get_running_loop().time() - begun < 10

    play(story)


def test_at_its_end_a_delete_under_way_is_brought_to_its_end() -> None:
    async def story(stage: Stage) -> None:
        stage.desk.places[KNOWN] = known()
        stage.desk.opened.clear()
        asked = asyncio.create_task(stage.ask("DELETE", state()))
        await until(lambda: stage.metric("worker_scaler_requests_in_flight") == 1)
        await asyncio.sleep(1)
        stage.service.stop()
        await asyncio.sleep(1)
        stage.desk.opened.set()
        assert (await asked).status == 200
        await stage.serving
        assert stage.desk.cancelled == [str(KNOWN)]

    play(story)


def test_idle_connections_do_not_hold_up_the_end() -> None:
    async def story(stage: Stage) -> None:
        idle = [raw(stage) for _ in range(3)]
        stage.leadership.leading, stage.leadership.elsewhere = False, LEADER
        begun = asyncio.get_running_loop().time()
        stage.service.stop()
        await stage.serving
        assert asyncio.get_running_loop().time() - begun < 1
        assert all(each.closed for each in idle)

    play(story)


async def test_the_port_is_free_again_after_the_end() -> None:
    async with front(known()) as stage:
        _, writer = await asyncio.open_connection(LOOPBACK, stage.port)
        stage.service.stop()
        await stage.serving
        writer.close()
        with pytest.raises(OSError, match=str(stage.port)):
            await asyncio.open_connection(LOOPBACK, stage.port)


def test_patience_is_the_settings() -> None:
    async def story(stage: Stage) -> None:
        stage.desk.opened.clear()
        begun = asyncio.get_running_loop().time()
        answer = await stage.ask("POST", init())
        assert answer.status == 503
        assert 20 <= asyncio.get_running_loop().time() - begun < 40

    play(story, rules=WorkerScaler(start_timeout=20.0))
