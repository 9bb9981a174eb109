"""The pool across restarts and leaders, lost workers, outages, and somebody else's hand on its size."""

import asyncio

import pytest

from ebbtide.sim.faults import Delay, Drop, When
from ebbtide.sim.kinds import CONFIG_MAPS, NODES, PODS, STATEFUL_SETS
from ebbtide.sim.time import SimulatedClock
from reconciler.scaler.contract import Arrival, Unavailable
from reconciler.scaler.shared.standing import CLUSTERS_KEPT
from tests.reconciler.scaler.shared.basin import CLUSTER, MB, POOL, Basin, in_basin, pod_of, settings, task
from tests.simulation.wiretap import Hook

LEDGER = "/api/v1/namespaces/*/configmaps*"


def where(basin: Basin, *numbers: int) -> dict[int, str]:
    """The pod of each task, as the process knows it."""
    places = {number: basin.process.pool.find(task(number)) for number in numbers}
    return {number: pod_of(place) for number, place in places.items() if place is not None}


@in_basin()
async def test_ws_55_after_a_restart_all_is_read_once_and_every_task_is_where_it_was(basin: Basin) -> None:
    first = basin.start()
    pods = await basin.begin(*range(30))
    await basin.until(lambda: sum(basin.loads()) == 30)
    await first.kill()
    for worker in basin.workers.values():
        worker.delay = 4
    process = basin.start("two")
    await basin.until(lambda: "have not been read" in process.pool.discovered)
    with pytest.raises(Unavailable) as refused:
        await basin.place(3)
    assert refused.value.code == "Discovering"
    await basin.until(lambda: not process.pool.discovered)
    assert where(basin, *range(30)) == dict(enumerate(pods))
    assert [pod_of(await basin.place(number)) for number in range(30)] == pods
    await asyncio.sleep(20)
    basin.finish(*range(30))
    began = basin.time
    await basin.until(lambda: basin.replicas == 0, within=700)
    assert basin.time - began > 595


@in_basin()
async def test_ws_55_a_worker_that_never_answers_does_not_stop_the_pool_for_good(basin: Basin) -> None:
    first = basin.start("growing", settings(shared_min_replicas=2))
    await basin.until(lambda: len(first.facts().usable) == 2)
    await basin.begin(1)
    await first.kill()
    basin.workers[f"{POOL}-1"].silent = True
    process = basin.start("two")
    await asyncio.sleep(200)
    assert process.pool.discovered
    await basin.until(lambda: not process.pool.discovered, within=200)
    await basin.begin(2)
    await asyncio.sleep(1500)
    assert basin.replicas == 2
    assert "StatusUnknown" in process.conditions()


@in_basin()
async def test_ws_56_a_promise_that_was_stored_holds_although_nobody_was_told(basin: Basin) -> None:
    first = basin.start("growing", settings(shared_min_replicas=3))
    await basin.until(lambda: len(first.facts().usable) == 3)
    await basin.begin(*range(16))
    kills: list[asyncio.Task[None]] = []
    basin.journal.hooks.append(
        Hook("PATCH", LEDGER, lambda _: kills.append(asyncio.ensure_future(first.kill())), answered=True)
    )
    client = asyncio.ensure_future(basin.place(99))
    await basin.until(lambda: kills)
    await kills[0]
    await asyncio.gather(client, return_exceptions=True)
    stored = basin.promises()
    assert stored[str(task(99))] == 1
    basin.start("two")
    assert pod_of(await basin.insist(99)) == f"{POOL}-1"


@in_basin()
async def test_a_promise_whose_answer_was_lost_is_kept_for_the_client_that_comes_again(basin: Basin) -> None:
    basin.start()
    await basin.begin(1)
    basin.cluster.faults.inject(Drop(processed=True), When("PATCH", LEDGER, times=1))
    with pytest.raises(Unavailable):
        await basin.place(99)
    assert pod_of(await basin.insist(99)) == f"{POOL}-0"
    assert basin.promises()[str(task(99))] == 0


@in_basin()
async def test_ws_57_two_leaders_in_turn_give_each_task_one_place(basin: Basin) -> None:
    first = basin.start("one", settings(shared_min_replicas=4))
    await basin.until(lambda: len(first.facts().usable) == 4)
    inits = [asyncio.ensure_future(first.place(Arrival(task(n), CLUSTER, MB))) for n in range(60)]
    basin.start("two", settings(shared_min_replicas=4))
    # The first believes that it leads until its writes fail; then it loses its permit.
    inits += [asyncio.ensure_future(basin.insist(n)) for n in range(200)]
    await asyncio.sleep(0.05)
    inits += [asyncio.ensure_future(first.place(Arrival(task(n), CLUSTER, MB))) for n in range(100, 200)]
    await asyncio.sleep(2)
    first.leads = False
    answers = await asyncio.gather(*inits, return_exceptions=True)
    told: dict[object, set[str]] = {}
    for answer in answers:
        if not isinstance(answer, BaseException):
            told.setdefault(answer.task, set()).add(pod_of(answer))
    assert all(len(pods) == 1 for pods in told.values())
    stored = {each: {f"{POOL}-{ordinal}"} for each, ordinal in basin.promises().items()}
    assert stored == {str(each): pods for each, pods in told.items()}
    assert len(stored) == 200


@in_basin()
async def test_a_write_of_an_earlier_leader_that_comes_late_changes_nothing(basin: Basin) -> None:
    """It is held up on its way while the next one takes the ledger over."""
    first = basin.start("one", settings(shared_min_replicas=2))
    await basin.until(lambda: len(first.facts().usable) == 2)
    await basin.begin(1)
    basin.cluster.faults.inject(Delay(before=20), When("PATCH", LEDGER, user_agent="one", times=1))
    late = asyncio.ensure_future(first.place(Arrival(task(99), CLUSTER, MB)))
    await asyncio.sleep(1)
    first.leads = False
    second = basin.start("two")
    await basin.until(lambda: not second.pool.discovered)
    await asyncio.sleep(25)
    assert basin.promises() == {str(task(1)): 0}
    late.cancel()
    await asyncio.gather(late, return_exceptions=True)


@in_basin()
async def test_ws_61_a_pod_that_began_anew_keeps_its_tasks_for_a_while_and_then_forgets_them(basin: Basin) -> None:
    process = basin.start()
    await basin.begin(*range(5))
    await basin.until(lambda: basin.loads() == [5])
    restart(basin, keeps=False)
    await basin.until(lambda: basin.loads() == [0])
    assert where(basin, *range(5)) == dict.fromkeys(range(5), f"{POOL}-0")
    assert pod_of(await basin.place(3)) == f"{POOL}-0"
    await asyncio.sleep(590)
    assert len(basin.promises()) == 5
    assert basin.replicas == 1
    await basin.until(lambda: not basin.promises(), within=30)
    assert process.pool.find(task(1)) is None
    assert len(basin.journal.events("TasksLost")) == 1


@in_basin()
async def test_ws_61_a_pod_that_finds_its_tasks_again_goes_on(basin: Basin) -> None:
    basin.start()
    await basin.begin(*range(5))
    await basin.until(lambda: basin.loads() == [5])
    restart(basin, keeps=False)
    await basin.until(lambda: basin.loads() == [0])
    await asyncio.sleep(30)
    basin.workers[f"{POOL}-0"].begin(*(str(task(number)) for number in range(5)))
    await basin.until(lambda: basin.loads() == [5])
    await asyncio.sleep(1300)
    assert basin.loads() == [5]
    assert where(basin, 4) == {4: f"{POOL}-0"}


def restart(basin: Basin, *, keeps: bool) -> None:
    running = {"name": "app", "containerID": "containerd://again", "state": {"running": {"startedAt": NOON}}}
    basin.workers[f"{POOL}-0"].restart(keeps=keeps)
    basin.status(f"{POOL}-0", {"containerStatuses": [running]})


NOON = "2026-01-01T12:00:00Z"


@in_basin()
async def test_ws_42_an_answer_of_a_pod_that_was_replaced_says_nothing(basin: Basin) -> None:
    basin.start()
    await basin.begin(1)
    await basin.until(lambda: basin.loads() == [1])
    basin.delete(PODS, f"{POOL}-0")
    await basin.until(lambda: f"{POOL}-0" in basin.pods())
    await asyncio.sleep(100)
    assert where(basin, 1) == {1: f"{POOL}-0"}
    assert basin.replicas == 1


@in_basin(shared_min_replicas=2)
async def test_ws_81_a_lost_node_is_no_capacity_and_loses_no_count(basin: Basin) -> None:
    process = basin.start()
    await basin.until(lambda: len(process.facts().usable) == 2)
    await basin.begin(*range(3))
    homes = {name: pod["spec"]["nodeName"] for name, pod in basin.pods().items()}
    assert homes[f"{POOL}-0"] != homes[f"{POOL}-1"], "the story needs two nodes"
    basin.workers[f"{POOL}-1"].begin(*(str(task(number)) for number in range(50, 54)))
    await basin.until(lambda: basin.loads() == [3, 4])
    basin.delete(NODES, homes[f"{POOL}-1"])
    await asyncio.sleep(5)
    facts = process.facts()
    assert [pod.ordinal for pod in facts.usable] == [0]
    assert facts.total == 7
    assert set(await basin.begin(*range(60, 75))) == {f"{POOL}-0"}
    assert basin.replicas >= 2
    await basin.until(lambda: len(process.facts().usable) == 2, within=120)
    await asyncio.sleep(30)
    assert process.facts().pods[1].reserved == 4


@in_basin()
async def test_ws_70_a_size_changed_by_hand_is_restored_and_told(basin: Basin) -> None:
    process = basin.start("growing", settings(shared_min_replicas=5))
    await basin.until(lambda: len(process.facts().usable) == 5)
    await process.kill()
    process = basin.start()
    await basin.until(lambda: not process.pool.discovered)
    await basin.begin(*range(60))
    await basin.until(lambda: sum(basin.loads()) == 60)
    basin.patch(STATEFUL_SETS, POOL, {"spec": {"replicas": 2}})
    await basin.until(lambda: basin.replicas >= 4, within=11)
    assert "ConflictingWriter" not in process.conditions()
    await asyncio.sleep(300)
    basin.patch(STATEFUL_SETS, POOL, {"spec": {"replicas": 2}})
    await basin.until(lambda: basin.replicas >= 4, within=11)
    await basin.until(lambda: "ConflictingWriter" in process.conditions(), within=11)
    assert len(basin.journal.events("ReplicasChanged")) == 2
    # The third time it is restored more slowly.
    basin.patch(STATEFUL_SETS, POOL, {"spec": {"replicas": 2}})
    took = await basin.until(lambda: basin.replicas >= 4, within=150)
    assert took > 60


@in_basin()
async def test_ws_73_a_clock_that_jumps_changes_nothing(basin: Basin) -> None:
    clock = basin.cluster.clock
    assert isinstance(clock, SimulatedClock)
    basin.start()
    await basin.begin(1)
    await basin.until(lambda: basin.loads() == [1])
    basin.finish(1)
    await basin.until(lambda: basin.loads() == [0])
    began = basin.time
    clock.jump(3600)
    await asyncio.sleep(300)
    assert basin.replicas == 1
    clock.jump(-7200)
    await basin.until(lambda: basin.replicas == 0, within=700)
    assert 595 < basin.time - began < 625


@in_basin()
async def test_ws_74_an_outage_of_the_api_ends_no_import(basin: Basin) -> None:
    process = basin.start()
    pods = await basin.begin(*range(20))
    await basin.until(lambda: sum(basin.loads()) == 20)
    fault = basin.cluster.faults.inject(Drop(), When())
    await asyncio.sleep(60)
    assert where(basin, *range(20)) == dict(enumerate(pods))
    began = basin.time
    with pytest.raises(Unavailable):
        await basin.place(99)
    assert basin.time - began < 60
    basin.finish(*range(20))
    await asyncio.sleep(600)
    basin.cluster.faults.remove(fault)
    back = basin.time
    assert basin.replicas == 2
    await basin.insist(99)
    assert basin.replicas >= 1
    assert basin.time - back < 120
    assert process.pool.find(task(99)) is not None


@in_basin(cluster_id=0)
async def test_the_clusters_of_tasks_outlive_the_process(basin: Basin) -> None:
    """Workers list tasks only of a cluster that is named."""
    first = basin.start()
    await basin.begin(1)
    await basin.until(lambda: basin.loads() == [1])
    basin.finish(1, listed=True)
    await asyncio.sleep(30)
    await first.kill()
    process = basin.start("two")
    await basin.until(lambda: not process.pool.discovered)
    assert process.pool.clusters == {CLUSTER}
    assert process.facts().pods[0].ended == 1


@in_basin(cluster_id=0)
async def test_a_cluster_without_tasks_is_asked_for_a_while_longer_and_then_forgotten(basin: Basin) -> None:
    """Whoever was sent to the pool may begin late; in the end others have its room."""
    process = basin.start()
    await basin.begin(1)
    await basin.until(lambda: basin.loads() == [1])
    basin.finish(1)
    await asyncio.sleep(CLUSTERS_KEPT - 60)
    assert process.pool.clusters == {CLUSTER}
    await asyncio.sleep(120)
    assert process.pool.clusters == set()


@in_basin()
async def test_a_ledger_that_is_deleted_is_written_anew(basin: Basin) -> None:
    basin.start()
    await basin.begin(1)
    basin.delete(CONFIG_MAPS, f"{POOL}-ledger")
    with pytest.raises(Unavailable):
        await basin.place(2)
    await basin.insist(2)
    assert basin.promises() == {str(task(1)): 0, str(task(2)): 0}


@in_basin()
async def test_a_cancel_that_the_worker_does_not_know_forgets_the_promise(basin: Basin) -> None:
    process = basin.start()
    await basin.insist(1)
    assert await process.pool.cancel(task(1), remove=False)
    assert not await process.pool.cancel(task(1), remove=False)
    await basin.until(lambda: not basin.promises(), within=15)


@in_basin()
async def test_a_cancel_reaches_the_worker(basin: Basin) -> None:
    process = basin.start()
    await basin.begin(1)
    assert await process.pool.cancel(task(1), remove=False)
    assert not basin.workers[f"{POOL}-0"].tasks[task(1)].running
    basin.workers[f"{POOL}-0"].refusing = 500
    with pytest.raises(Unavailable):
        await process.pool.cancel(task(1), remove=False)
