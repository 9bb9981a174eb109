"""Every zone of a group is to be blocked: said once per change, or prevented by `min-open-zones`."""

import asyncio

import orjson

from tests.simulation.stage import Stage, play

NEWS = "AllZonesBlocked"


def told(stage: Stage) -> list[str]:
    """The nodes that the news was written to, in order."""
    return [orjson.loads(request.body)["regarding"]["name"] for request in stage.journal.events(NEWS)]


def test_it_is_said_once_when_the_last_open_zone_closes() -> None:
    """On the node with the newest signal, and not again while looks go on."""

    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(400s)", "a2", "b1", "b2")
        stage.start()
        await stage.until(lambda: stage.prevented("a1", "a2"))
        await asyncio.sleep(60)
        assert told(stage) == []
        stage.signal("b1", "b2")
        await stage.until(lambda: stage.prevented("b1", "b2") and told(stage))
        await asyncio.sleep(3600)
        assert told(stage) in (["b1"], ["b2"])

    play(story)


def test_it_is_not_said_before_every_zone_has_been_looked_at() -> None:
    """A leader that has just begun knows of no zone; an open one is not to be overlooked."""

    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(400s) P", "a2 P", "b1", "c1")
        stage.start()
        await stage.settle()
        assert told(stage) == []

    play(story)


def test_it_is_said_when_the_open_zone_loses_its_last_node() -> None:
    """Only zones with live nodes count: an empty one takes no pods."""

    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(400s)", "a2", "b1")
        stage.start()
        await stage.until(lambda: stage.prevented("a1", "a2"))
        await asyncio.sleep(10)
        assert told(stage) == []
        stage.delete("b1")
        await stage.until(lambda: told(stage) == ["a1"])

    play(story)


def test_it_is_news_again_after_a_zone_was_open() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(400s)", "b1 S(400s)")
        stage.start()
        await stage.until(lambda: len(told(stage)) == 1)
        stage.calm("b1")
        await stage.until(lambda: stage.clean("b1"))
        await asyncio.sleep(1200)
        stage.join("b2 S(400s)")
        await stage.until(lambda: len(told(stage)) == 2, within=400)

    play(story)


def test_with_one_zone_to_be_kept_open_the_newest_signal_does_not_close_its_zone() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(500s)", "a2", "b1 S(400s)", "b2")
        one = stage.start()
        await stage.until(lambda: stage.prevented("a1", "a2"))
        await stage.settle()
        assert stage.clean("b1", "b2")
        assert told(stage) == []
        assert one.state("b") == "open"

    play(story, min_open_zones=1)


def test_other_groups_are_no_part_of_it() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(400s)", "b1")
        stage.nodes("c1 S(400s)", group="h")
        stage.start()
        await stage.until(lambda: told(stage) == ["c1"])
        await stage.settle()
        assert told(stage) == ["c1"]

    play(story)
