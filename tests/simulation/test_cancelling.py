"""Cancelling and listing tasks at the front, with everything behind it as it is."""

import asyncio
from typing import Any

import aiohttp

from reconciler.scaler.task import TaskId
from tests.simulation.workers import Site, play_import

SMALL, LARGE = 1 << 20, 3 << 30


async def asked(site: Site, method: str, **query: str) -> tuple[int, Any]:
    """Status and body of one request at the front."""
    async with (
        aiohttp.ClientSession(connector=site.floor.network.connector()) as session,
        session.request(method, f"{site.front}/load_data", params=query, allow_redirects=False) as answer,
    ):
        body = await answer.read()
        return answer.status, await answer.json() if answer.content_type == "application/json" else body


async def begun(site: Site, task: str, size: int) -> None:
    async with site.client(task, size) as client:
        await client.init()


def test_ws_40_a_prefix_ends_dedicated_and_pinned_tasks_at_once() -> None:
    """The worker of the first goes with all that is its own; the pool's pod stays, and is told of the others."""

    async def story(site: Site) -> None:
        replica = site.stage.start()
        await site.stage.until(lambda: replica.leads)
        tasks = {"1-170-1-0": LARGE, "1-170-2-0": SMALL, "1-170-2--1": SMALL, "10-170-1-0": SMALL}
        await asyncio.gather(*(begun(site, task, size) for task, size in tasks.items()))
        assert (await asked(site, "DELETE", cluster_id="7", task_id_prefix="1"))[0] == 200
        pool = site.worker("ldw-shared-0").tasks
        assert {str(task): state.canceled for task, state in pool.items()} == {
            "1-170-2-0": True,
            "1-170-2--1": True,
            "10-170-1-0": False,
        }
        assert not site.sets()
        assert (await asked(site, "GET", cluster_id="7", task_id="1-170-1-0"))[0] == 404
        await site.stage.until(lambda: not [name for name in site.leftovers() if "1-170-1-0" in name], within=30.0)
        assert "ldw-shared-0" in site.floor.workers
        assert (await asked(site, "DELETE", cluster_id="7", task_id_prefix="2"))[0] == 200

    play_import(story, shared_pool_enabled=True)


def test_ws_06_cancelling_one_task() -> None:
    """Its worker gets the same request, wherever it is; unknown is 404; a worker that does not answer is 503."""

    async def story(site: Site) -> None:
        await site.stage.until(lambda: len(site.floor.workers) == 3)
        replica = site.stage.start()
        await site.stage.until(lambda: replica.leads)
        for task, size in {"1-170-1-0": LARGE, "1-170-2-0": SMALL}.items():
            await begun(site, task, size)
            [worker] = [each for each in site.floor.workers.values() if TaskId.parse(task) in each.tasks]
            assert (await asked(site, "DELETE", cluster_id="7", task_id=task))[0] == 200
            assert worker.tasks[TaskId.parse(task)].canceled
            worker.silent = True
            assert (await asked(site, "DELETE", cluster_id="7", task_id=task))[0] == 503
        assert (await asked(site, "DELETE", cluster_id="7", task_id="1-170-3-0"))[0] == 404

    play_import(story)


def test_ws_77_the_list_has_every_task_wherever_it_is() -> None:
    """Local, shared and dedicated ones, of the cluster that is asked for."""

    async def story(site: Site) -> None:
        await site.stage.until(lambda: len(site.floor.workers) == 3)
        site.worker("tikv-api-1").begin("1-170-9-0")
        replica = site.stage.start()
        await site.stage.until(lambda: replica.leads)
        await begun(site, "1-170-1-0", LARGE)
        await begun(site, "1-170-2-0", SMALL)
        status, listed = await asked(site, "GET", cluster_id="7")
        assert status == 200
        assert sorted(each["task-id"] for each in listed) == ["1-170-1-0", "1-170-2-0", "1-170-9-0"]
        assert await asked(site, "GET", cluster_id="7", task_id="1-170-3-0") == (404, b"task 1-170-3-0 is unknown\n")

    play_import(story, shared_pool_enabled=True)
