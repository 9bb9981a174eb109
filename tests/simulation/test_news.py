"""What people are told by events: once, by whichever replica leads."""

import asyncio

import pytest

from ebbtide.sim.faults import Drop, When
from tests.simulation import notation
from tests.simulation.stage import Replica, Stage, play
from tests.simulation.wiretap import EVENT_PATH, NODE_PATH

SEEN, GONE = "RebalanceSignalSeen", "RebalanceSignalGone"
BLOCKED, OPENED, NONE_OPEN = "ZoneBlocked", "ZoneOpened", "AllZonesBlocked"
OUTSIDE = "SignalOutsideZones"


def told(stage: Stage, reason: str) -> int:
    return len(stage.journal.events(reason))


def news(stage: Stage) -> list[str]:
    return [request.document["reason"] for request in stage.journal.matching("POST", EVENT_PATH)]


async def next_leader(stage: Stage, name: str = "two") -> Replica:
    """Another replica leads, and has looked at everything."""
    await stage.replicas[-1].stop()
    replica = stage.start(name)
    await stage.until(lambda: replica.leads, within=60)
    await asyncio.sleep(30)
    return replica


# --- after a change of leaders ----------------------------------------------------------------------------------


def test_a_new_leader_does_not_tell_again_what_an_earlier_one_has_told() -> None:
    """Two zones of one group are blocked, so that none is open; another group waits for a signal to get old."""

    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(30s)", "a2 S(10s)", "b1 S(400s)")
        stage.nodes("c1 S", "c2", group="h")
        stage.start("one")
        await stage.until(lambda: all(told(stage, reason) == 1 for reason in (SEEN, NONE_OPEN)), within=30)
        await stage.until(lambda: told(stage, BLOCKED) == 2)
        replica = await next_leader(stage)
        assert (replica.state("a"), replica.state("b"), replica.state("c", "h")) == ("blocked", "blocked", "waiting")
        assert [told(stage, reason) for reason in (SEEN, BLOCKED, NONE_OPEN)] == [1, 2, 1]

    play(story)


def test_what_ended_while_nobody_led_is_told_by_the_next_leader() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(30s)", "a2 S(10s)", "b1")
        stage.nodes("c1 S", "c2", group="h")
        one = stage.start("one")
        await stage.until(lambda: told(stage, BLOCKED) and told(stage, SEEN))
        await one.stop()
        stage.calm("a1", "a2", "c1")
        stage.start("two")
        await stage.until(lambda: told(stage, OPENED) and told(stage, GONE), within=60)

    play(story)


def test_a_block_that_was_half_done_is_told_by_whoever_finishes_it() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(30s)", "a2 S(10s)", "a3", "b1")
        one = stage.start("one")
        stage.on("PATCH", NODE_PATH, lambda _: one.kill(), skip=2)
        await stage.until(lambda: one.killed)
        assert stage.clean("a3")
        stage.start("two")
        await stage.until(lambda: told(stage, BLOCKED) == 1, within=60)

    play(story)


def test_what_happens_again_under_the_new_leader_is_news() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(30s)", "a2 S(10s)")
        stage.start("one")
        await stage.until(lambda: told(stage, BLOCKED) == 1 and told(stage, NONE_OPEN) == 1)
        await next_leader(stage)
        stage.calm("a1", "a2")
        await stage.until(lambda: told(stage, OPENED) == 1)
        await asyncio.sleep(700)
        stage.signal("a1", "a2")
        await stage.until(lambda: told(stage, BLOCKED) == 2 and told(stage, NONE_OPEN) == 2)

    play(story)


def test_a_zone_that_closes_under_the_new_leader_as_the_last_one_is_news() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(30s)", "a2 S(10s)", "b1", "b2")
        stage.start("one")
        await stage.until(lambda: told(stage, BLOCKED) == 1)
        await next_leader(stage)
        stage.signal("b1", "b2")
        await stage.until(lambda: told(stage, BLOCKED) == 2 and told(stage, NONE_OPEN) == 1)

    play(story)


def test_a_warning_that_asks_for_something_to_be_done_is_repeated_by_a_new_leader() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(30s) C", "b1")
        stage.nodes("a2 S(30s) C")
        stage.start("one")
        await stage.until(lambda: told(stage, "ZoneBlockIneffective") == 1)
        await next_leader(stage)
        assert told(stage, "ZoneBlockIneffective") == 2

    play(story)


# --- a time in the future ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ahead", "named"), [(3600, True), (2, False)])
def test_a_signal_from_the_future_is_named_when_it_is_told(ahead: int, named: bool) -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1", "a2")
        stage.taint("a1", notation.signal(str(int(stage.now) + ahead)))
        stage.start()
        await stage.until(lambda: told(stage, SEEN) == 1)
        (event,) = stage.journal.events(SEEN)
        assert ("lies in the future" in event.document["note"]) is named

    play(story)


# --- outside of any zone ----------------------------------------------------------------------------------------


def test_a_signalled_node_without_a_zone_is_told_once_for_each_signal() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1", "a2")
        stage.label("a1", zone=None)
        stage.start()
        await asyncio.sleep(5)
        stage.signal("a1")
        await asyncio.sleep(50)
        assert not told(stage, OUTSIDE)
        await stage.until(lambda: told(stage, OUTSIDE) == 1, within=20)
        (event,) = stage.journal.events(OUTSIDE)
        assert "topology.kubernetes.io/zone" in event.document["note"]
        await asyncio.sleep(1300)
        assert told(stage, OUTSIDE) == 1
        stage.calm("a1")
        await asyncio.sleep(5)
        stage.signal("a1")
        await stage.until(lambda: told(stage, OUTSIDE) == 2, within=70)
        assert not stage.journal.deeds

    play(story)


@pytest.mark.parametrize("late", ["labels", "no signal"])
def test_a_node_that_joins_a_zone_or_gets_well_in_time_is_not_told(late: str) -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1", "a2")
        stage.label("a1", zone=None)
        stage.signal("a1")
        stage.start()
        await asyncio.sleep(40)
        if late == "labels":
            stage.label("a1", zone="a")
        else:
            stage.calm("a1")
        await asyncio.sleep(300)
        assert OUTSIDE not in news(stage)

    play(story)


def test_a_node_that_lost_its_label_is_told_after_a_minute_of_its_own() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(10s)", "a2")
        stage.label("a1", zone=None)
        stage.start()
        await asyncio.sleep(40)
        stage.label("a1", zone="a")
        await asyncio.sleep(40)
        stage.label("a1", zone=None)
        await asyncio.sleep(40)
        assert not told(stage, OUTSIDE)
        await stage.until(lambda: told(stage, OUTSIDE) == 1, within=30)

    play(story)


def test_events_that_are_lost_hold_up_nothing() -> None:
    async def story(stage: Stage) -> None:
        stage.faults.inject(Drop(), When("POST", EVENT_PATH))
        stage.nodes("a1 S(30s)", "a2 S(10s)", "b1")
        stage.start()
        await stage.until(lambda: stage.prevented("a1", "a2"), within=5)

    play(story)
