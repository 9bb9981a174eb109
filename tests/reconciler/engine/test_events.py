"""Events as a courtesy: told once, never piled up, never in anybody's way."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from ebbtide.kube.client import Client
from ebbtide.kube.resources import EVENTS, NODES, PODS
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.faults import Answer, When
from ebbtide.sim.time import simulate
from reconciler.engine.events import LATEST, QUIET, Event, Recorder, Regarding

BLOCKED = Event(Regarding(NODES, "a1", "uid-a1"), "Normal", "ZoneBlocked", "Taint", "Zone a is blocked.")
FORBIDDEN = Event(Regarding(PODS, "p", "uid-p", "db"), "Warning", "EvictionForbidden", "Evict", "Not permitted.")


@dataclass(slots=True)
class Scene:
    cluster: Cluster
    client: Client
    recorder: Recorder

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Writes inside the block, and until nothing waits any more at its end."""
        task = asyncio.create_task(self.recorder.run())
        try:
            yield
            await asyncio.sleep(5)
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def written(self) -> list[dict[str, Any]]:
        return (await self.client.list_all(EVENTS))[0]


def play(story: Callable[[Scene], Awaitable[None]]) -> None:
    """Runs a story on a cluster of its own, on simulated time."""

    async def main() -> None:
        async with (
            Cluster() as cluster,
            Client(cluster.access(), field_manager="test", user_agent="test") as client,
        ):
            cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "db"}})
            await story(Scene(cluster, client, Recorder(client, cluster.clock, "ebbtide-0")))

    simulate(main())


def test_an_event_says_what_happened_to_which_object_and_who_says_so() -> None:
    async def story(scene: Scene) -> None:
        async with scene.writing():
            scene.recorder.emit(FORBIDDEN)
        (event,) = await scene.written()
        regarding = {"kind": "Pod", "apiVersion": "v1", "name": "p", "namespace": "db", "uid": "uid-p"}
        assert event["metadata"]["namespace"] == "db"
        assert event["regarding"] == regarding
        assert (event["type"], event["reason"], event["action"]) == ("Warning", "EvictionForbidden", "Evict")
        assert (event["note"], event["reportingInstance"]) == ("Not permitted.", "ebbtide-0")

    play(story)


def test_an_event_about_a_node_is_found_in_the_default_namespace() -> None:
    async def story(scene: Scene) -> None:
        async with scene.writing():
            scene.recorder.emit(BLOCKED)
        assert [event["metadata"]["namespace"] for event in await scene.written()] == ["default"]

    play(story)


def test_the_same_words_about_the_same_object_are_told_again_only_after_a_while() -> None:
    async def story(scene: Scene) -> None:
        async with scene.writing():
            scene.recorder.emit(BLOCKED)
            scene.recorder.emit(BLOCKED)
            scene.recorder.emit(replace(BLOCKED, note="Zone a is blocked: 2 nodes are signalled."))
        assert len(await scene.written()) == 2
        async with scene.writing():
            await asyncio.sleep(QUIET)
            scene.recorder.emit(BLOCKED)
        assert len(await scene.written()) == 3

    play(story)


def test_a_note_that_is_too_long_for_the_server_is_cut() -> None:
    async def story(scene: Scene) -> None:
        async with scene.writing():
            scene.recorder.emit(replace(BLOCKED, note="x" * 5000))
        (event,) = await scene.written()
        assert len(event["note"]) == 1000

    play(story)


def test_an_event_that_is_refused_holds_up_none_behind_it() -> None:
    async def story(scene: Scene) -> None:
        scene.cluster.faults.inject(Answer(403, "Forbidden"), When(method="POST", times=1))
        with capture_logs() as logs:
            async with scene.writing():
                scene.recorder.emit(BLOCKED)
                scene.recorder.emit(FORBIDDEN)
        assert [event["reason"] for event in await scene.written()] == ["EvictionForbidden"]
        assert [(line["event"], line["object"]) for line in logs] == [("event not written", "a1")]

    play(story)


def test_what_was_dropped_while_too_many_waited_may_be_told_later() -> None:
    async def story(scene: Scene) -> None:
        with capture_logs() as logs:
            for number in range(1001):
                scene.recorder.emit(replace(BLOCKED, note=f"{number}"))
        assert [line["event"] for line in logs] == ["event dropped, too many are waiting"]
        async with scene.writing():
            await asyncio.sleep(60)
            scene.recorder.emit(replace(BLOCKED, note="1000"))
        assert {event["note"] for event in await scene.written()} == {f"{number}" for number in range(1001)}

    play(story)


def test_the_latest_are_kept_with_their_times_and_older_ones_are_not() -> None:
    async def story(scene: Scene) -> None:
        began = scene.cluster.clock.now()
        async with scene.writing():
            for number in range(LATEST + 1):
                scene.recorder.emit(replace(BLOCKED, note=f"{number}"))
                scene.recorder.emit(replace(BLOCKED, note=f"{number}"))
                await asyncio.sleep(1)
        latest = scene.recorder.latest
        assert [told.event.note for told in latest] == [f"{number}" for number in range(1, LATEST + 1)]
        assert latest[0].at == pytest.approx(began + 1, abs=0.5)

    play(story)
