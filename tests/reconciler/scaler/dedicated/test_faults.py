"""Killed at any request, or with an API server that refuses, loses and repeats: the same end every time."""

import asyncio
from fnmatch import fnmatchcase
from itertools import count

import pytest

from ebbtide.sim.faults import Answer, CutWatch, Delay, Drop, Effect, RepeatEvents, When
from ebbtide.sim.kinds import SERVICES, STATEFUL_SETS
from tests.reconciler.scaler.dedicated.stage import ID1, NAME1, Process, Stage, story
from tests.simulation.wiretap import EVENT_PATH, Request

# More writes than a worker's life has.
_MANY = 9


async def life(stage: Stage, process: Process) -> None:
    """A worker's life from the first init to nothing, with everything that has to hold on the way."""
    place = await process.insist()
    assert place.ready
    assert stage.names(SERVICES) == [NAME1]
    stage.worker().begin(str(ID1))
    await asyncio.sleep(700.0)
    assert stage.sets() == [NAME1]
    stage.worker().finish(str(ID1))
    await stage.until(lambda: not stage.left(), within=1400.0)


def kill_at(stage: Stage, first: Process, number: int, *, answered: bool) -> list[Request]:
    """Kills the process at its n-th write, before or after it is processed, and starts the next one."""
    writes, killed = count(), []

    def strike(request: Request) -> None:
        if not request.writes or fnmatchcase(request.path, EVENT_PATH) or request.who != "one":
            return
        if next(writes) == number:
            killed.append(request)
            first.kill()

    for method in ("POST", "PATCH", "DELETE"):
        stage.on(method, "*", strike, answered=answered, times=None)
    return killed


@pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])
def test_killed_at_each_write_the_next_process_brings_it_to_the_same_end(answered: bool) -> None:
    """Set, Service, mark of the task, its end, the label of an idle pod, the deletion."""
    reached: list[str] = []

    def one(number: int) -> None:
        @story()
        async def told(stage: Stage) -> None:
            first = stage.start("one")
            killed = kill_at(stage, first, number, answered=answered)
            await life_of_two(stage, first)
            reached.extend(f"{request.method} {request.path.split('/')[-1]}" for request in killed)

        told()

    for number in range(_MANY):
        one(number)
    assert len(reached) >= 6, reached
    assert len(set(reached)) >= 4, reached


async def life_of_two(stage: Stage, first: Process) -> None:
    """The client goes on with whichever process lives; the worker runs its task from the redirect on."""
    process, ends_at, ended = first, float("inf"), False
    for _ in range(4000):
        if process.work.done() and process is first:
            process = stage.start("two")
        if ends_at == float("inf"):
            asked = process.ask()
            await asyncio.wait((asked, process.work), return_when=asyncio.FIRST_COMPLETED)
            if asked.done() and asked.result().place is not None:
                stage.worker().begin(str(ID1))
                ends_at = stage.time + 700.0
        elif stage.time < ends_at:
            assert stage.sets() == [NAME1]
        elif not ended:
            stage.worker().finish(str(ID1))
            ended = True
        elif not stage.left():
            return
        await asyncio.sleep(1.0)
    raise AssertionError(f"something stays: {stage.left()}")


WRITES = [
    ("POST", "*/statefulsets"),
    ("POST", "*/services"),
    ("PATCH", "*/statefulsets/*"),
    ("PATCH", "*/pods/*"),
    ("DELETE", "*/statefulsets/*"),
    ("GET", "*/statefulsets/*"),
    ("GET", "*/services"),
]
FAULTS = [
    pytest.param(Answer(409, "Conflict"), id="conflict"),
    pytest.param(Answer(429, "TooManyRequests", retry_after=1), id="throttled"),
    pytest.param(Answer(500, "InternalError"), id="fault"),
    pytest.param(Answer(503, "ServiceUnavailable"), id="unavailable"),
    pytest.param(Drop(), id="lost request"),
    pytest.param(Drop(processed=True), id="lost answer"),
    pytest.param(Delay(before=3.0, after=3.0), id="slow"),
]


@pytest.mark.parametrize("effect", FAULTS)
@pytest.mark.parametrize(("method", "path"), WRITES, ids=[" ".join(each) for each in WRITES])
def test_a_request_that_fails_a_few_times_changes_nothing_about_the_end(method: str, path: str, effect: Effect) -> None:
    @story()
    async def told(stage: Stage) -> None:
        stage.faults.inject(effect, When(method=method, path=path, times=3))
        await life(stage, stage.start())

    told()


@pytest.mark.parametrize(
    "effect", [pytest.param(CutWatch(after_events=2), id="cut"), pytest.param(RepeatEvents(count=None), id="repeated")]
)
def test_watches_that_break_or_repeat_change_nothing_about_the_end(effect: Effect) -> None:
    @story()
    async def told(stage: Stage) -> None:
        stage.faults.inject(effect, When(method="WATCH", times=20))
        await life(stage, stage.start())

    told()


@story()
async def test_ws_74_an_outage_of_the_api_ends_nothing(stage: Stage) -> None:
    process = stage.start()
    await stage.imports(process)
    await asyncio.sleep(20.0)
    outage = stage.faults.inject(Answer(503), When())
    stage.faults.cut_watches()
    for _ in range(60):
        await asyncio.sleep(10.0)
        found = process.dedicated.find(ID1)
        assert found is not None
        assert found.ready
    stage.faults.remove(outage)
    await asyncio.sleep(120.0)
    assert stage.sets() == [NAME1]
    stage.worker().finish(str(ID1))
    assert await stage.until(lambda: not stage.left(), within=700.0) >= 600.0


@story()
async def test_a_service_that_somebody_deletes_is_made_again(stage: Stage) -> None:
    process = stage.start()
    await stage.imports(process)
    await asyncio.sleep(70.0)
    stage.remove(SERVICES, NAME1)
    await stage.until(lambda: stage.names(SERVICES) == [NAME1], within=70.0)
    owner = stage.body(SERVICES, NAME1)["metadata"]["ownerReferences"][0]["uid"]
    assert owner == stage.body(STATEFUL_SETS, NAME1)["metadata"]["uid"]
