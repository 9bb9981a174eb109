"""A hundred clients at once come to the front of a pool that may have three pods, with places for seventy-two."""

import asyncio
from collections import Counter

import aiohttp
import pytest

from ebbtide.sim.loaders.floor import PORT
from tests.doubles.worker import CLUSTER
from tests.simulation.stage import Replica
from tests.simulation.workers import Site, play_import

CLIENTS = 100
PODS = 3
PLACES = 24 * PODS
STARTS = 120.0


async def burst(site: Site) -> tuple[Replica, Counter[int], Counter[str]]:
    """Answers by status, and redirects by pod. Each client asks once, and begins its task where it is sent."""
    replica = site.stage.start()
    await site.stage.until(lambda: replica.leads)
    statuses: Counter[int] = Counter()
    pods: Counter[str] = Counter()

    async def client(session: aiohttp.ClientSession, number: int) -> None:
        task, began = f"1-170-{number}-0", site.stage.time
        query = f"cluster_id={CLUSTER}&task_id={task}&start_ts=1&commit_ts=2&data_size=1048576"
        async with session.post(f"http://one:{PORT}/load_data?{query}", allow_redirects=False) as answer:
            waited = site.stage.time - began
            assert waited <= STARTS, f"{task} has waited {waited} s"
            statuses[answer.status] += 1
            if answer.status == 302:
                pod = site.floor.pod_at(answer.headers["Location"].removeprefix("http://").partition(":")[0])
                pods[pod] += 1
                site.worker(pod).begin(task)
            else:
                assert int(answer.headers["Retry-After"]) >= 1

    async with aiohttp.ClientSession(connector=site.floor.network.connector()) as session:
        await asyncio.gather(*(client(session, number) for number in range(CLIENTS)))
    return replica, statuses, pods


@pytest.mark.parametrize("hard", [False, True], ids=["soft", "hard"])
def test_a_burst_beyond_the_largest_pool_is_answered_in_time(hard: bool) -> None:
    """By the soft cap all are sent to a pod, evenly beyond it; by the hard one the rest are told to come again."""

    async def story(site: Site) -> None:
        replica, statuses, pods = await burst(site)
        assert set(pods) == {f"ldw-shared-{ordinal}" for ordinal in range(PODS)}
        beyond = replica.metric("worker_scaler_shared_beyond_cap_total")
        if hard:
            assert statuses == {302: PLACES, 503: CLIENTS - PLACES}
            assert max(pods.values()) == PLACES // PODS
            assert not beyond
        else:
            assert statuses == {302: CLIENTS}
            assert max(pods.values()) - min(pods.values()) <= 1
            assert beyond == CLIENTS - PLACES

    play_import(
        story,
        shared_pool_enabled=True,
        shared_max_replicas=PODS,
        shared_hard_cap=hard,
        start_timeout=STARTS,
    )
