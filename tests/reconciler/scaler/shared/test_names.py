"""Clients are sent to a pod of the pool by a name, and only once DNS knows it."""

import asyncio

import pytest

from ebbtide.sim.kinds import PODS
from reconciler.scaler.resolving import RESOLVED_WITHIN
from tests.reconciler.scaler.shared.basin import POOL, Basin, in_basin, pod_of, task

HOST = f"{POOL}-0.{POOL}.tidb-serverless.svc.cluster.local"


@in_basin()
async def test_nobody_is_sent_to_a_name_that_dns_has_not_heard_of(basin: Basin) -> None:
    process = basin.start()
    basin.names_known = False
    waiting = [asyncio.create_task(basin.insist(number)) for number in range(3)]
    await basin.until(lambda: basin.asked_names)
    found = process.pool.find(task(0))
    assert found is not None
    assert (found.ready, found.reason) == (False, f"pod {POOL}-0 is not known to DNS yet")
    await asyncio.sleep(5)
    assert not any(each.done() for each in waiting)
    basin.names_known = True
    begun = basin.time
    assert {pod_of(await each) for each in waiting} == {f"{POOL}-0"}
    assert basin.time - begun < 1
    found = process.pool.find(task(0))
    assert found is not None
    assert found.ready
    assert {*basin.asked_names} == {HOST}


@in_basin()
async def test_a_name_is_asked_for_once_in_the_life_of_a_pod(basin: Basin) -> None:
    basin.start()
    await asyncio.gather(*(basin.insist(number) for number in range(10)))
    await basin.insist(11)
    assert basin.asked_names == [HOST]
    basin.delete(PODS, f"{POOL}-0")
    await asyncio.sleep(30)
    await basin.insist(12)
    assert basin.asked_names == [HOST] * 2


@in_basin()
async def test_who_cannot_see_names_sends_clients_there_after_a_while_all_the_same(basin: Basin) -> None:
    """Our resolver may be another than the clients'."""
    basin.start()
    await basin.insist(1)
    basin.names_known = False
    basin.delete(PODS, f"{POOL}-0")
    await asyncio.sleep(30)
    begun = basin.time
    assert (await basin.insist(2)).ready
    assert RESOLVED_WITHIN - 0.1 <= basin.time - begun <= RESOLVED_WITHIN + 5
    begun = basin.time
    assert (await basin.insist(3)).ready
    assert basin.time - begun < 1


@pytest.mark.parametrize("number", range(2))
def test_who_hangs_up_does_not_keep_others_from_waiting(number: int) -> None:
    """Whichever of the two it is that asks for both."""

    @in_basin()
    async def story(basin: Basin) -> None:
        process = basin.start()
        basin.names_known = False
        clients = [asyncio.create_task(basin.insist(each)) for each in range(2)]
        await basin.until(lambda: basin.asked_names)
        await asyncio.sleep(1)
        clients.pop(number).cancel()
        (left,), other = clients, task(1 - number)
        await asyncio.sleep(1)
        assert not left.done()
        found = process.pool.find(other)
        assert found is not None
        assert (found.ready, found.reason) == (False, f"pod {POOL}-0 is not known to DNS yet")
        basin.names_known = True
        assert pod_of(await left) == f"{POOL}-0"
        assert process.pool.find(other) == await left

    story()


@in_basin()
async def test_nothing_is_remembered_of_a_pod_that_went_while_its_name_was_waited_for(basin: Basin) -> None:
    process = basin.start()
    basin.names_known = False
    waiting = asyncio.create_task(basin.insist(0))
    await basin.until(lambda: basin.asked_names)
    pod = process.knowledge.stores.pod(f"{POOL}-0")
    assert pod is not None
    basin.delete(PODS, f"{POOL}-0")
    await asyncio.sleep(RESOLVED_WITHIN + 30)
    await waiting
    assert not process.knowledge.names.known(pod)


@in_basin(worker_address="pod-ip")
async def test_where_clients_get_addresses_nothing_is_asked(basin: Basin) -> None:
    basin.start()
    await basin.insist(1)
    assert basin.asked_names == []
