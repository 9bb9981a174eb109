"""The pool on the embedded cluster: idle clocks, the tail that goes, what keeps it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ebbtide.kube.errors import BudgetRefused
from ebbtide.kube.resources import PDBS
from ebbtide.sim.faults import Answer, Delay, Drop, When
from ebbtide.sim.kinds import CONFIG_MAPS, PODS, SERVICES, STATEFUL_SETS
from reconciler.scaler.budget import NAME, body
from tests.reconciler.scaler.shared.basin import NAMESPACE, POOL, Basin, in_basin, pod_of, settings, task
from tests.simulation.wiretap import Hook

SETS = "/apis/apps/v1/namespaces/*/statefulsets/*"
LEDGERS = "/api/v1/namespaces/*/configmaps/*"


async def grown(basin: Basin, pods: int, **changed: object) -> None:
    """A pool of so many pods that nothing runs on, and that nothing keeps but their idle time; all just seen empty."""
    first = basin.start("growing", settings(shared_min_replicas=pods, **changed))
    await basin.until(lambda: len(first.facts().usable) == pods)
    await first.kill()
    basin.start("one", settings(**changed))
    await basin.until(lambda: not basin.process.pool.discovered)
    await basin.until(lambda: all(pod.idle is not None for pod in basin.process.facts().pods))


@in_basin()
async def test_from_zero_to_many_and_back_to_nothing(basin: Basin) -> None:
    basin.start()
    await basin.begin(*range(60))
    assert basin.replicas == 4
    await basin.until(lambda: sum(basin.loads()) == 60)
    basin.finish(*range(60))
    took = await basin.until(lambda: basin.replicas == 0, within=700)
    assert took > 595
    await basin.until(lambda: not basin.pods() and not basin.claims(), within=30)
    assert not basin.promises()
    assert basin.found(STATEFUL_SETS, POOL) is not None
    assert basin.found(SERVICES, POOL) is not None


@in_basin()
async def test_ws_50_the_removed_ordinals_are_the_idle_tail_in_one_conditional_write(basin: Basin) -> None:
    await grown(basin, 5)
    await basin.begin(1, 2, 3)
    before = len(basin.writes("statefulsets", "PATCH"))
    await basin.until(lambda: basin.replicas == 1, within=700)
    writes = basin.writes("statefulsets", "PATCH")[before:]
    assert len(writes) == 1
    assert {operation["path"] for operation in writes[0].document} == {"/metadata/resourceVersion", "/spec/replicas"}
    await basin.until(lambda: set(basin.pods()) == {f"{POOL}-0"})


@in_basin()
async def test_ws_50_an_ended_task_that_is_still_listed_keeps_its_pod(basin: Basin) -> None:
    basin.start()
    await basin.begin(1)
    await basin.until(lambda: basin.loads() == [1])
    basin.finish(1, listed=True)
    await asyncio.sleep(3000)
    assert basin.replicas == 1
    # The pod itself tells of it: the ledger need not remember what has ended.
    assert not basin.promises()
    assert basin.process.pool.find(task(1)) is not None


@in_basin(shared_ended_task_grace_sec=100)
async def test_ended_tasks_are_let_go_after_their_grace(basin: Basin) -> None:
    basin.start()
    await basin.begin(1)
    await basin.until(lambda: basin.loads() == [1])
    basin.finish(1, listed=True)
    took = await basin.until(lambda: basin.replicas == 0, within=1000)
    assert took > 695


async def one_silence(basin: Basin) -> None:
    worker = basin.workers[f"{POOL}-2"]
    worker.refusing = 500
    await asyncio.sleep(11)
    worker.refusing = 0


async def one_restart(basin: Basin) -> None:
    running = {
        "name": "app",
        "containerID": "containerd://again",
        "state": {"running": {"startedAt": "2026-01-01T00:30:00Z"}},
    }
    basin.status(f"{POOL}-2", {"containerStatuses": [running]})
    await asyncio.sleep(5)


async def one_promise(basin: Basin) -> None:
    """On all three pods, so that the last one has one too; then all are cancelled before they begin."""
    places = [await basin.place(number) for number in range(33)]
    assert {pod_of(place) for place in places} == {f"{POOL}-{n}" for n in range(3)}
    for number in range(33):
        assert await basin.process.pool.cancel(task(number), remove=False)


async def our_restart(basin: Basin) -> None:
    await basin.process.kill()
    basin.start("two")


@pytest.mark.parametrize("trouble", [one_silence, one_restart, one_promise, our_restart])
def test_ws_51_the_idle_time_begins_anew(trouble: Callable[[Basin], Coroutine[Any, Any, None]]) -> None:
    @in_basin()
    async def story(basin: Basin) -> None:
        await grown(basin, 3)
        await asyncio.sleep(590)
        await trouble(basin)
        calm = basin.time
        await basin.until(lambda: basin.replicas < 3, within=1300)
        assert 595 < basin.time - calm < 640

    story()


@in_basin(shared_idle_pod_expire_sec=0)
async def test_ws_51_and_53_without_an_idle_time_a_promise_still_keeps_its_pod(basin: Basin) -> None:
    basin.start()
    place = await basin.insist(1)
    await asyncio.sleep(60)
    assert basin.replicas == 1
    basin.workers[pod_of(place)].begin(str(task(1)))
    await basin.until(lambda: basin.loads() == [1])
    basin.finish(1)
    await basin.until(lambda: basin.replicas == 0, within=30)


@in_basin(shared_idle_pod_expire_sec=0, reservation_seconds=600)
async def test_ws_53_a_client_that_never_comes_is_waited_for_as_long_as_promised(basin: Basin) -> None:
    basin.start()
    await basin.insist(1)
    took = await basin.until(lambda: basin.replicas == 0, within=700)
    assert 599 < took < 625
    assert not basin.promises()
    assert basin.process.pool.find(task(1)) is None


def raced(method: str, path: str) -> Callable[[], None]:
    """The inits of tasks arrive at the very moment of a write of the shrink."""

    @in_basin()
    async def story(basin: Basin) -> None:
        await grown(basin, 4)
        await asyncio.sleep(580)
        inits: list[asyncio.Task[tuple[str, str]]] = []

        async def init(number: int) -> tuple[str, str]:
            """The pod that it is sent to, and which one of that name."""
            pod = pod_of(await basin.insist(number))
            return pod, basin.pods()[pod]["metadata"]["uid"]

        def arrive(_request: object) -> None:
            inits.extend(asyncio.ensure_future(init(number)) for number in range(60))

        basin.journal.hooks.append(Hook(method, path, arrive))
        # So long that whoever is not kept waiting has its place before the write is through.
        basin.cluster.faults.inject(Delay(before=2), When(method, path, times=1))
        await basin.until(lambda: inits, within=100)
        sent = await asyncio.gather(*inits)
        await asyncio.sleep(30)
        uids = {name: pod["metadata"]["uid"] for name, pod in basin.pods().items()}
        assert set(sent) <= set(uids.items())
        assert len(basin.promises()) == 60

    return story


@pytest.mark.parametrize(
    ("method", "path"), [("PATCH", LEDGERS), ("POST", LEDGERS.removesuffix("/*")), ("PATCH", SETS)]
)
def test_ws_52_an_init_amid_a_shrink_is_never_sent_to_a_pod_that_goes(method: str, path: str) -> None:
    raced(method, path)()


@in_basin()
async def test_ws_52_tasks_that_turn_up_at_the_last_look_keep_their_pod(basin: Basin) -> None:
    await grown(basin, 2)
    await asyncio.sleep(570)
    basin.journal.hooks.append(
        Hook("POST", LEDGERS.removesuffix("/*"), lambda _: basin.workers[f"{POOL}-1"].begin(str(task(9))))
    )
    await asyncio.sleep(60)
    assert basin.replicas == 2
    basin.finish(9)
    await basin.until(lambda: basin.replicas == 0, within=1300)


@in_basin()
async def test_a_write_of_the_size_whose_answer_is_lost_is_found_out(basin: Basin) -> None:
    await grown(basin, 3)
    basin.cluster.faults.inject(Drop(processed=True), When("PATCH", SETS, times=1))
    await basin.until(lambda: basin.replicas == 0, within=700)
    await basin.until(lambda: basin.process.facts().closing is None)
    await basin.begin(1)
    assert "closing" not in (basin.found(CONFIG_MAPS, f"{POOL}-ledger") or {})["data"]


@in_basin()
async def test_a_process_that_dies_amid_a_shrink_leaves_no_pod_closed(basin: Basin) -> None:
    await grown(basin, 3)
    await basin.begin(1)
    process = basin.process
    dying: list[asyncio.Task[None]] = []
    basin.journal.hooks.append(Hook("PATCH", SETS, lambda _: dying.append(asyncio.ensure_future(process.kill()))))
    await basin.until(lambda: dying, within=700)
    await dying[0]
    basin.start("next")
    await basin.until(lambda: not basin.process.pool.discovered)
    await basin.begin(*range(100, 140))
    assert basin.replicas == 3
    assert "closing" not in (basin.found(CONFIG_MAPS, f"{POOL}-ledger") or {})["data"]


@in_basin()
async def test_a_shrink_of_an_earlier_leader_that_comes_late_takes_no_pod_away(basin: Basin) -> None:
    await grown(basin, 3)
    first = basin.process
    sent: list[object] = []
    basin.journal.hooks.append(Hook("PATCH", SETS, sent.append))
    basin.cluster.faults.inject(Delay(before=30), When("PATCH", SETS, user_agent="one", times=1))
    await basin.until(lambda: sent, within=700)
    first.leads = False
    second = basin.start("two")
    await basin.until(lambda: not second.pool.discovered)
    pods = await basin.begin(*range(100, 140))
    assert f"{POOL}-2" in pods
    await asyncio.sleep(40)
    assert basin.replicas == 3
    assert sum(basin.loads()) == 40


@in_basin()
async def test_ws_64_a_tail_that_never_ran_stays_and_is_told(basin: Basin) -> None:
    process = basin.start("growing", settings(shared_min_replicas=3))
    await basin.until(lambda: len(process.facts().usable) == 3)
    basin.slowly(1e9)
    await process.kill()
    process = basin.start("more", settings(shared_min_replicas=4))
    await basin.until(lambda: basin.replicas == 4)
    await process.kill()
    process = basin.start()
    await asyncio.sleep(3600)
    assert basin.replicas == 4
    assert "TailStuck" in process.conditions()
    await process.kill()
    basin.start("patient", settings(shared_stuck_pod_expire_sec=1800))
    took = await basin.until(lambda: basin.replicas == 0, within=2000)
    assert took > 1795


@in_basin()
async def test_ws_67_a_pool_that_is_switched_off_drains_and_keeps_its_tasks(basin: Basin) -> None:
    first = basin.start("on", settings(shared_min_replicas=2))
    await basin.until(lambda: len(first.facts().usable) == 2)
    await basin.begin(*range(5))
    await first.kill()
    process = basin.start("off", settings(shared_pool_enabled=False, shared_min_replicas=2))
    await basin.until(lambda: not process.pool.discovered)
    place = process.pool.find(task(3))
    assert place is not None
    assert place.ready
    assert pod_of(await basin.place(3)) == f"{POOL}-0"
    await basin.until(lambda: basin.replicas == 1, within=700)
    basin.finish(*range(5))
    await basin.until(lambda: basin.replicas == 0, within=700)


@in_basin(refresh_interval=2)
async def test_ws_71_nothing_is_written_while_nothing_happens(basin: Basin) -> None:
    basin.start()
    await basin.begin(1)
    await basin.until(lambda: basin.loads() == [1])
    await asyncio.sleep(20)
    basin.patch(STATEFUL_SETS, POOL, {"spec": {"revisionHistoryLimit": 7, "minReadySeconds": 0}})
    before = len(basin.writes())
    await asyncio.sleep(600)
    assert len(basin.writes()) == before


@in_basin(shared_idle_pod_expire_sec=60, reservation_seconds=30)
async def test_ws_75_many_tasks_come_and_go_without_a_trace(basin: Basin) -> None:
    basin.start()
    for start in range(0, 10_000, 100):
        await basin.begin(*range(start, start + 100))
        await asyncio.sleep(11)
        basin.finish(*range(start, start + 100))
    await basin.until(lambda: basin.replicas == 0, within=300)
    await basin.until(lambda: not basin.pods() and not basin.claims())
    assert not basin.promises()
    assert not list(basin.process.pool.records())
    assert not basin.process.facts().pods
    text = "".join(f"{m.name}{s.labels}" for m in basin.process.registry.collect() for s in m.samples)
    assert "1-170-" not in text


@in_basin()
async def test_ws_76_a_pod_is_marked_while_it_has_a_task_and_not_after(basin: Basin) -> None:
    await grown(basin, 2)
    assert not basin.busy()
    await basin.begin(1)
    assert basin.busy() == {f"{POOL}-0"}
    await basin.until(lambda: basin.loads() == [1, 0])
    basin.finish(1)
    await basin.until(lambda: not basin.busy(), within=30)


@in_basin()
async def test_ws_76_a_busy_pod_is_not_evicted_and_an_idle_one_is(basin: Basin) -> None:
    await grown(basin, 2)
    await basin.process.client.apply(PDBS, NAME, body(NAMESPACE), namespace=NAMESPACE)
    await basin.begin(1)
    await asyncio.sleep(1)
    uids = {name: pod["metadata"]["uid"] for name, pod in basin.pods().items()}
    with pytest.raises(BudgetRefused):
        await basin.process.client.evict(f"{POOL}-0", namespace=NAMESPACE, uid=uids[f"{POOL}-0"])
    await basin.process.client.evict(f"{POOL}-1", namespace=NAMESPACE, uid=uids[f"{POOL}-1"])


@in_basin()
async def test_a_mark_that_somebody_takes_off_a_busy_pod_comes_back(basin: Basin) -> None:
    basin.start()
    await basin.begin(1)
    basin.patch(PODS, f"{POOL}-0", {"metadata": {"labels": {"ebbtide/busy": None}}})
    await basin.until(lambda: basin.busy() == {f"{POOL}-0"}, within=30)


@in_basin()
async def test_nothing_is_promised_when_the_mark_cannot_be_set(basin: Basin) -> None:
    await grown(basin, 1)
    basin.cluster.faults.inject(Answer(500), When("PATCH", "*/pods/*"))
    with pytest.raises(Exception, match="could not be stored"):
        await basin.place(1)
    assert not basin.promises()
    assert basin.process.pool.find(task(1)) is None
