"""What `/readyz` and `/healthz` of the reconciler say while its cluster is away, hangs, or lacks the namespace."""

import asyncio

from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.faults import Delay
from ebbtide.sim.time import simulate
from tests.reconciler.test_main import NAMESPACE, Running, play, running
from tests.waiting import until


def test_leader_and_follower_are_not_ready_soon_after_the_cluster_went_away_and_ready_once_it_is_back() -> None:
    async def story(cluster: Cluster) -> None:
        a, b = Running(cluster, "a"), Running(cluster, "b")
        async with running(a, b):
            await until(lambda: a.ready and b.ready)
            cluster.wire.refusing = True
            cluster.wire.reset()
            await asyncio.sleep(25)
            for each in (a, b):
                assert each.program.health.readiness().reasons["lease"].startswith("no answer for 2")
                assert each.program.health.liveness().good
            cluster.wire.refusing = False
            await until(lambda: a.ready and b.ready, within=10)

    play(story)


def test_a_server_that_hangs_makes_it_not_ready_and_not_dead() -> None:
    async def story(cluster: Cluster) -> None:
        a = Running(cluster, "a")
        async with running(a):
            await until(lambda: a.ready)
            cluster.faults.inject(Delay(before=3600))
            await asyncio.sleep(25)
            assert "did not answer in time" in a.program.health.readiness().reasons["lease"]
            assert a.program.health.liveness().good

    play(story)


def test_leader_and_follower_of_a_quiet_cluster_stay_ready() -> None:
    async def story(cluster: Cluster) -> None:
        a, b, dry = Running(cluster, "a"), Running(cluster, "b"), Running(cluster, "dry", dry_run=True)
        async with running(a, b, dry):
            await until(lambda: a.ready and b.ready and dry.ready)
            for _ in range(1200):
                await asyncio.sleep(1)
                assert all(each.ready for each in (a, b, dry))

    play(story)


def test_without_the_namespace_of_the_lease_it_is_not_ready_and_says_what_to_do() -> None:
    async def story() -> None:
        async with Cluster() as cluster:
            a = Running(cluster, "a")
            async with running(a):
                await asyncio.sleep(60)
                reason = a.program.health.readiness().reasons["lease"]
                assert f"namespace {NAMESPACE!r} of the lease does not exist: create it" in reason
                assert a.program.health.liveness().good
                cluster.create(objects.namespace(NAMESPACE))
                await until(lambda: a.leads and a.ready)

    simulate(story())


def test_a_dry_run_is_not_ready_once_nothing_is_heard_of_the_nodes() -> None:
    async def story(cluster: Cluster) -> None:
        a = Running(cluster, "a", dry_run=True)
        async with running(a):
            await until(lambda: a.ready)
            cluster.wire.refusing = True
            cluster.wire.reset()
            await asyncio.sleep(160)
            assert "nothing heard" in a.program.health.readiness().reasons["nodes"]
            assert a.program.health.liveness().good

    play(story)
