"""The limit on workers: exactly so many, whoever asks at once, and nobody is refused who has one."""

import asyncio

import pytest

from ebbtide.sim import objects
from ebbtide.sim.faults import Answer, Delay, Drop, LoseEvents, When
from ebbtide.sim.kinds import STATEFUL_SETS
from reconciler.scaler.contract import Unavailable
from tests.reconciler.scaler.dedicated.stage import NAME1, SETS, Beat, Stage, story, task


async def all_at_once(stage: Stage, count: int) -> list[Beat]:
    process = stage.start()
    await process.ready()
    return list(await asyncio.gather(*(process.ask(task(number)) for number in range(count))))


@story(worker_count_limit=3)
async def test_ws_24_exactly_the_limit_is_admitted_and_those_come_back(stage: Stage) -> None:
    process = stage.start()
    await process.ready()
    beats = await asyncio.gather(*(process.ask(task(number)) for number in range(10)))
    admitted = [number for number, beat in enumerate(beats) if beat.place is not None]
    refused = [beat.refused for beat in beats if beat.refused is not None]
    assert (len(admitted), len(refused), len(stage.sets())) == (3, 7, 3)
    assert all(each.code == "LimitReached" and each.retry_after >= 1 for each in refused)
    for number in admitted:
        assert (await process.place(task(number))).ready
    assert stage.events("LimitReached")


@story(worker_count_limit=3)
async def test_slow_creations_count_while_they_are_under_way(stage: Stage) -> None:
    stage.faults.inject(Delay(before=2.0, after=2.0), When(method="POST", path=SETS))
    beats = await all_at_once(stage, 30)
    assert len([beat for beat in beats if beat.place is not None]) == 3
    assert len(stage.journal.matching("POST", SETS)) == 3


@story(worker_count_limit=3)
async def test_a_creation_that_our_copy_does_not_show_counts(stage: Stage) -> None:
    stage.faults.inject(LoseEvents(count=None), When(method="WATCH", path=SETS))
    process = stage.start(start_timeout=20, worker_count_limit=3)
    await process.ready()
    beats = await asyncio.gather(*(process.ask(task(number)) for number in range(3)))
    assert all(beat.refused is not None for beat in beats), "nothing of them is seen to start"
    late = await process.ask(task(9))
    assert late.refused is not None
    assert late.refused.code == "LimitReached"
    assert len(stage.sets()) == 3


@story(worker_count_limit=3)
async def test_a_creation_that_was_refused_takes_no_place(stage: Stage) -> None:
    stage.faults.inject(Answer(403, "Forbidden", "exceeded quota: sets"), When(method="POST", path=SETS, times=3))
    beats = await all_at_once(stage, 3)
    assert [beat.refused.code for beat in beats if beat.refused is not None] == ["QuotaExceeded"] * 3
    beats = [await stage.start("next").ask(task(number)) for number in range(3)]
    assert all(beat.place is not None for beat in beats)


@story(worker_count_limit=1)
async def test_a_creation_whose_answer_was_lost_keeps_its_place_until_it_is_known(stage: Stage) -> None:
    stage.faults.inject(Drop(processed=True), When(method="POST", path=SETS, times=1))
    process = stage.start()
    first = await process.ask()
    assert first.refused is not None
    other = await process.ask(task(1))
    assert other.refused is not None
    assert other.refused.code == "LimitReached"
    assert (await process.insist()).ready
    assert stage.sets() == [NAME1]


@story(worker_count_limit=1)
async def test_a_creation_that_never_arrived_gives_its_place_back(stage: Stage) -> None:
    stage.faults.inject(Drop(), When(method="POST", path=SETS, times=1))
    process = stage.start()
    first = await process.ask()
    assert first.refused is not None
    await asyncio.sleep(5.0)
    assert (await process.place(task(1))).ready


@story(worker_count_limit=3)
async def test_ws_25_what_is_in_the_api_counts_and_nothing_else(stage: Stage) -> None:
    pool = objects.stateful_set("ldw-shared", namespace="tidb-serverless", replicas=0)
    stage.cluster.create(objects.changed(pool, {"metadata": {"labels": {"ebbtide/pool": "shared"}}}))
    before = stage.start()
    for number in range(3):
        await before.place(task(number))
    before.kill()
    process = stage.start("two")
    with pytest.raises(Unavailable) as refused:
        await process.place(task(3))
    assert refused.value.code == "LimitReached"
    assert (await process.place(task(0))).ready
    stage.remove(STATEFUL_SETS, NAME1)
    await asyncio.sleep(1.0)
    assert (await process.place(task(3))).ready
    with pytest.raises(Unavailable):
        await process.place(task(4))


@story(worker_count_limit=20)
async def test_two_processes_in_turn_never_exceed_the_limit(stage: Stage) -> None:
    """The first one is killed in the middle of a burst of ten times the limit; the second one finishes it."""
    first = stage.start()
    await first.ready()
    lost = [first.ask(task(number)) for number in range(200)]
    await stage.until(lambda: len(stage.sets()) >= 7)
    first.kill()
    assert all(one.result().place is None for one in lost if one.done())
    second = stage.start("two")
    await second.ready()
    beats = await asyncio.gather(*(second.ask(task(number)) for number in range(200)))
    assert len(stage.sets()) == 20
    assert len([beat for beat in beats if beat.place is not None]) == 20
