"""Workers whose pod the API server refuses to their controller: the client is told early, and the operator why."""

import asyncio

from ebbtide.sim.faults import Answer, When
from tests.reconciler.scaler.dedicated.stage import ID1, NAME1, Process, Stage, story, task
from tests.reconciler.scaler.refused import QUOTA, SECURITY, block, tell, unblock

EVENTS_PATH = "/apis/events.k8s.io/v1/namespaces/*/events"


async def refused(stage: Stage, process: Process, words: str) -> None:
    """A client has waited for a worker whose pod was refused."""
    block(stage.cluster, f"{NAME1}-0")
    beat = process.ask()
    await stage.until(stage.sets)
    tell(stage.cluster, NAME1, words)
    assert (await beat).refused is not None


@story()
async def test_who_waits_for_a_pod_that_a_quota_refuses_is_told_so_early(stage: Stage) -> None:
    process = stage.start()
    block(stage.cluster, f"{NAME1}-0")
    asked = process.ask()
    await stage.until(stage.sets)
    tell(stage.cluster, NAME1, QUOTA)
    beat = await asked
    assert beat.refused is not None
    assert (beat.refused.code, beat.refused.retry_after) == ("QuotaExceeded", 10)
    assert str(beat.refused) == f"its worker's pod cannot be made: {QUOTA}"
    assert 5.0 <= beat.at <= 20.0
    await stage.until(lambda: stage.events("QuotaExceeded"))
    assert stage.events("QuotaExceeded") == [
        f"The worker does not start: its pod cannot be made: {QUOTA}. Clients try again."
    ]
    found = process.dedicated.find(ID1)
    assert found is not None
    assert found.reason == str(beat.refused)
    assert process.metric("worker_scaler_dedicated_trouble", reason="QuotaExceeded") == 1
    assert process.metric("worker_scaler_dedicated_trouble", reason="PodRefused") == 0


@story()
async def test_what_is_no_quota_has_a_reason_of_its_own(stage: Stage) -> None:
    process = stage.start()
    await refused(stage, process, SECURITY)
    await stage.until(lambda: stage.events("PodRefused"))
    assert process.metric("worker_scaler_dedicated_trouble", reason="PodRefused") == 1
    assert process.metric("worker_scaler_dedicated_trouble", reason="QuotaExceeded") == 0


@story()
async def test_the_client_gets_the_same_worker_once_its_pod_can_be_made(stage: Stage) -> None:
    process = stage.start()
    await refused(stage, process, QUOTA)
    insisting = asyncio.ensure_future(process.insist())
    await asyncio.sleep(120.0)
    assert not insisting.done()
    unblock(stage.cluster, f"{NAME1}-0")
    place = await asyncio.wait_for(insisting, 30.0)
    assert (place.ready, stage.sets()) == (True, [NAME1])
    assert process.metric("worker_scaler_dedicated_trouble", reason="QuotaExceeded") == 0


@story()
async def test_a_pod_that_is_only_late_is_waited_for(stage: Stage) -> None:
    """Without a word of a refusal nobody is sent away."""
    process = stage.start()
    block(stage.cluster, f"{NAME1}-0")
    asked = process.ask()
    await asyncio.sleep(60.0)
    assert not asked.done()
    unblock(stage.cluster, f"{NAME1}-0")
    assert (await asked).place is not None


@story()
async def test_a_refusal_from_before_the_pod_that_went_says_nothing_of_the_next_one(stage: Stage) -> None:
    process = stage.start()
    await process.place()
    await asyncio.sleep(300.0)
    tell(stage.cluster, NAME1, QUOTA, ago=200.0)
    block_after_the_next(stage)
    await asyncio.sleep(1.0)
    asked = process.ask()
    await asyncio.sleep(60.0)
    assert not asked.done()
    assert process.metric("worker_scaler_dedicated_trouble", reason="QuotaExceeded") == 0
    tell(stage.cluster, NAME1, QUOTA)
    beat = await asked
    assert beat.refused is not None
    assert beat.refused.code == "QuotaExceeded"


def block_after_the_next(stage: Stage) -> None:
    """The worker's pod goes, and its name is taken before its controller comes to it."""
    unblock(stage.cluster, f"{NAME1}-0")
    block(stage.cluster, f"{NAME1}-0")


@story()
async def test_a_new_leader_learns_it_too(stage: Stage) -> None:
    first = stage.start()
    await refused(stage, first, QUOTA)
    await stage.until(lambda: stage.events("QuotaExceeded"))
    first.kill()
    await asyncio.sleep(400.0)
    second = stage.start("two")
    beat = await second.ask()
    assert beat.refused is not None
    assert beat.refused.code == "QuotaExceeded"


@story()
async def test_it_goes_by_the_rule_for_workers_without_a_pod(stage: Stage) -> None:
    process = stage.start()
    await refused(stage, process, QUOTA)
    await stage.until(lambda: not stage.sets(), within=930.0)
    assert 900.0 <= stage.time <= 930.0
    assert process.metric("worker_scaler_cleanup_total", reason="pod-gone") == 1
    assert process.metric("worker_scaler_dedicated_trouble", reason="QuotaExceeded") == 0


@story()
async def test_a_worker_that_ran_its_task_is_kept_and_why_it_has_no_pod_is_told(stage: Stage) -> None:
    process = stage.start()
    await stage.imports(process)
    await stage.until(lambda: process.state() == "busy", within=30.0)
    block_after_the_next(stage)
    await asyncio.sleep(1.0)
    tell(stage.cluster, NAME1, QUOTA)
    await stage.until(lambda: stage.events("QuotaExceeded"))
    await asyncio.sleep(2000.0)
    assert stage.sets() == [NAME1]
    assert process.state() == "unknown"


@story()
async def test_without_permission_for_events_clients_wait_as_long_as_for_any_worker(stage: Stage) -> None:
    stage.faults.inject(Answer(403, "Forbidden", "events is forbidden"), When(method="GET", path=EVENTS_PATH))
    process = stage.start()
    block(stage.cluster, f"{NAME1}-0")
    beat = await process.ask()
    assert beat.refused is not None
    assert 299.0 <= beat.at <= 301.5
    assert "it has no pod" in str(beat.refused)


@story()
async def test_events_are_read_for_all_workers_at_once_and_only_while_one_has_no_pod(stage: Stage) -> None:
    process = stage.start()
    names = [f"{NAME1[:-1]}{number}" for number in range(8)]
    block(stage.cluster, *(f"{name}-0" for name in names))
    asked = [process.ask(task(number)) for number in range(8)]
    await asyncio.sleep(1.0)
    for name in names:
        tell(stage.cluster, name, QUOTA)
    await asyncio.sleep(99.0)
    assert all(each.done() for each in asked)
    assert 5 <= len(stage.journal.matching("GET", EVENTS_PATH)) <= 11
    unblock(stage.cluster, *(f"{name}-0" for name in names))
    await asyncio.sleep(5.0)
    read = len(stage.journal.matching("GET", EVENTS_PATH))
    await asyncio.sleep(120.0)
    assert len(stage.journal.matching("GET", EVENTS_PATH)) == read
