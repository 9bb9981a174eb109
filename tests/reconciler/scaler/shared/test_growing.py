"""The pool on the embedded cluster: choosing, growing, waiting."""

import asyncio
from collections import Counter

import pytest

from ebbtide.sim import objects
from ebbtide.sim.faults import Answer, When
from ebbtide.sim.kinds import NODES, STATEFUL_SETS
from reconciler.scaler.contract import Unavailable
from tests.reconciler.scaler.refused import QUOTA, SECURITY, block, tell, unblock
from tests.reconciler.scaler.shared.basin import NAMESPACE, POOL, TEMPLATE, Basin, in_basin, pod_of, settings


@in_basin()
async def test_the_first_task_makes_the_pool_and_gets_its_first_pod(basin: Basin) -> None:
    basin.start()
    place = await basin.insist(1)
    assert place.address == "http://ldw-shared-0.ldw-shared.tidb-serverless.svc.cluster.local:19500"
    assert basin.replicas == 1
    assert basin.promises() == {"1-170-1-0": 0}
    assert basin.busy() == {"ldw-shared-0"}


@in_basin()
async def test_ws_46_a_burst_at_zero_makes_three_pods_in_at_most_three_writes(basin: Basin) -> None:
    basin.start()
    await basin.until(lambda: not basin.process.pool.discovered)
    pods = await basin.begin(*range(40))
    assert basin.replicas == 3
    assert max(pods.count(f"{POOL}-{n}") for n in range(3)) <= 24
    assert len(basin.writes("statefulsets")) <= 3


@in_basin()
async def test_ws_44_nobody_waits_while_a_pod_has_a_slot_although_the_pool_grows(basin: Basin) -> None:
    basin.start()
    await basin.begin(*range(16))
    began = basin.time
    place = await basin.place(16)
    assert pod_of(place) == f"{POOL}-0"
    assert basin.time - began < 0.5
    await basin.until(lambda: basin.replicas == 2)


@in_basin(shared_max_replicas=1)
async def test_ws_44_a_pool_that_may_not_grow_is_filled_beyond_the_cap_and_that_is_counted(basin: Basin) -> None:
    process = basin.start()
    assert set(await basin.begin(*range(30))) == {f"{POOL}-0"}
    assert process.metric("worker_scaler_shared_beyond_cap_total") == 6


@in_basin(shared_max_replicas=1, shared_hard_cap=True)
async def test_ws_44_a_hard_cap_refuses_at_once(basin: Basin) -> None:
    basin.start()
    await basin.begin(*range(24))
    began = basin.time
    with pytest.raises(Unavailable, match="full"):
        await basin.place(99)
    assert basin.time - began < 1


@in_basin(shared_scale_up_tasks_per_pod=32)
async def test_ws_47_who_came_first_gets_the_slot_that_is_free_first(basin: Basin) -> None:
    process = basin.start()
    basin.slowly(60)
    await basin.begin(*range(24))
    await basin.until(lambda: basin.loads() == [24])
    waiting = [asyncio.create_task(basin.place(100 + number)) for number in range(3)]
    await basin.until(lambda: len(process.facts().waiting) == 3)
    basin.finish(0)
    began = basin.time
    first = pod_of(await waiting[0])
    assert basin.time - began < 15
    others = [pod_of(await each) for each in waiting[1:]]
    assert (first, others) == (f"{POOL}-0", [f"{POOL}-1"] * 2)


@in_basin(shared_scale_up_tasks_per_pod=32)
async def test_ws_48_a_wait_ends_at_its_time_and_the_growth_stays(basin: Basin) -> None:
    basin.start()
    await basin.begin(*range(24))
    for name in ("n0", "n1", "n2"):
        basin.patch(NODES, name, {"spec": {"unschedulable": True}})
    began = basin.time
    with pytest.raises(Unavailable) as refused:
        await basin.place(99)
    assert refused.value.code == "NoCapacity"
    assert 299 < basin.time - began < 302
    assert basin.replicas == 2
    assert "NoCapacity" in basin.process.conditions()
    for name in ("n0", "n1", "n2"):
        basin.patch(NODES, name, {"spec": {"unschedulable": None}})
    assert pod_of(await basin.place(99)) == f"{POOL}-1"


@in_basin(shared_scale_up_tasks_per_pod=32)
async def test_ws_49_a_pod_that_is_waited_for_is_not_scaled_away(basin: Basin) -> None:
    basin.start()
    await basin.begin(*range(24))
    for name in ("n0", "n1", "n2"):
        basin.patch(NODES, name, {"spec": {"unschedulable": True}})
    client = asyncio.create_task(basin.insist(99))
    for _ in range(20):
        await asyncio.sleep(100)
        assert basin.replicas <= 3
        assert basin.replicas >= 2
    client.cancel()


@in_basin(shared_min_replicas=2)
async def test_ws_66_the_minimum_is_there_without_any_request_and_moves_with_the_settings(basin: Basin) -> None:
    first = basin.start()
    await basin.until(lambda: basin.replicas == 2)
    await first.kill()
    basin.start("two", settings(shared_min_replicas=3))
    await basin.until(lambda: basin.replicas == 3)


@in_basin()
async def test_ws_54_a_burst_on_old_answers_overfills_no_pod(basin: Basin) -> None:
    basin.start("one", settings(shared_min_replicas=4))
    await basin.until(lambda: len(basin.process.facts().usable) == 4)
    places = await asyncio.gather(*(basin.place(number) for number in range(90)))
    counts = Counter(map(pod_of, places))
    assert max(counts.values()) <= 24
    assert basin.replicas == 6


@in_basin(shared_max_replicas=8)
async def test_ws_65_pods_that_quota_refuses_keep_nobody_waiting(basin: Basin) -> None:
    process = basin.start("one", settings(shared_min_replicas=8, shared_max_replicas=8))
    await basin.until(lambda: len(process.facts().usable) == 8)
    refused = [n for n in range(8) if n not in (0, 1, 5)]
    basin.squat(*(f"{POOL}-{number}" for number in refused))
    await basin.until(lambda: len(process.facts().usable) == 3)
    pods = await basin.begin(*range(48))
    assert Counter(pods) == {f"{POOL}-{n}": 16 for n in (0, 1, 5)}
    await basin.until(lambda: "QuotaExceeded" in process.conditions())


@in_basin()
async def test_ws_65_who_waits_for_a_pool_that_a_quota_keeps_empty_is_told_so_early(basin: Basin) -> None:
    await told_early(basin, QUOTA, "QuotaExceeded")


@in_basin()
async def test_ws_65_and_so_is_who_waits_for_one_that_is_not_secure_enough(basin: Basin) -> None:
    await told_early(basin, SECURITY, "PodRefused")


async def told_early(basin: Basin, said: str, code: str) -> None:
    """The client, by the same word as whoever looks at the pool's conditions; and it goes on once pods can be made."""
    process = basin.start()
    await basin.until(lambda: not process.pool.discovered)
    block(basin.cluster, f"{POOL}-0")
    waiting = asyncio.create_task(basin.place(1))
    await basin.until(lambda: basin.replicas == 1)
    tell(basin.cluster, POOL, said)
    with pytest.raises(Unavailable) as refused:
        await waiting
    assert (refused.value.code, refused.value.retry_after) == (code, 10)
    assert str(refused.value) == f"no pod is left, and none can be made: {said}"
    assert 30 <= basin.time <= 60
    [condition] = process.pool.describe()["conditions"]
    assert condition == {"reason": code, "note": f"pod 0 cannot be created: {said}"}
    unblock(basin.cluster, f"{POOL}-0")
    assert pod_of(await asyncio.wait_for(basin.insist(1), 60)) == f"{POOL}-0"
    await basin.until(lambda: not process.conditions())


@in_basin()
async def test_ws_65_a_refusal_of_an_hour_ago_says_nothing_of_a_pod_that_is_missing_now(basin: Basin) -> None:
    basin.start()
    await basin.begin(1)
    await asyncio.sleep(1000)
    tell(basin.cluster, POOL, QUOTA, ago=900)
    basin.finish(1)
    basin.squat(f"{POOL}-0")
    await asyncio.sleep(1)
    waiting = asyncio.create_task(basin.place(2))
    await asyncio.sleep(200)
    assert not waiting.done()
    waiting.cancel()


@in_basin()
async def test_ws_69_a_paused_pool_takes_what_it_has_room_for_and_no_more(basin: Basin) -> None:
    process = basin.start()
    await basin.begin(*range(23))
    await basin.until(lambda: basin.replicas == 2)
    await basin.until(lambda: len(process.facts().usable) == 2)
    basin.patch(STATEFUL_SETS, POOL, {"metadata": {"annotations": {"ebbtide/paused": "true"}}})
    await basin.until(lambda: process.facts().paused)
    await basin.begin(*range(100, 125))
    with pytest.raises(Unavailable) as refused:
        await basin.place(999)
    assert refused.value.code == "Paused"
    assert basin.replicas == 2
    assert "Paused" in process.conditions()
    basin.finish(*range(23), *range(100, 125))
    await asyncio.sleep(1500)
    assert basin.replicas == 2


@in_basin()
async def test_ws_72_a_full_disk_counts_like_a_full_pod(basin: Basin) -> None:
    process = basin.start()
    await basin.begin(*range(10), size=2 << 30)
    assert basin.replicas == 1
    assert pod_of(await basin.place(10, size=2 << 30)) == f"{POOL}-1"
    assert process.facts().pods[0].disk == 60 << 30


@in_basin(shared_max_replicas=1)
async def test_ws_72_at_the_maximum_disk_gives_way(basin: Basin) -> None:
    basin.start()
    assert set(await basin.begin(*range(12), size=2 << 30)) == {f"{POOL}-0"}


@in_basin()
async def test_ws_45_from_zero_the_pool_grows_although_no_pod_can_be_listed_or_asked(basin: Basin) -> None:
    basin.start()
    await basin.until(lambda: not basin.process.pool.discovered)
    basin.cluster.faults.inject(Answer(500), When(path="*/pods"))
    basin.cluster.faults.inject(Answer(500), When("WATCH", "*/pods"))
    basin.cluster.faults.cut_watches("*/pods")
    client = asyncio.create_task(basin.insist(1))
    await basin.until(lambda: basin.replicas == 1)
    await asyncio.sleep(100)
    assert basin.replicas == 1
    client.cancel()


@in_basin()
async def test_nothing_is_deleted_without_the_permission_and_all_else_goes_on(basin: Basin) -> None:
    process = basin.start("one", settings(shared_min_replicas=1))
    await basin.begin(1)
    await process.kill()
    basin.slowly(1e9)
    basin.cluster.faults.inject(Answer(403, "Forbidden"), When("DELETE", "*/pods/*"))
    process = basin.start("two", settings(shared_min_replicas=2))
    await basin.until(lambda: len(basin.pods()) == 2)
    await asyncio.sleep(5)
    basin.slowly(2)
    await basin.until(lambda: basin.journal.events("PoolPodNotReplaced"), within=30)
    basin.finish(1)
    await basin.until(lambda: not basin.promises(), within=30)


@in_basin()
async def test_a_quota_that_refuses_the_set_is_told_at_once(basin: Basin) -> None:
    basin.start()
    basin.cluster.faults.inject(Answer(403, "Forbidden", "exceeded quota"), When("POST", "*/statefulsets"))
    await basin.until(lambda: not basin.process.pool.discovered)
    with pytest.raises(Unavailable, match="exceeded quota"):
        await basin.place(1)


@in_basin()
async def test_a_template_that_cannot_be_used_is_told_with_what_it_lacks(basin: Basin) -> None:
    process = basin.start()
    basin.delete(STATEFUL_SETS, TEMPLATE)
    await basin.until(lambda: not process.pool.discovered)
    with pytest.raises(Unavailable, match="does not exist"):
        await basin.place(1)
    await basin.until(lambda: "TemplateUnusable" in process.conditions())


@in_basin()
async def test_somebody_elses_set_of_that_name_is_left_alone(basin: Basin) -> None:
    process = basin.start()
    basin.cluster.create(objects.stateful_set(POOL, namespace=NAMESPACE, replicas=2))
    await basin.until(lambda: not process.pool.discovered)
    with pytest.raises(Unavailable, match="not ours"):
        await basin.place(1)
    assert not basin.writes("statefulsets")
