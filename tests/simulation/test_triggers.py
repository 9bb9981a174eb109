"""What leads to a look: events, timers, overrides, and watches that break in every way."""

import asyncio

import pytest

from ebbtide import vocabulary
from ebbtide.sim.faults import Answer, Compact, CutWatch, Delay, Effect, FreezeWatch, LoseEvents, When
from tests.simulation.stage import Stage, play

IGNORE = (vocabulary.BLOCK_ANNOTATION, vocabulary.BLOCK_IGNORE)


def test_nr_34_when_the_signalled_node_goes_its_zone_opens_at_once() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(301s) P", "a2 P", "a3 P")
        one = stage.start()
        await stage.until(lambda: one.leads)
        await asyncio.sleep(10)
        stage.delete("a1")
        await stage.until(lambda: stage.clean("a2", "a3"), within=1)

    play(story, resync_period=86400.0)


def test_nr_37_a_zone_stays_closed_for_the_hold_down_after_its_last_signal() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(301s) P", "a2 P")
        one = stage.start()
        await stage.until(lambda: one.leads)
        await asyncio.sleep(10)
        stage.delete("a1")
        gone = stage.time
        await asyncio.sleep(60)
        stage.join("a5")
        await stage.until(lambda: stage.prevented("a5"), within=1)
        await asyncio.sleep(gone + 179.9 - stage.time)
        assert stage.prevented("a2", "a5")
        assert one.state("a") == "blocked"
        await stage.until(lambda: stage.clean("a2", "a5"), within=1)

    play(story, hold_down=180.0)


def test_nr_37_a_signal_in_between_or_a_restart_begins_a_new_count() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(301s) P", "a2 P")
        one = stage.start()
        await stage.until(lambda: one.leads)
        stage.calm("a1")
        await asyncio.sleep(100)
        stage.signal("a2")
        await asyncio.sleep(50)
        stage.calm("a2")
        await asyncio.sleep(170)
        assert stage.prevented("a1", "a2")
        one.kill()
        two = stage.start("two")
        await stage.until(lambda: two.leads)
        await asyncio.sleep(170)
        assert stage.prevented("a1", "a2")
        await stage.until(lambda: stage.clean("a1", "a2"), within=12)

    play(story, hold_down=180.0)


def test_nr_37_a_hold_down_that_rounding_leaves_a_rest_of_is_no_hot_loop() -> None:
    """At some of these instants a remainder of 1e-14 s is left, too short for a timer to move the clock."""

    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(301s) P", "a2 P")
        one = stage.start()
        await stage.until(lambda: one.leads)
        for number in range(40):
            stage.calm("a1")
            await stage.until(lambda: stage.clean("a1", "a2"), within=4)
            stage.signal("a1", "a2")
            await stage.until(lambda: stage.prevented("a1", "a2"), within=1)
            stage.calm("a2")
            await asyncio.sleep(0.1 + number / 7)
        assert (one.metric("noderebalance_reconcile_duration_seconds_count") or 0) < 40 * 20

    play(story, hold_down=3.1, max_rebalance_signal_time=0.0)


def test_nr_38_a_storm_of_replacements_never_opens_the_zone() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(301s)", "a2", "a3")
        one = stage.start()
        await stage.until(lambda: one.state("a") == "blocked", within=2)
        newest = "a1"
        for number in range(10, 15):
            await asyncio.sleep(120)
            stage.delete(newest)
            await asyncio.sleep(180)
            newest = f"a{number}"
            stage.join(newest)
            stage.signal(newest)
        await asyncio.sleep(60)
        assert stage.prevented("a2", "a3", newest)
        for node in ("a2", "a3"):
            assert len(list(stage.journal.own_changes(node))) == 1
        changes = [request for request in stage.journal.writes if b'"reason":"Zone' in request.body]
        assert len(changes) == 1

    play(story, hold_down=300.0)


def test_nr_39_one_node_can_keep_its_whole_zone_open() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(10s) P", "a2 S(10s) P", "a3 P", "a4 P D")
        one = stage.start()
        await stage.until(lambda: one.leads)
        stage.annotate("a4", *IGNORE)
        await asyncio.sleep(5)
        assert stage.prevented("a1", "a2", "a3")
        stage.annotate("a3", *IGNORE)
        await stage.until(lambda: stage.clean("a1", "a2", "a3"), within=1)
        stage.pods("a1", "p")
        await stage.settle()
        assert not stage.journal.evictions
        stage.annotate("a3", vocabulary.BLOCK_ANNOTATION, None)
        await stage.until(lambda: stage.prevented("a1", "a2", "a3") and stage.evicted() == ["p"], within=2)

    play(story)


def test_nr_40_groups_that_are_not_meant_are_left_alone() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(10s)", "a2 S(10s)", group="prod-1")
        stage.nodes("at1 S(10s)", "at2 S(10s)", group="test-1")
        stage.pods("at1", "p")
        stage.start()
        await stage.until(lambda: stage.prevented("a1", "a2"), within=2)
        await stage.settle()
        assert {request.node for request in stage.journal.node_writes} == {"a1", "a2"}
        assert not stage.journal.evictions

    play(story, node_groups=["prod-*"])


def test_nr_41_of_two_zones_signalled_at_once_the_one_with_the_older_signal_closes() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1", "a2", "b1 S(50s)", "b2 S(10s)")
        stage.pods("a1", "pa")
        stage.pods("b1", "pb")
        stage.nodes("ah1 S(10s)", "ah2 S(10s)", group="h")
        one = stage.start()
        stage.faults.inject(Delay(jitter=0.5), When("PATCH"))
        stage.signal("a1", "a2")
        await stage.until(lambda: one.leads and stage.prevented("b1", "b2"), within=5)
        await stage.settle()
        assert stage.clean("a1", "a2", "ah1", "ah2")
        assert stage.evicted() == ["pb"]
        stage.calm("b1", "b2")
        await stage.until(lambda: stage.prevented("a1", "a2"), within=5)
        assert stage.clean("b1", "b2")

    play(story, min_open_zones=1)


WATCH_FAULTS: dict[str, tuple[list[Effect], float]] = {
    "cut": ([CutWatch(after_events=1)], 2),
    "ended": ([CutWatch(after_events=1, cleanly=True)], 2),
    "frozen": ([FreezeWatch(after_events=1)], 320),
    "lost, then cut and compacted": ([LoseEvents(), CutWatch(after_events=2), Compact()], 5),
    "too old": ([Answer(410, "Expired")], 2),
    "refused for a while": ([Answer(503, "ServiceUnavailable", retry_after=3)], 10),
    "throttled": ([Answer(429, "TooManyRequests", retry_after=3)], 10),
}


@pytest.mark.parametrize("fault", WATCH_FAULTS)
def test_a_watch_that_breaks_delays_and_changes_nothing(fault: str) -> None:
    """The zone closes by the second signal, whatever happened to the stream that should have told of it."""

    async def story(stage: Stage) -> None:
        stage.nodes("a1", "a2", "a3")
        effects, within = WATCH_FAULTS[fault]
        for effect in effects:
            skip = 2 if isinstance(effect, Compact) else 1
            stage.faults.inject(effect, When("WATCH", "/api/v1/nodes", skip=skip, times=1))
        one = stage.start()
        await stage.until(lambda: one.leads, within=5)
        stage.faults.cut_watches("/api/v1/nodes")
        await asyncio.sleep(1)
        stage.signal("a1")
        await asyncio.sleep(1)
        stage.signal("a2")
        await stage.until(lambda: stage.prevented("a1", "a2", "a3"), within=within)

    play(story)


def test_a_first_list_that_freezes_is_given_up_for_pages() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(10s)", "a2 S(10s)", "a3")
        stage.faults.inject(FreezeWatch(after_events=1), When("WATCH", "/api/v1/nodes", times=1))
        stage.start()
        await stage.until(lambda: stage.prevented("a1", "a2", "a3"), within=70)

    play(story)
