"""The pool on the embedded cluster: choosing, growing, waiting."""

from tests.reconciler.scaler.shared.basin import POOL, Basin, in_basin


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
