"""How workers end, and what keeps them."""

import asyncio

import pytest

from ebbtide.sim.faults import Answer, Drop, When
from ebbtide.sim.kinds import PODS, STATEFUL_SETS
from ebbtide.sim.objects import eviction
from tests.reconciler.scaler.dedicated.stage import ID1, NAME1, SETS, TICK, Stage, story, task
from tests.reconciler.scaler.templates import template

SEEN = "ebbtide/task-seen"


async def gone(stage: Stage, within: float) -> float:
    return await stage.until(lambda: not stage.left(), within=within)


@pytest.mark.parametrize("how", ["finish", "cancel"])
def test_ws_26_a_worker_goes_when_its_task_has_been_over_for_long_enough(how: str) -> None:
    @story()
    async def told(stage: Stage) -> None:
        process = stage.start()
        worker = await stage.imports(process)
        await asyncio.sleep(1000.0)
        assert process.state() == "busy"
        getattr(worker, how)(str(ID1))
        took = await gone(stage, 700.0)
        assert 600.0 <= took <= 600.0 + 2 * TICK + 5.0
        assert process.metric("worker_scaler_cleanup_total", reason="idle") == 1
        assert process.metric("worker_scaler_workers", pool="dedicated", state="idle") == 0
        assert not list(process.dedicated.records())
        assert process.dedicated.find(ID1) is None
        await stage.until(lambda: stage.events("WorkerRemoved"))

    told()


@story(expire_seconds=60, reservation_seconds=600)
async def test_ws_27_a_promise_outlasts_the_idle_time(stage: Stage) -> None:
    process = stage.start()
    await process.place()
    assert 600.0 <= await gone(stage, 700.0) <= 600.0 + 2 * TICK + 5.0


@story(expire_seconds=600, reservation_seconds=60)
async def test_ws_27_a_worker_whose_client_never_came_goes(stage: Stage) -> None:
    process = stage.start()
    await process.place()
    assert 600.0 <= await gone(stage, 700.0) <= 600.0 + 2 * TICK + 5.0


@story()
async def test_a_client_that_asks_again_makes_the_idle_time_begin_anew(stage: Stage) -> None:
    process = stage.start()
    await process.place()
    await asyncio.sleep(590.0)
    await process.place()
    assert 600.0 <= await gone(stage, 700.0) <= 600.0 + 2 * TICK + 5.0


@story()
async def test_ws_28_a_silent_task_keeps_its_worker(stage: Stage) -> None:
    process = stage.start()
    await stage.imports(process)
    await asyncio.sleep(3 * 600.0)
    assert process.state() == "busy"
    assert stage.sets() == [NAME1]


@story(stuck_task_expire_seconds=3600)
async def test_ws_28_unless_the_settings_say_how_long_a_task_may_be_silent(stage: Stage) -> None:
    process = stage.start()
    worker = await stage.imports(process)
    await asyncio.sleep(3000.0)
    worker.progress(str(ID1))
    took = await gone(stage, 3700.0)
    assert 3600.0 <= took <= 3600.0 + 2 * TICK + 5.0
    assert process.metric("worker_scaler_cleanup_total", reason="stuck") == 1


@story()
async def test_ws_29_a_worker_that_does_not_say_is_kept(stage: Stage) -> None:
    process = stage.start()
    await process.place()
    stage.worker().silent = True
    await asyncio.sleep(3600.0)
    assert stage.sets() == [NAME1]
    assert process.state() == "unknown"
    assert stage.events("StatusUnknown")
    stage.worker().silent = False
    assert 599.0 <= await gone(stage, 700.0) <= 600.0 + 2 * TICK + 5.0


@story()
async def test_one_failed_answer_makes_the_idle_time_begin_anew(stage: Stage) -> None:
    process = stage.start()
    await process.place()
    await asyncio.sleep(590.0)
    stage.worker().refusing = 500
    await asyncio.sleep(11.0)
    stage.worker().refusing = 0
    assert 589.0 <= await gone(stage, 700.0) <= 600.0 + 2 * TICK + 5.0


@story()
async def test_ws_30_a_worker_that_never_starts_goes(stage: Stage) -> None:
    stage.no_room()
    process = stage.start()
    await process.ready()
    begun, asked = stage.time, process.ask()
    await asyncio.sleep(0.1)
    asked.cancel()
    await gone(stage, 950.0)
    assert 900.0 <= stage.time - begun <= 915.0
    assert process.metric("worker_scaler_cleanup_total", reason="never-ready") == 1


@story()
async def test_a_client_that_only_asks_where_its_task_is_keeps_the_worker_too(stage: Stage) -> None:
    """One that was started anew asks for the state until it is sent there; a 404 would end its import."""
    stage.no_room()
    process = stage.start()
    await process.ready()
    asked = process.ask()
    await asyncio.sleep(800.0)
    process.dedicated.wanted(ID1)
    begun = stage.time
    await gone(stage, 950.0)
    assert 900.0 <= stage.time - begun <= 915.0
    assert (await asked).refused is not None


@story()
async def test_ws_30_counted_from_the_last_time_a_client_asked(stage: Stage) -> None:
    stage.no_room()
    process = stage.start()
    await process.ready()
    begun = stage.time
    clients = [process.ask()]
    await asyncio.sleep(800.0)
    clients.append(process.ask())
    await gone(stage, 950.0)
    assert [(await client).refused is not None for client in clients] == [True, True]
    assert 1700.0 <= stage.time - begun <= 1715.0


@story()
async def test_ws_30_without_any_pod(stage: Stage) -> None:
    stage.faults.inject(Answer(500), When(path="nothing"))
    stage.no_room()
    process = stage.start()
    first = process.ask()
    await stage.until(lambda: stage.names(PODS))
    stage.patch(STATEFUL_SETS, NAME1, {"spec": {"replicas": 0}})
    assert (await first).refused is not None
    await gone(stage, 950.0)
    assert process.metric("worker_scaler_cleanup_total", reason="pod-gone") == 1


@story()
async def test_ws_31_an_init_between_decision_and_deletion_keeps_the_worker(stage: Stage) -> None:
    """The client comes while the worker is asked for the last time."""
    process = stage.start()
    await process.place()
    uid = stage.body(STATEFUL_SETS, NAME1)["metadata"]["uid"]
    await asyncio.sleep(599.0)
    stage.worker().delay = 2.0
    await asyncio.sleep(2.0)
    place = await process.place()
    assert place.ready
    await asyncio.sleep(300.0)
    assert stage.body(STATEFUL_SETS, NAME1)["metadata"]["uid"] == uid


@story()
async def test_ws_31_an_init_while_the_deletion_is_on_its_way_gets_a_new_worker(stage: Stage) -> None:
    process = stage.start()
    await process.place()
    uid = stage.body(STATEFUL_SETS, NAME1)["metadata"]["uid"]
    stage.on("DELETE", f"{SETS}/{NAME1}", lambda _request: process.ask())
    await stage.until(lambda: stage.sets() and stage.body(STATEFUL_SETS, NAME1)["metadata"]["uid"] != uid, within=700.0)
    place = await process.place()
    assert place.ready
    assert stage.pod()["metadata"]["ownerReferences"][0]["uid"] != uid


@story()
async def test_ws_32_any_running_task_is_use(stage: Stage) -> None:
    process = stage.start()
    await process.place()
    worker = stage.worker()
    worker.begin(str(task(5)), str(ID1))
    worker.finish(str(task(5)))
    await asyncio.sleep(1300.0)
    assert process.state() == "busy"
    worker.finish(str(ID1))
    assert await gone(stage, 700.0) >= 600.0


@story()
async def test_ws_33_another_set_of_that_name_stays(stage: Stage) -> None:
    process = stage.start()
    await process.place()

    def replaced(_request: object) -> None:
        body = stage.body(STATEFUL_SETS, NAME1)
        stage.remove(STATEFUL_SETS, NAME1)
        kept = {key: body["metadata"][key] for key in ("name", "namespace", "labels", "annotations")}
        stage.cluster.create({**body, "metadata": kept})

    stage.on("DELETE", f"{SETS}/{NAME1}", replaced)
    await stage.until(lambda: stage.journal.matching("DELETE", f"{SETS}/{NAME1}"), within=700.0)
    await asyncio.sleep(300.0)
    assert stage.sets() == [NAME1]


@story()
async def test_a_worker_that_ran_a_task_is_kept_while_its_pod_is_away(stage: Stage) -> None:
    process = stage.start()
    await stage.imports(process)
    await stage.until(lambda: SEEN in stage.body(STATEFUL_SETS, NAME1)["metadata"]["annotations"])
    stage.no_room()
    stage.remove(PODS, f"{NAME1}-0", grace=0)
    await asyncio.sleep(5000.0)
    assert stage.sets() == [NAME1]
    assert process.state() == "unknown"


@story()
async def test_also_by_a_process_that_has_not_seen_the_task(stage: Stage) -> None:
    first = stage.start()
    await stage.imports(first)
    await stage.until(lambda: SEEN in stage.body(STATEFUL_SETS, NAME1)["metadata"]["annotations"])
    first.kill()
    stage.no_room()
    stage.remove(PODS, f"{NAME1}-0", grace=0)
    second = stage.start("two")
    await second.ready()
    await asyncio.sleep(5000.0)
    assert stage.sets() == [NAME1]
    assert second.state() == "unknown"


@story()
async def test_a_worker_whose_task_is_over_goes_although_its_pod_is_away(stage: Stage) -> None:
    process = stage.start()
    worker = await stage.imports(process)
    await asyncio.sleep(30.0)
    worker.finish(str(ID1))
    await stage.until(lambda: SEEN not in stage.body(STATEFUL_SETS, NAME1)["metadata"]["annotations"])
    stage.no_room()
    stage.remove(PODS, f"{NAME1}-0", grace=0)
    assert await gone(stage, 950.0) >= 899.0


@story()
async def test_ws_76_only_an_idle_worker_may_be_evicted(stage: Stage) -> None:
    process = stage.start()
    worker = await stage.imports(process)
    await asyncio.sleep(30.0)
    assert stage.busy()
    worker.finish(str(ID1))
    await stage.until(lambda: not stage.busy())
    await asyncio.sleep(1.0)
    seen: list[bool] = []
    asked = process.ask()
    asked.add_done_callback(lambda _: seen.append(stage.busy()))
    await asked
    assert seen == [True], "the label is there before the client is sent"
    assert eviction(stage.pod())["metadata"]["name"] == f"{NAME1}-0"


@story()
async def test_ws_73_the_wall_clock_is_no_reason(stage: Stage) -> None:
    process = stage.start()
    await process.place()
    await asyncio.sleep(300.0)
    stage.clock.jump(3600.0)
    await asyncio.sleep(200.0)
    assert stage.sets() == [NAME1]
    stage.clock.jump(-7200.0)
    assert await gone(stage, 200.0) >= 99.0


@story()
async def test_a_restart_begins_every_clock_anew(stage: Stage) -> None:
    first = stage.start()
    await first.place()
    await asyncio.sleep(590.0)
    first.kill()
    second = stage.start("two")
    await second.ready()
    assert 600.0 <= await gone(stage, 700.0) <= 600.0 + 2 * TICK + 5.0


@story()
async def test_ws_35_a_set_that_names_no_task_is_left_alone_and_told_of(stage: Stage) -> None:
    body = template(replicas=0)
    body["metadata"] = {"name": "odd", "namespace": "tidb-serverless", "labels": {"ebbtide/pool": "dedicated"}}
    stage.cluster.create(body)
    process = stage.start()
    await process.place()
    await asyncio.sleep(700.0)
    assert stage.sets() == ["odd"]
    assert len(stage.events("WorkerNotRecognised")) == 1


@story()
async def test_a_deletion_whose_answer_was_lost_is_found_out_about(stage: Stage) -> None:
    process = stage.start()
    await process.place()
    stage.faults.inject(Drop(processed=True), When(method="DELETE", path=f"{SETS}/*", times=1))
    await gone(stage, 700.0)
    await asyncio.sleep(5.0)
    assert process.metric("worker_scaler_cleanup_total", reason="idle") == 1
    assert (await process.place()).ready


@story()
async def test_a_deletion_that_never_arrived_is_repeated(stage: Stage) -> None:
    process = stage.start()
    await process.place()
    lost = stage.faults.inject(Drop(), When(method="DELETE", path=f"{SETS}/*", times=3))
    await gone(stage, 700.0)
    assert lost.hits == 3


@story()
async def test_a_dry_run_only_says_what_would_go(stage: Stage) -> None:
    first = stage.start()
    await first.place()
    first.kill()
    dry = stage.start("dry", dry_run=True)
    await asyncio.sleep(2000.0)
    assert stage.sets() == [NAME1]
    assert dry.state() == "idle"
