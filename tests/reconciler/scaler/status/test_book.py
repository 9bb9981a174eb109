"""Which answers are taken, and who is told."""

import asyncio

import pytest

from reconciler.scaler.status.book import StatusUnknown
from tests.reconciler.scaler.room import Room, in_room

# So seldom that every question is one of the test's own.
SELDOM = 1_000_000.0


@in_room(cluster_id=7, refresh_interval=SELDOM)
async def test_a_question_that_overtakes_another(room: Room) -> None:
    """The later question counts, whichever answer comes first."""
    worker = room.local(0)
    async with room.lit():
        await room.until(lambda: room.knowledge.stores.pod("tikv-api-0"))
        pod, book = room.pod("tikv-api-0"), room.knowledge.book
        await room.until(lambda: book.last(pod.uid))
        worker.delay = 3.0
        slow = asyncio.ensure_future(book.ask_now(pod, {7}))
        await asyncio.sleep(1.0)
        worker.delay = 0.0
        worker.begin("1-170-1-0")
        later = await book.ask_now(pod, {7})
        assert (await slow).at < later.at
        assert book.last(pod.uid) == later


@in_room(cluster_id=7, refresh_interval=SELDOM)
async def test_a_failure_of_an_older_question(room: Room) -> None:
    """Takes nothing away from the answer to a later one."""
    worker = room.local(0)
    async with room.lit():
        await room.until(lambda: room.knowledge.stores.pod("tikv-api-0"))
        pod, book = room.pod("tikv-api-0"), room.knowledge.book
        await room.until(lambda: book.last(pod.uid))
        worker.silent = True
        hangs = asyncio.ensure_future(book.ask_now(pod, {7}))
        await asyncio.sleep(1.0)
        worker.silent = False
        await book.ask_now(pod, {7})
        with pytest.raises(StatusUnknown):
            await hangs
        assert book.failing_since(pod.uid) is None
        assert book.problem(pod.uid) == ""


@in_room(cluster_id=7, refresh_interval=SELDOM)
async def test_listeners_hear_of_answers_and_failures(room: Room) -> None:
    """By the key of the pod."""
    worker = room.local(0)
    heard: list[str] = []
    room.knowledge.book.subscribe(heard.append)
    async with room.lit():
        await room.until(lambda: heard)
        worker.refusing = 500
        with pytest.raises(StatusUnknown):
            await room.knowledge.book.ask_now(room.pod("tikv-api-0"), {7})
        assert heard == ["tidb-serverless/tikv-api-0"] * 2


@in_room(cluster_id=7, refresh_interval=SELDOM)
async def test_asking_a_pod_that_is_gone(room: Room) -> None:
    """An answer for a pod that we do not know any more is none, and leaves no trace."""
    worker = room.local(0)
    async with room.lit():
        await room.until(lambda: room.knowledge.stores.pod("tikv-api-0"))
        pod = room.pod("tikv-api-0")
        worker.delay = 1.0
        asking = asyncio.ensure_future(room.knowledge.book.ask_now(pod, {7}))
        await asyncio.sleep(0.1)
        room.remove("tikv-api-0")
        with pytest.raises(StatusUnknown, match="replaced"):
            await asking
        assert room.knowledge.book.failing_since(pod.uid) is None
