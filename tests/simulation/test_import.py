"""Whole imports through the reconciler, on simulated time."""

import asyncio

import pytest

from ebbtide.sim.faults import Answer
from tests.doubles.client import Client
from tests.simulation.workers import Site, play_import

LOCAL = ("1-170-1-0", 1 << 20)
MEDIUM = ("1-170-2-0", 3 << 30)
LARGE = ("1-170-2--1", 12 << 30)


async def load(client: Client) -> None:
    """One engine, slowly enough for the scaler to see it run."""
    await client.init()
    for number in range(10):
        await client.write(1, number, b"rows")
        await asyncio.sleep(10.0)
    await client.flush(1)
    await client.build()
    await client.finished()


def test_an_import_of_three_engines_ends_and_nothing_of_it_remains() -> None:
    """A small one runs locally, two large ones on workers of their own, which are gone ten minutes later."""

    async def story(site: Site) -> None:
        replica = site.stage.start()
        await site.stage.until(lambda: len(site.floor.workers) == 3)

        async def one(task: str, size: int) -> str:
            async with site.client(task, size) as client:
                await load(client)
                return client.base

        ends = await asyncio.gather(one(*LOCAL), one(*MEDIUM), one(*LARGE))
        assert len(set(ends)) == 3
        assert site.sets() == ["load-data-worker-1-170-2--1", "load-data-worker-1-170-2-0"]
        placed = {
            target: replica.metric("worker_scaler_placements_total", target=target, result="placed")
            for target in ("local", "dedicated")
        }
        assert placed == {"local": 1, "dedicated": 2}
        took = await site.stage.until(lambda: not site.leftovers(), within=1200.0)
        assert 580.0 <= took <= 640.0
        assert replica.metric("worker_scaler_tasks", pool="dedicated", state="ended") == 0
        assert replica.metric("worker_scaler_workers", pool="dedicated", state="idle") == 0

    play_import(story)


def test_with_the_pool_small_ones_share_and_the_pool_is_empty_in_the_end() -> None:
    """Three small ones on one pod, which is removed ten minutes after the last of them."""

    async def story(site: Site) -> None:
        replica = site.stage.start()
        await site.stage.until(lambda: replica.leads)

        async def one(number: int) -> str:
            async with site.client(f"1-170-{number}-0", 1 << 20) as client:
                await load(client)
                return client.base

        ends = await asyncio.gather(*(one(number) for number in range(3)))
        assert len(set(ends)) == 1
        assert replica.metric("worker_scaler_workers", pool="shared", state="busy") == 1
        # What has ended and is still listed keeps the pod, as long as the worker does not collect it.
        site.worker("ldw-shared-0").lose(*(f"1-170-{number}-0" for number in range(3)))
        took = await site.stage.until(lambda: "ldw-shared-0" not in site.floor.workers, within=1200.0)
        assert 590.0 <= took <= 640.0
        assert replica.metric("worker_scaler_shared_replicas", kind="spec") == 0

    play_import(story, shared_pool_enabled=True)


def test_a_worker_without_room_keeps_its_client_waiting_and_not_its_place() -> None:
    """It says 503, and the client comes again there; whoever asks at the front is sent to the same pod all the time."""

    async def story(site: Site) -> None:
        site.stage.start()
        await site.stage.until(lambda: len(site.floor.workers) == 3)
        worker = site.worker("tikv-api-0")
        worker.full = True
        async with site.client(*LOCAL) as client, site.client(*LOCAL) as again:
            loading = asyncio.ensure_future(client.run())
            await site.stage.until(lambda: len(client.seen) > 5)
            assert {answer.status for answer in client.seen[1:]} == {503}
            asking = asyncio.ensure_future(again.init())
            await site.stage.until(lambda: again.hops)
            assert again.base == client.base
            assert not worker.tasks
            worker.full = False
            await asyncio.gather(loading, asking)
        assert worker.tasks
        assert not worker.running
        assert not any(site.worker(f"tikv-api-{ordinal}").tasks for ordinal in (1, 2))

    play_import(story)


def test_a_dry_run_decides_and_writes_nothing() -> None:
    """Not even the budget: it looks, and serves no client."""

    async def story(site: Site) -> None:
        replica = site.stage.start(dry_run=True)
        await site.stage.until(lambda: len(site.floor.workers) == 3)
        await asyncio.sleep(120.0)
        assert replica.program.front is None
        assert site.worker("tikv-api-0").taken
        assert not [request for request in site.stage.journal.writes if request.who == "one"]

    play_import(story, shared_pool_enabled=True, shared_min_replicas=1)


@pytest.mark.parametrize("cluster", [7, 0])
def test_ws_55_a_new_leader_finds_every_task_where_it_is(cluster: int) -> None:
    """Local, dedicated and shared: the leader is killed, and clients that are started anew find theirs at the next."""

    async def story(site: Site) -> None:
        stage, first = site.stage, site.stage.start("one")
        second = stage.start("two")
        await stage.until(lambda: first.leads or second.leads)
        leader, other = (first, second) if first.leads else (second, first)
        site.front = f"http://{other.name}:19500"
        where = {}
        for task, size in (LOCAL, MEDIUM, LARGE):
            async with site.client(task, size) as client:
                await client.init()
                where[task] = client.base
        leader.kill()
        for task, size in (LOCAL, MEDIUM, LARGE):
            async with site.client(task, size) as client:
                client.front = client.base = site.front
                await client.restart()
                assert client.base == where[task]
                await client.load([b"rows"])
        assert other.leads
        await stage.until(lambda: not site.leftovers(), within=1300.0)

    play_import(story, cluster_id=cluster)


def test_ws_74_an_outage_of_the_api_ends_no_import() -> None:
    """Who asks for a known task is sent there all the time; a new one waits; nothing is removed because of it."""

    async def story(site: Site) -> None:
        stage, replica = site.stage, site.stage.start()
        await stage.until(lambda: replica.leads)
        async with site.client(*MEDIUM) as client:
            await client.init()
            place = client.base
            await client.write(1, 0, b"rows")
            await stage.until(lambda: site.worker("load-data-worker-1-170-2-0-0").taken)
            outage = stage.faults.inject(Answer(503, "ServiceUnavailable"))
            await asyncio.sleep(60.0)
            assert not replica.leads
            async with site.client(*MEDIUM) as again:
                assert await again.exists()
                assert again.base == place
            new = asyncio.ensure_future(_imported(site, *LARGE))
            await asyncio.sleep(540.0)
            assert not new.done()
            stage.faults.remove(outage)
            await new
            assert "load-data-worker-1-170-2-0" in site.sets()
            await client.flush(1)
            await client.build()
            await client.finished()

    play_import(story)


async def _imported(site: Site, task: str, size: int) -> None:
    async with site.client(task, size) as client:
        await client.run()
