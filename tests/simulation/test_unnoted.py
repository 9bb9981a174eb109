"""A signal whose time cannot be written on its node is remembered by the leader, and loses nothing but its memory."""

import asyncio

import pytest

from ebbtide.model import parse_time
from ebbtide.sim.faults import Answer, When
from tests.simulation.stage import Stage, play
from tests.simulation.wiretap import NODE_PATH, Request


def refuse_annotations(stage: Stage, code: int = 422, until: float = float("inf")) -> None:
    """A policy that will have no further annotation on a node."""

    def judge(request: Request) -> None:
        if b"/metadata/annotations" in request.body and stage.time < until:
            answer = Answer(code, "Invalid" if code == 422 else "Forbidden", "denied by policy")
            stage.faults.inject(answer, When("PATCH", request.path, times=1))

    stage.on("PATCH", NODE_PATH, judge, times=None)


@pytest.mark.parametrize("code", [422, 403])
def test_an_old_signal_alone_closes_the_zone_whose_time_cannot_be_noted(code: int) -> None:
    async def story(stage: Stage) -> None:
        refuse_annotations(stage, code)
        stage.nodes("a1 S", "a2")
        stage.pods("a1", "p")
        replica = stage.start()
        await asyncio.sleep(299)
        assert stage.clean("a1", "a2")
        assert not stage.evicted()
        await stage.until(lambda: stage.prevented("a1", "a2") and stage.evicted() == ["p"], within=5)
        assert replica.state("a") == "blocked"
        assert stage.first_seen("a1") is None

    play(story)


def test_it_costs_no_storm_of_writes_and_is_told() -> None:
    async def story(stage: Stage) -> None:
        refuse_annotations(stage)
        stage.nodes("a1 S", "a2")
        stage.start()
        await asyncio.sleep(900)
        assert len(stage.journal.node_writes) <= 16
        told = stage.journal.events("NodeNotWritten")
        assert 1 <= len(told) <= 2
        assert "denied by policy" in told[0].document["note"]
        assert "first seen" in told[0].document["note"]

    play(story)


def test_the_taint_does_not_wait_for_the_annotation() -> None:
    """Two signals close the zone at once, on the signalled nodes as well."""

    async def story(stage: Stage) -> None:
        refuse_annotations(stage)
        stage.nodes("a1", "a2", "a3")
        stage.pods("a1", "p")
        replica = stage.start()
        await stage.until(lambda: replica.state("a") == "open")
        stage.signal("a1", "a2")
        await stage.until(lambda: stage.prevented("a1", "a2", "a3") and stage.evicted() == ["p"], within=5)

    play(story)


def test_what_is_noted_late_is_the_time_at_which_the_signal_was_seen() -> None:
    async def story(stage: Stage) -> None:
        refuse_annotations(stage, until=100.0)
        stage.nodes("a1 S", "a2")
        stage.start()
        begun = stage.now
        await stage.until(lambda: stage.first_seen("a1"), within=200)
        noted = parse_time(stage.first_seen("a1"))
        assert noted is not None
        assert begun <= noted <= begun + 2

    play(story)


def test_a_signal_that_comes_back_is_a_new_one() -> None:
    async def story(stage: Stage) -> None:
        refuse_annotations(stage)
        stage.nodes("a1 S", "a2")
        stage.start()
        await asyncio.sleep(200)
        stage.calm("a1")
        await asyncio.sleep(5)
        stage.signal("a1")
        await asyncio.sleep(290)
        assert stage.clean("a1", "a2")
        await stage.until(lambda: stage.prevented("a1", "a2"), within=15)

    play(story)


def test_the_clock_of_the_machine_does_not_matter() -> None:
    async def story(stage: Stage) -> None:
        refuse_annotations(stage)
        stage.nodes("a1 S", "a2")
        replica = stage.start()
        await asyncio.sleep(100)
        replica.clock.jump(-3600)
        await asyncio.sleep(100)
        replica.clock.jump(3700)
        await asyncio.sleep(95)
        assert stage.clean("a1", "a2")
        await stage.until(lambda: stage.prevented("a1", "a2"), within=10)

    play(story)


def test_a_dry_run_that_notes_nothing_sees_a_signal_get_old_all_the_same() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S", "a2")
        replica = stage.start(dry_run=True)
        await stage.until(lambda: replica.state("a") == "waiting")
        await asyncio.sleep(310)
        assert replica.state("a") == "partial"
        assert not stage.journal.writes

    play(story)
