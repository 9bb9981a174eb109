"""One decision per task, under whatever comes at the same time."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, Final

import pytest

from reconciler.engine.beside import running
from reconciler.scaler.contract import MOST_AT_ONCE, Arrival, Phase, Place, Refused, Target, Unavailable
from reconciler.scaler.desk import CANCELS_AT_ONCE, Placements, TaskDesk
from reconciler.scaler.discovery import Discovery
from reconciler.scaler.local.controller import Local
from reconciler.scaler.placement import Rules
from reconciler.scaler.report import PlacementReport, TaskMetrics
from reconciler.scaler.status.clusters import MOST as MOST_CLUSTERS
from reconciler.scaler.task import TaskId
from tests.reconciler.scaler.elsewhere import Elsewhere
from tests.reconciler.scaler.room import Room, in_room, task

SMALL: Final = 1 << 20
LARGE: Final = 3 << 30
# Of flights and promises, where a test is about too many.
MOST: Final = 20


class Office:
    """A desk with local pods of the room, and doubles of the two other placements."""

    def __init__(self, room: Room, most_at_once: int = MOST_AT_ONCE) -> None:
        self.room = room
        self.dedicated = Elsewhere(Target.DEDICATED)
        self.shared = Elsewhere(Target.SHARED)
        placements = Placements(self.dedicated, self.shared, room.local_tasks)
        knowledge = room.knowledge
        discovery = Discovery(knowledge.stores, knowledge.clusters, room.rounds, placements.all, room.local_tasks)
        rules, report = Rules.of(room.settings), PlacementReport(room.registry)
        self.desk = TaskDesk(rules, placements, discovery, report, most_at_once)
        TaskMetrics(room.registry, lambda: self.desk.everything() if self.desk.running else None)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """One term, once all is known."""
        async with self.room.lit(), running((self.desk,)):
            await self.room.until(lambda: not self.desk.unknown())
            yield

    async def init(self, of: TaskId, size: int = SMALL, cluster: int = 7) -> Place:
        return await self.desk.place(Arrival(of, cluster, size))

    async def insist(self, of: TaskId, cluster: int) -> Place:
        """A client that comes again while workers have not been asked for its cluster."""
        await self.room.until(lambda: not self.desk.unknown(cluster))
        return await self.init(of, cluster=cluster)

    async def inits(self, tasks: Iterable[TaskId], size: int = SMALL) -> list[Place | BaseException]:
        """All at once."""
        return await asyncio.gather(*(self.init(each, size) for each in tasks), return_exceptions=True)

    def count(self, target: Target, result: str) -> float | None:
        labels = {"target": str(target), "result": result}
        return self.room.registry.get_sample_value("worker_scaler_placements_total", labels)


def in_office(**changed: Any) -> Callable[[Callable[[Office], Coroutine[Any, Any, None]]], Callable[[], None]]:
    """Plays a test at a desk; keys of `[worker-scaler]` can be changed."""

    def decorate(story: Callable[[Office], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        @wraps(story)
        async def in_that_room(room: Room) -> None:
            await story(Office(room))

        return in_room(**{"cluster_id": 7, **changed})(in_that_room)

    return decorate


# --- placing ----------------------------------------------------------------------------------------------------------


@in_office()
async def test_ws_13_fifty_inits_of_one_task_are_one_decision(office: Office) -> None:
    """With one answer for all, counted once."""
    office.dedicated.open.clear()
    async with office.open():
        asked = asyncio.ensure_future(office.inits([task(1)] * 50, LARGE))
        await asyncio.sleep(5.0)
        office.dedicated.open.set()
        places = await asked
        assert len(office.dedicated.placed) == 1
        assert len({id(place) for place in places}) == 1
        assert isinstance(places[0], Place)
        assert office.count(Target.DEDICATED, "placed") == 1


@in_office()
async def test_ws_13_locally_too(office: Office) -> None:
    """One promise, fifty equal answers."""
    office.room.local(0)
    office.room.local(1)
    async with office.open():
        places = await office.inits([task(1)] * 50)
        assert len(set(map(str, places))) == 1
        assert len(list(office.desk.records(7))) == 1


@in_office()
async def test_a_failure_is_told_to_all_who_wait_and_not_kept(office: Office) -> None:
    """The next one is a new decision."""
    office.dedicated.trouble = Unavailable("limit reached", code="LimitReached")
    async with office.open():
        answers = await office.inits([task(1)] * 10, LARGE)
        assert {str(answer) for answer in answers} == {"limit reached"}
        assert office.count(Target.DEDICATED, "unavailable") == 1
        office.dedicated.trouble = None
        assert (await office.init(task(1), LARGE)).ready


@in_office()
async def test_ws_23_a_client_that_hangs_up_does_not_stop_the_work(office: Office) -> None:
    """The next one joins it."""
    office.dedicated.open.clear()
    async with office.open():
        first = asyncio.ensure_future(office.init(task(1), LARGE))
        await asyncio.sleep(1.0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        second = asyncio.ensure_future(office.init(task(1), LARGE))
        await asyncio.sleep(1.0)
        office.dedicated.open.set()
        assert (await second).ready
        assert len(office.dedicated.placed) == 1


@in_office()
async def test_work_that_nobody_waits_for_ends_quietly(office: Office) -> None:
    """Whatever its end is; the place is there for the next one."""
    office.dedicated.open.clear()
    async with office.open():
        first = asyncio.ensure_future(office.init(task(1), LARGE))
        await asyncio.sleep(1.0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        office.dedicated.trouble = Unavailable("no")
        office.dedicated.open.set()
        await asyncio.sleep(1.0)
        assert office.desk.find(task(1), 7) is None


@in_room(cluster_id=7)
async def test_work_that_clients_leave_behind_ends_somewhere(room: Room) -> None:
    """Above the bound new tasks are told to come again, those that have a place or a flight are served as ever."""
    office = Office(room, MOST)
    office.dedicated.open.clear()
    office.shared.knows(task(MOST + 2))
    async with office.open():
        left = [asyncio.ensure_future(office.init(task(number), LARGE)) for number in range(MOST)]
        await asyncio.sleep(1.0)
        for each in left[1:]:
            each.cancel()
        await asyncio.gather(*left[1:], return_exceptions=True)
        with pytest.raises(Unavailable, match=f"{MOST} tasks") as refused:
            await office.init(task(MOST), LARGE)
        assert (refused.value.code, refused.value.retry_after) == ("TooMany", 10)
        assert office.count(Target.DEDICATED, "unavailable") == 1
        assert (await office.init(task(MOST + 2))).ready
        again = asyncio.ensure_future(office.init(task(1), LARGE))
        await asyncio.sleep(1.0)
        office.dedicated.open.set()
        assert (await again).ready
        assert (await office.init(task(MOST), LARGE)).ready
        assert len(office.dedicated.placed) == MOST + 1


@in_room(cluster_id=7)
async def test_promises_on_local_pods_end_somewhere(room: Room) -> None:
    """Tasks of no size all go there. One that its pod lists is no promise any more, and makes room for another."""
    room.local_tasks = Local(room.settings, room.knowledge, MOST)
    worker, office = room.local(0), Office(room)
    async with office.open():
        promised = [task(number) for number in range(MOST)]
        assert all(isinstance(place, Place) for place in await office.inits(promised, 0))
        with pytest.raises(Unavailable, match=f"{MOST} tasks") as refused:
            await office.init(task(MOST), 0)
        assert (refused.value.code, refused.value.retry_after) == ("TooMany", 10)
        assert (await office.init(promised[0], 0)).ready
        worker.begin(str(promised[0]))
        await asyncio.sleep(60.0)
        assert (await office.init(task(MOST), 0)).ready


@in_office()
async def test_ws_12_places_promised_since_the_last_answer_count(office: Office) -> None:
    """Eight run; of twenty small tasks at once one is local."""
    worker = office.room.local(0, running=8)
    worker.begin(*(f"98-1-{number}-0" for number in range(22)))
    worker.finish(*(f"98-1-{number}-0" for number in range(12)))
    worker.cancel(*(f"98-1-{number}-0" for number in range(12, 22)))
    async with office.open():
        places = await office.inits(task(number) for number in range(20))
        targets = Counter(place.target for place in places if isinstance(place, Place))
        assert targets == {Target.LOCAL: 1, Target.DEDICATED: 19}


@in_office()
async def test_ws_11_the_least_busy_local_pod(office: Office) -> None:
    """Nine and eight: the second. In the clients' words it is a pod of the template's Service."""
    office.room.local(0, running=9)
    office.room.local(1, running=8)
    async with office.open():
        place = await office.init(task(1), 1)
        assert place.address == "http://tikv-api-1.tikv-api.tidb-serverless.svc.cluster.local:19500"


@in_office(worker_address="pod-ip", local_port=20000)
async def test_local_pods_by_address(office: Office) -> None:
    """For clients outside of the cluster's DNS."""
    worker = office.room.local(0)
    async with office.room.lit():
        await office.room.until(lambda: office.room.knowledge.stores.pod("tikv-api-0"))
        address = office.room.pod("tikv-api-0").ip
    office.room.network.listen(address, 20000, worker.accept)
    async with office.open():
        assert (await office.init(task(1))).address == f"http://{address}:20000"


@in_office()
async def test_no_local_pod_can_be_asked(office: Office) -> None:
    """Not now, with the reason; another one that answers is taken."""
    office.room.local(0).silent = True
    office.room.unready("tikv-api-0")
    async with office.open():
        with pytest.raises(Unavailable, match="tikv-api-0") as none:
            await office.init(task(1))
        assert none.value.code == "NoLocalPod"
        office.room.local(1)
        await asyncio.sleep(1.0)
        assert "tikv-api-1" in (await office.init(task(1))).address


@in_office()
async def test_too_large(office: Office) -> None:
    """Refused for good, whether the task is known or not, and counted."""
    office.dedicated.knows(task(1))
    async with office.open():
        for each in (task(1), task(2)):
            with pytest.raises(Refused, match="data size 1099511627777 exceeds max data size 1099511627776"):
                await office.init(each, (1 << 40) + 1)
        assert office.count(Target.DEDICATED, "too-large") == 2
        assert not office.dedicated.placed


@in_office()
async def test_ws_14_a_task_stays_where_it_is(office: Office) -> None:
    """Whatever it says of its size now, and wherever it would go today."""
    office.room.local(0)
    office.shared.knows(task(1))
    async with office.open():
        for size in (SMALL, 900 << 30, 0):
            assert (await office.init(task(1), size)).address == f"http://shared-{task(1)}:19500"
        assert not office.dedicated.placed
        local = await office.init(task(2))
        assert local.target is Target.LOCAL
        assert await office.init(task(2), 900 << 30) == local


@in_office(shared_pool_enabled=True)
async def test_small_tasks_go_to_the_pool_where_there_is_one(office: Office) -> None:
    """And large ones do not, even where no dedicated worker can be had."""
    office.dedicated.trouble = Unavailable("limit reached")
    async with office.open():
        assert (await office.init(task(1))).target is Target.SHARED
        with pytest.raises(Unavailable, match="limit reached"):
            await office.init(task(2), LARGE)
        assert [arrival.task for arrival in office.shared.placed] == [task(1)]


@in_office()
async def test_whoever_asks_for_a_task_whose_worker_is_not_ready_still_wants_it(office: Office) -> None:
    async with office.open():
        office.dedicated.knows(task(1), ready=False)
        office.dedicated.knows(task(2))
        for each in (task(1), task(2), task(3)):
            office.desk.find(each, 7)
    office.desk.find(task(1), 7)
    assert office.dedicated.asked_for == [task(1)]


@in_office()
async def test_a_place_that_is_not_ready_is_waited_for(office: Office) -> None:
    """Where it is, not where a new task would go."""
    office.room.local(0)
    office.dedicated.knows(task(1), ready=False)
    async with office.open():
        assert (await office.init(task(1), 0)).target is Target.DEDICATED


@in_office()
async def test_a_local_pod_that_never_comes_back(office: Office) -> None:
    """Its task waits for it as long as promises last, however often its client asks, and then goes elsewhere."""
    office.room.local(0).begin(str(task(1)))
    async with office.open():
        office.room.local(1)
        assert "tikv-api-0" in (await office.init(task(1))).address
        office.room.remove("tikv-api-0")
        gone = office.room.time
        places: list[Place] = []
        while not places and office.room.time - gone < 700.0:
            await asyncio.sleep(3.0)
            places += [each for each in await office.inits([task(1)]) if isinstance(each, Place)]
        assert "tikv-api-1" in places[0].address
        assert 590.0 <= office.room.time - gone <= 630.0


# --- clusters ---------------------------------------------------------------------------------------------------------


@in_office(cluster_id=0)
async def test_ws_10_one_id_belongs_to_one_cluster(office: Office) -> None:
    """Another one is refused, and finds nothing."""
    async with office.open():
        await office.init(task(1), LARGE, cluster=7)
        with pytest.raises(Refused, match="cluster id mismatch"):
            await office.init(task(1), LARGE, cluster=8)
        assert office.desk.find(task(1), 7) is not None
        assert office.desk.find(task(1), 8) is None
        assert not await office.desk.cancel(task(1), 8)
        assert not list(office.desk.records(8))


@in_office(cluster_id=0)
async def test_ws_10_also_while_it_is_being_placed(office: Office) -> None:
    """The first one decides."""
    office.dedicated.open.clear()
    async with office.open():
        first = asyncio.ensure_future(office.init(task(1), LARGE, cluster=7))
        await asyncio.sleep(1.0)
        with pytest.raises(Refused, match="cluster id mismatch"):
            await office.init(task(1), LARGE, cluster=8)
        office.dedicated.open.set()
        assert (await first).cluster == 7


# --- discovery --------------------------------------------------------------------------------------------------------


@in_office()
async def test_ws_55_nothing_is_told_before_all_was_read(office: Office) -> None:
    """Answers take five seconds after a restart: 503 until then, for known and unknown tasks; then the same pods."""
    worker = office.room.local(0)
    worker.begin(str(task(1)))
    worker.delay = 4.5
    office.dedicated.knows(task(2))
    async with office.room.lit(), running((office.desk,)):
        await asyncio.sleep(3.0)
        assert "tikv-api-0" in office.desk.unknown(7)
        found = office.desk.find(task(2), 7)
        assert found is not None
        assert not found.ready
        for each in (task(1), task(2), task(3)):
            with pytest.raises(Unavailable) as early:
                await office.init(each)
            assert early.value.code == "Discovering"
        await asyncio.sleep(3.0)
        assert not office.desk.unknown(7)
        place = office.desk.find(task(1), 7)
        assert place is not None
        assert "tikv-api-0" in place.address
        assert office.desk.find(task(3), 7) is None


@in_office()
async def test_each_placement_is_waited_for(office: Office) -> None:
    """What is missing is named; once known, later troubles make nothing unknown again."""
    office.shared.discovered = "tasks of ldw-shared-1 have not been read yet"
    async with office.room.lit(), running((office.desk,)):
        await asyncio.sleep(20.0)
        assert office.desk.unknown() == "tasks of ldw-shared-1 have not been read yet"
        office.shared.discovered = ""
        assert not office.desk.unknown()
        office.shared.discovered = "trouble"
        assert not office.desk.unknown()


@in_office(start_timeout=60)
async def test_a_local_pod_that_never_answers_is_not_waited_for_for_ever(office: Office) -> None:
    """As long as a pod may take to start."""
    office.room.local(0).silent = True
    async with office.room.lit(), running((office.desk,)):
        assert 60.0 <= await office.room.until(lambda: not office.desk.unknown(), within=100.0) <= 90.0


@in_office(cluster_id=0)
async def test_a_cluster_that_was_never_heard_of(office: Office) -> None:
    """Workers are asked for it first: a task of it may run there since before we were started."""
    worker = office.room.local(0)
    async with office.open():
        await asyncio.sleep(30.0)
        worker.begin(str(task(1)))
        assert office.desk.unknown(7)
        assert await office.room.until(lambda: not office.desk.unknown(7)) <= 1.0
        assert office.desk.find(task(1), 7) is not None


@in_office(cluster_id=0, spawn_running_tasks=100)
async def test_tasks_of_ever_new_clusters_are_not_taken(office: Office) -> None:
    """Each costs every worker a question: who makes up clusters has to wait, and nobody else."""
    office.room.local(0)
    async with office.open():
        for cluster in range(7, 7 + MOST_CLUSTERS):
            await office.insist(task(cluster), cluster)
        with pytest.raises(Unavailable, match="tasks of 64 clusters are known") as refused:
            await office.insist(task(99), 99)
        assert (refused.value.code, refused.value.retry_after) == ("TooMany", 10)
        assert office.count(Target.LOCAL, "unavailable") == 1
        assert (await office.init(task(100), cluster=9)).ready
        assert (await office.init(task(8), cluster=8)).ready


@in_office()
async def test_ws_74_without_a_lease_what_is_known_is_still_told(office: Office) -> None:
    """Reading only."""
    async with office.open():
        place = await office.init(task(1), LARGE)
    assert office.desk.find(task(1), 7) == place
    assert office.desk.unknown() == "this replica does not lead"
    for asking in (office.init(task(2)), office.init(task(1))):
        with pytest.raises(Unavailable):
            await asking
    with pytest.raises(Unavailable):
        await office.desk.cancel(task(1), 7)
    with pytest.raises(Unavailable):
        await office.desk.cancel_all("1", 7)


@in_office()
async def test_ws_57_who_waits_when_the_lease_is_lost_is_told_to_come_again(office: Office) -> None:
    """At once, and not with an error of ours."""
    office.dedicated.open.clear()
    async with office.open():
        waiting = [asyncio.ensure_future(office.init(task(number), LARGE)) for number in range(200)]
        await asyncio.sleep(1.0)
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(answer, Unavailable) for answer in answers)


@in_office()
async def test_the_end_of_the_program(office: Office) -> None:
    """A drained desk ends, and who waits comes again."""
    office.dedicated.open.clear()
    async with office.room.lit():
        desk = asyncio.ensure_future(office.desk.run())
        await office.room.until(lambda: not office.desk.unknown())
        waiting = asyncio.ensure_future(office.init(task(1), LARGE))
        await asyncio.sleep(1.0)
        office.desk.drain()
        await desk
        with pytest.raises(Unavailable):
            await waiting


@in_office()
async def test_a_fault_in_one_task_is_none_of_the_others_business(office: Office) -> None:
    """It is raised to whoever asked for that task."""
    async with office.open():
        office.dedicated.trouble = ZeroDivisionError("a fault")
        with pytest.raises(ZeroDivisionError):
            await office.init(task(1), LARGE)
        office.dedicated.trouble = None
        assert (await office.init(task(2), LARGE)).ready


# --- cancelling -------------------------------------------------------------------------------------------------------


@in_office()
async def test_ws_06_cancelling(office: Office) -> None:
    """The worker gets it; an unknown task is unknown; a worker that does not answer is a trouble that may pass."""
    worker = office.room.local(0)
    worker.begin(str(task(1)))
    async with office.open():
        assert await office.desk.cancel(task(1), 7)
        assert worker.tasks[task(1)].canceled
        assert not await office.desk.cancel(task(2), 7)
        worker.silent = True
        with pytest.raises(Unavailable, match="did not answer"):
            await office.desk.cancel(task(1), 7)
        office.dedicated.knows(task(3))
        assert await office.desk.cancel(task(3), 7)
        assert office.dedicated.cancelled == [(task(3), False)]


@in_office()
async def test_cancelling_a_local_promise(office: Office) -> None:
    """The client has not begun it: the pod has never heard of it, and it is forgotten."""
    office.room.local(0)
    async with office.open():
        await office.init(task(1))
        assert await office.desk.cancel(task(1), 7)
        assert office.desk.find(task(1), 7) is None


@in_office()
async def test_cancelling_what_is_being_placed(office: Office) -> None:
    """Not now: nobody knows yet where it will be."""
    office.dedicated.open.clear()
    async with office.open():
        waiting = asyncio.ensure_future(office.init(task(1), LARGE))
        await asyncio.sleep(1.0)
        found = office.desk.find(task(1), 7)
        assert found is not None
        assert not found.ready
        assert [record.phase for record in office.desk.records(7)] == [Phase.WAITING]
        with pytest.raises(Unavailable, match="being placed"):
            await office.desk.cancel(task(1), 7)
        office.dedicated.open.set()
        await waiting


KEYSPACES: Final = ("1-170-139-0", "1-170-139--1", "1-170-14-0", "10-170-139-0", "1-1701-1-0")


@pytest.mark.parametrize(
    ("prefix", "concerned"), [("1", [0, 1, 2, 4]), ("1-170", [0, 1, 2]), ("1-170-139", [0, 1]), ("2", []), ("10", [3])]
)
def test_ws_39_whole_segments(prefix: str, concerned: list[int]) -> None:
    """No other keyspace, import or table loses its tasks."""

    @in_office()
    async def story(office: Office) -> None:
        for each in KEYSPACES:
            office.shared.knows(TaskId.parse(each))
        async with office.open():
            assert await office.desk.cancel_all(prefix, 7) == len(concerned)
        cancelled = {str(of) for of, _ in office.shared.cancelled}
        assert cancelled == {KEYSPACES[number] for number in concerned}

    story()


@pytest.mark.parametrize("prefix", ["", "a", "1-", "1--", "1-2-3-4-5", "01", "4294967296"])
def test_ws_39_a_prefix_that_is_none(prefix: str) -> None:
    """Refused, and nothing is cancelled; a dash at the end is let pass."""

    @in_office()
    async def story(office: Office) -> None:
        office.shared.knows(task(1))
        async with office.open():
            if prefix == "1-":
                assert await office.desk.cancel_all(prefix, 7) == 1
                return
            with pytest.raises(Refused, match="task_id_prefix"):
                await office.desk.cancel_all(prefix, 7)
        assert not office.shared.cancelled

    story()


@in_office()
async def test_ws_40_dedicated_goes_and_pinned_is_cancelled(office: Office) -> None:
    """Also past a worker that does not answer, which is told in the end."""
    worker = office.room.local(0)
    worker.begin(str(task(3)))
    office.dedicated.knows(task(1))
    office.shared.knows(task(2))
    office.shared.deaf = True
    async with office.open():
        with pytest.raises(Unavailable, match="1 of 3 tasks are not cancelled"):
            await office.desk.cancel_all("1", 7)
        assert office.dedicated.cancelled == [(task(1), True)]
        assert office.desk.find(task(1), 7) is None
        assert worker.tasks[task(3)].canceled
        office.shared.deaf = False
        assert await office.desk.cancel_all("1", 7) == 2


@in_office()
async def test_a_bulk_delete_of_thousands_asks_few_at_once(office: Office) -> None:
    """And all in the end."""
    for number in range(3000):
        office.shared.knows(task(number))
    async with office.open():
        assert await office.desk.cancel_all("1", 7) == 3000
    assert len(office.shared.cancelled) == 3000
    assert office.shared.most_at_once == CANCELS_AT_ONCE


@in_office()
async def test_ws_40_what_is_being_placed_is_given_up(office: Office) -> None:
    """Whoever waits for it is told; nothing is made for it afterwards."""
    office.dedicated.open.clear()
    async with office.open():
        waiting = asyncio.ensure_future(office.init(task(1), LARGE))
        await asyncio.sleep(1.0)
        assert await office.desk.cancel_all("1", 7) == 1
        with pytest.raises(Unavailable, match="given up"):
            await waiting
        office.dedicated.open.set()
        await asyncio.sleep(1.0)
        assert office.desk.find(task(1), 7) is None


# --- figures ----------------------------------------------------------------------------------------------------------


@in_office()
async def test_tasks_are_counted_by_pool_and_state(office: Office) -> None:
    """While this process leads; not at all otherwise."""
    worker = office.room.local(0)
    worker.begin(str(task(1)), str(task(2)))
    worker.finish(str(task(2)))

    def count(pool: str, state: str) -> float | None:
        return office.room.registry.get_sample_value("worker_scaler_tasks", {"pool": pool, "state": state})

    async with office.open():
        await office.init(task(3))
        await office.init(task(4), LARGE)
        assert [count("local", phase) for phase in ("waiting", "running", "ended")] == [1, 1, 1]
        assert count("dedicated", "running") == 1
        assert count("shared", "waiting") == 0
    assert count("local", "running") is None
