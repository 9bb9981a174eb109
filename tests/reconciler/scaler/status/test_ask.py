"""One question to one worker: whatever it does, an answer or `StatusUnknown`, in time."""

import asyncio
from collections.abc import Callable
from typing import Final

import pytest

from reconciler.scaler.status.book import StatusUnknown
from reconciler.scaler.task import TaskId
from tests.doubles.worker import Worker
from tests.reconciler.scaler.room import Room, in_room

POD: Final = "tikv-api-0"


def mood(**of: object) -> Callable[[Worker], None]:
    def set_all(worker: Worker) -> None:
        for name, value in of.items():
            setattr(worker, name, value)

    return set_all


TROUBLES: Final = {
    "silent": (mood(silent=True), "did not answer within 5 s"),
    "slower than the deadline": (mood(delay=5.1), "did not answer within 5 s"),
    "refuses": (mood(refusing=503), "answers 503: not now"),
    "redirects": (mood(refusing=302), "answers 302"),
    "knows no such path": (mood(refusing=404), "answers 404"),
    "no JSON": (mood(mute=b"<html>"), "cannot be read"),
    "no list": (mood(mute=b"{}"), "a list of tasks is expected"),
    "an id that is none": (mood(mute=b'[{"task-id": "a"}]'), "cannot be read"),
    "endless": (mood(mute=b"[" + b" " * (16 << 20)), "longer than"),
    "of another cluster": (mood(cluster=8), "belongs to none of the clusters [7]"),
}


@pytest.mark.parametrize(("change", "words"), TROUBLES.values(), ids=TROUBLES)
def test_what_cannot_be_understood_is_unknown(change: Callable[[Worker], None], words: str) -> None:
    """Never an empty list, and never later than the deadline."""

    @in_room()
    async def story(room: Room) -> None:
        change(room.local(0))
        async with room.lit():
            await room.until(lambda: room.knowledge.stores.pod(POD))
            begun = room.time
            with pytest.raises(StatusUnknown) as unknown:
                await room.knowledge.workers.ask(room.pod(POD), {7})
            assert words in str(unknown.value)
            assert room.time - begun <= 5.0

    story()


@in_room()
async def test_a_good_answer(room: Room) -> None:
    """Every entry, ended ones too, each with its cluster."""
    worker = room.local(0)
    worker.begin("1-170-1-0", "1-170-2-0")
    worker.finish("1-170-2-0")
    worker.delay = 4.9
    async with room.lit():
        await room.until(lambda: room.knowledge.stores.pod(POD))
        listed = await room.knowledge.workers.ask(room.pod(POD), {7})
    assert [(str(state.task), state.running) for state in listed.states] == [("1-170-1-0", True), ("1-170-2-0", False)]
    assert listed.clusters == (7, 7)
    assert listed.asked == {7}


@in_room()
async def test_a_worker_of_one_of_several_clusters(room: Room) -> None:
    """It refuses to speak of the other: it has no tasks of it."""
    room.local(0, running=2)
    async with room.lit():
        await room.until(lambda: room.knowledge.stores.pod(POD))
        listed = await room.knowledge.workers.ask(room.pod(POD), {7, 8})
    assert listed.clusters == (7, 7)
    assert listed.asked == {7, 8}


@in_room()
async def test_nobody_there(room: Room) -> None:
    """A refused connection is unknown, and so is a pod without an address."""
    room.local(0)
    async with room.lit():
        await room.until(lambda: room.knowledge.stores.pod(POD))
        pod = room.pod(POD)
        room.network.leave(pod.ip, 19500)
        with pytest.raises(StatusUnknown, match=r"cannot be reached: .* refuses connections"):
            await room.knowledge.workers.ask(pod, {7})
        room.change(POD, {"podIP": None})
        await room.until(lambda: not room.pod(POD).ip)
        with pytest.raises(StatusUnknown, match="no address"):
            await room.knowledge.workers.ask(room.pod(POD), {7})


@in_room()
async def test_before_and_after_a_term(room: Room) -> None:
    """Nobody is asked."""
    room.local(0)
    async with room.lit():
        await room.until(lambda: room.knowledge.stores.pod(POD))
    with pytest.raises(StatusUnknown, match="does not ask"):
        await room.knowledge.workers.ask(room.pod(POD), {7})


@in_room(local_port=20000)
async def test_local_pods_may_have_a_port_of_their_own(room: Room) -> None:
    """Other workers keep theirs."""
    room.local(0)
    room.dedicated("w").begin("1-170-1-0")
    async with room.lit():
        await room.until(lambda: room.knowledge.stores.pod("w-0") and room.knowledge.stores.pod(POD))
        assert (await room.knowledge.workers.ask(room.pod("w-0"), {7})).states
        with pytest.raises(StatusUnknown, match="refuses connections"):
            await room.knowledge.workers.ask(room.pod(POD), {7})
        room.network.listen(room.pod(POD).ip, 20000, room.workers[POD].accept)
        assert not (await room.knowledge.workers.ask(room.pod(POD), {7})).states


@in_room()
async def test_cancelling(room: Room) -> None:
    """Passed on as it is; a worker that does not know the task says so; one that does not answer is unknown."""
    worker = room.local(0, running=1)
    async with room.lit():
        await room.until(lambda: room.knowledge.stores.pod(POD))
        [known] = (TaskId(*numbers) for numbers in worker.tasks)
        assert await room.knowledge.workers.cancel(room.pod(POD), 7, known)
        assert worker.tasks[known].canceled
        assert not await room.knowledge.workers.cancel(room.pod(POD), 7, known._replace(engine=5))
        worker.silent = True
        with pytest.raises(StatusUnknown):
            async with asyncio.timeout(6):
                await room.knowledge.workers.cancel(room.pod(POD), 7, known)
