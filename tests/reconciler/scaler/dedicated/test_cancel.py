"""Cancelling a task, and removing its worker at once."""

import asyncio

import pytest

from ebbtide.sim.faults import Answer, Delay, When
from reconciler.scaler.contract import Unavailable
from tests.reconciler.scaler.dedicated.stage import ID1, NAME1, SETS, Stage, story, task


@story()
async def test_ws_06_a_cancel_reaches_the_worker(stage: Stage) -> None:
    process = stage.start()
    worker = await stage.imports(process)
    assert await process.dedicated.cancel(ID1, remove=False)
    deletes = [taken.query for taken in worker.taken if taken.method == "DELETE"]
    assert deletes == [{"cluster_id": "7", "task_id": str(ID1)}]
    assert stage.sets() == [NAME1]


@story()
async def test_ws_06_a_worker_that_does_not_answer_is_temporary_trouble(stage: Stage) -> None:
    process = stage.start()
    worker = await stage.imports(process)
    worker.silent = True
    with pytest.raises(Unavailable) as refused:
        await process.dedicated.cancel(ID1, remove=False)
    assert refused.value.code == "StatusUnknown"


@story()
async def test_an_unknown_task_is_not_cancelled(stage: Stage) -> None:
    process = stage.start()
    await process.ready()
    assert not await process.dedicated.cancel(ID1, remove=False)
    assert not await process.dedicated.cancel(ID1, remove=True)


@story()
async def test_ws_40_a_worker_is_removed_at_once_whatever_it_does(stage: Stage) -> None:
    process = stage.start()
    worker = await stage.imports(process)
    await process.place(task(1))
    worker.silent = True
    assert await process.dedicated.cancel(ID1, remove=True)
    assert process.dedicated.find(ID1) is None
    assert NAME1 not in stage.sets()
    await stage.until(lambda: not any(NAME1 in name for name in stage.left()))
    assert process.metric("worker_scaler_cleanup_total", reason="cancelled") == 1
    assert process.dedicated.find(task(1)) is not None


@story()
async def test_whoever_waits_for_a_cancelled_worker_is_told(stage: Stage) -> None:
    stage.no_room()
    process = stage.start()
    asked = process.ask()
    await stage.until(stage.sets)
    await asyncio.sleep(1.0)
    assert await process.dedicated.cancel(ID1, remove=True)
    beat = await asked
    assert beat.refused is not None
    assert beat.refused.code == "Cancelled"
    await stage.until(lambda: not stage.left())


@story()
async def test_a_worker_that_is_being_created_while_its_task_is_cancelled_goes_again(stage: Stage) -> None:
    stage.faults.inject(Delay(before=2.0), When(method="POST", path=SETS))
    process = stage.start()
    await process.ready()
    asked = process.ask()
    await asyncio.sleep(1.0)
    assert await process.dedicated.cancel(ID1, remove=True)
    assert (await asked).refused is not None
    await stage.until(stage.sets)
    await stage.until(lambda: not stage.left(), within=10.0)


@story()
async def test_a_removal_that_the_api_refuses_is_temporary_trouble_and_goes_on(stage: Stage) -> None:
    process = stage.start()
    await stage.imports(process)
    stage.faults.inject(Answer(500), When(method="DELETE", path=f"{SETS}/*", times=9))
    with pytest.raises(Unavailable):
        await process.dedicated.cancel(ID1, remove=True)
    await stage.until(lambda: not stage.left(), within=120.0)


@story()
async def test_a_task_comes_again_after_its_cancel(stage: Stage) -> None:
    process = stage.start()
    await stage.imports(process)
    assert await process.dedicated.cancel(ID1, remove=True)
    assert (await process.place()).ready
