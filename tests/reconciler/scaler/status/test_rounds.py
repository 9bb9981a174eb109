"""Who is asked, when, and what is kept of the answers."""

import asyncio

from ebbtide.sim import objects
from reconciler.scaler.status.book import KEPT
from tests.doubles.worker import Worker
from tests.reconciler.scaler.room import Room, in_room


@in_room(cluster_id=7)
async def test_every_worker_is_asked_again_and_again(room: Room) -> None:
    """Once per refresh interval, one that appears at once; nobody else's pod at all."""
    local, own = room.local(0), room.dedicated("w")
    room.cluster.create(objects.stateful_set("other", namespace="tidb-serverless", replicas=1))
    other = room.worker_pod("other-0", "other")
    async with room.lit():
        await asyncio.sleep(35.0)
        late = room.local(1)
        await asyncio.sleep(1.0)
        assert len(late.taken) == 1
    assert (len(local.taken), len(own.taken), len(other.taken)) == (4, 4, 0)
    assert all(taken.method == "GET" and taken.query == {"cluster_id": "7"} for taken in local.taken)


@in_room(cluster_id=7)
async def test_ws_41_dead_workers_delay_nobody(room: Room) -> None:
    """Of 1,024 workers 51 hang: after the first round the others are asked on time as if these were not there."""
    workers = [room.local(ordinal) for ordinal in range(1024)]
    for worker in workers[::20][:51]:
        worker.silent = True
    alive = [worker for worker in workers if not worker.silent]
    async with room.lit():
        book, pods = room.knowledge.book, room.knowledge.stores.pods
        await room.until(lambda: len(pods) == 1024, within=120.0)
        settled = await room.until(lambda: all(_heard(room, pod.uid) for pod in pods.values()), within=60.0)
        assert settled <= 5.0 + 2.0
        before = [len(worker.taken) for worker in alive]
        await asyncio.sleep(30.0)
        assert {len(worker.taken) - count for worker, count in zip(alive, before, strict=True)} <= {2, 3}
        silent = [pod.uid for pod in pods.values() if book.last(pod.uid) is None]
        assert len(silent) == 51
        assert all(book.failing_since(uid) is not None for uid in silent)


def _heard(room: Room, uid: str) -> bool:
    return room.knowledge.book.last(uid) is not None or room.knowledge.book.failing_since(uid) is not None


@in_room(cluster_id=7)
async def test_hundreds_of_dead_workers_make_no_answer_old(room: Room) -> None:
    """More than could be asked at once: the last answer of each living one stays younger than two intervals."""
    for ordinal in range(400):
        room.local(ordinal).silent = ordinal >= 100
    async with room.lit():
        book, stores = room.knowledge.book, room.knowledge.stores
        await asyncio.sleep(120.0)
        for ordinal in range(100):
            answer = book.last(room.pod(f"tikv-api-{ordinal}").uid)
            assert answer is not None
            assert room.time - answer.at < 2 * 10.0
        assert not stores.unknown


@in_room(cluster_id=7)
async def test_a_worker_that_answers_again(room: Room) -> None:
    """Its last answer stays known while it is silent, and since when it is."""
    worker = room.local(0, running=3)
    async with room.lit():
        await room.until(lambda: room.knowledge.stores.pod("tikv-api-0"))
        uid, book = room.pod("tikv-api-0").uid, room.knowledge.book
        await room.until(lambda: book.last(uid))
        worker.refusing = 500
        await room.until(lambda: book.failing_since(uid) is not None)
        since = book.failing_since(uid)
        await asyncio.sleep(45.0)
        answer = book.last(uid)
        assert answer is not None
        assert len(answer.states) == 3
        assert book.failing_since(uid) == since
        assert "answers 500" in book.problem(uid)
        worker.refusing = 0
        await room.until(lambda: book.failing_since(uid) is None, within=11.0)
        assert book.problem(uid) == ""
        assert room.registry.get_sample_value("worker_scaler_status_failures_total", {"pool": "local"}) == 5


async def _asked(room: Room, worker: Worker) -> None:
    """Waits until a question is under way that is not answered yet."""
    count = len(worker.taken)
    await room.until(lambda: len(worker.taken) > count)


@in_room(cluster_id=7)
async def test_ws_42_a_late_answer_speaks_for_no_other_pod(room: Room) -> None:
    """A pod of the same name that came meanwhile has not been heard; neither has the old one."""
    worker = room.dedicated("w")
    async with room.lit():
        await room.until(lambda: room.knowledge.stores.pod("w-0"))
        old = room.pod("w-0")
        await room.until(lambda: room.knowledge.book.last(old.uid))
        first = room.knowledge.book.last(old.uid)
        worker.delay = 3.0
        await _asked(room, worker)
        room.remove("w-0")
        room.worker_pod("w-0", "w", pool="dedicated").silent = True
        await room.until(lambda: room.pod("w-0").uid != old.uid)
        await asyncio.sleep(4.0)
        assert room.knowledge.book.last(room.pod("w-0").uid) is None
        assert room.knowledge.book.last(old.uid) == first


@in_room(cluster_id=7)
async def test_a_late_answer_speaks_for_no_other_life(room: Room) -> None:
    """A container that began anew meanwhile has lost what the answer tells of."""
    worker = room.local(0)
    async with room.lit():
        await room.until(lambda: room.knowledge.stores.pod("tikv-api-0"))
        pod, book = room.pod("tikv-api-0"), room.knowledge.book
        await room.until(lambda: book.last(pod.uid))
        worker.delay = 3.0
        await _asked(room, worker)
        room.restart("tikv-api-0")
        await room.until(lambda: room.pod("tikv-api-0").started != pod.started)
        await asyncio.sleep(1.0)
        answer = book.last(pod.uid)
        assert answer is not None
        assert answer.started == pod.started
        worker.delay = 0.0
        await room.until(lambda: (found := book.last(pod.uid)) and found.started == room.pod("tikv-api-0").started)


@in_room(cluster_id=7)
async def test_ws_43_nobody_is_asked_while_pods_are_in_doubt(room: Room) -> None:
    """And what they said last is not forgotten."""
    workers = [room.local(ordinal, running=1) for ordinal in range(30)]
    async with room.lit():
        stores, book = room.knowledge.stores, room.knowledge.book
        await room.until(lambda: len(stores.pods) == 30)
        uids = [pod.uid for pod in stores.pods.values()]
        await room.until(lambda: all(book.last(uid) for uid in uids))
        counts = [len(worker.taken) for worker in workers]
        stores.pods.swap(stores.pods.gather(), stores.pods.version + 1000)
        await asyncio.sleep(14.0)
        assert stores.unknown
        assert [len(worker.taken) for worker in workers] == counts
        await room.until(lambda: not stores.unknown)
        assert all(book.last(uid) for uid in uids)


@in_room(cluster_id=7)
async def test_answers_of_pods_that_are_gone_do_not_pile_up(room: Room) -> None:
    """They are forgotten a while later."""
    for ordinal in range(20):
        room.local(ordinal)
    async with room.lit():
        stores, book = room.knowledge.stores, room.knowledge.book
        await room.until(lambda: len(stores.pods) == 20)
        uid = room.pod("tikv-api-0").uid
        await room.until(lambda: book.last(uid))
        room.remove("tikv-api-0")
        await asyncio.sleep(KEPT / 2)
        assert book.last(uid)
        await asyncio.sleep(KEPT)
        room.remove("tikv-api-1")
        await room.until(lambda: book.last(uid) is None)


@in_room()
async def test_nobody_is_asked_before_a_cluster_is_known(room: Room) -> None:
    """A request names one; then all are asked at once. A dedicated worker has its own from the start."""
    local, own = room.local(0), room.dedicated("w", cluster=7)
    async with room.lit():
        await asyncio.sleep(30.0)
        assert not local.taken
        assert own.taken
        assert room.knowledge.clusters.hear_of(7)
        room.rounds.hurry()
        await room.until(lambda: local.taken, within=1.0)
        assert not room.knowledge.clusters.hear_of(7)


@in_room(cluster_id=7)
async def test_a_new_term_knows_nothing(room: Room) -> None:
    """What was answered before says nothing: others may have led."""
    worker = room.local(0)
    async with room.lit():
        await room.until(lambda: room.knowledge.stores.pod("tikv-api-0"))
        uid = room.pod("tikv-api-0").uid
        await room.until(lambda: room.knowledge.book.last(uid))
    assert room.knowledge.book.last(uid)
    worker.silent = True
    async with room.lit():
        await asyncio.sleep(1.0)
        assert room.knowledge.book.last(uid) is None


@in_room()
async def test_a_worker_is_asked_for_every_cluster_that_a_task_is_known_of(room: Room) -> None:
    """Without a configured one: those of known tasks, and the last few that requests have named."""
    worker = room.local(0)
    room.knowledge.clusters.add_source(lambda: (7,))
    async with room.lit():
        await room.until(lambda: worker.taken)
        worker.taken.clear()
        for cluster in range(100, 120):
            room.knowledge.clusters.hear_of(cluster)
        room.rounds.hurry()
        await asyncio.sleep(1.0)
        asked = {int(taken.query["cluster_id"]) for taken in worker.taken}
    assert asked == {7, *range(112, 120)}


@in_room()
async def test_whoever_makes_up_clusters_does_not_keep_workers_busy(room: Room) -> None:
    """A thousand clusters in ten seconds: workers are asked about once a second, for a few of them."""
    worker = room.local(0)
    room.knowledge.clusters.add_source(lambda: (7,))
    async with room.lit():
        await room.until(lambda: worker.taken)
        worker.taken.clear()
        for cluster in range(1000, 2000):
            assert room.knowledge.clusters.hear_of(cluster)
            room.rounds.hurry()
            await asyncio.sleep(0.01)
        await asyncio.sleep(2.0)
        assert 50 <= len(worker.taken) <= 15 * 9
