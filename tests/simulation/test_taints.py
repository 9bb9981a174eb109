"""Writing taints while others write too: nothing of theirs is lost, nothing of ours is missing or done twice."""

import asyncio
from itertools import pairwise

import pytest

from ebbtide import vocabulary
from ebbtide.sim import objects
from ebbtide.sim.faults import Answer, Delay, Drop, LoseEvents, RepeatEvents, When
from tests.simulation import notation
from tests.simulation.stage import Stage, play
from tests.simulation.wiretap import NODE_PATH

BLOCKED = "noderebalance_prevent_ca_scale_up"
CELL = {"node_group": "g", "node_zone": "a"}


def only_exact_patches(stage: Stage) -> bool:
    """Whether no list of taints was ever written as a whole over another one, and every write names its version."""
    writes = stage.journal.node_writes
    whole = [op for w in writes for op in w.document if op["path"] == "/spec/taints" and op["op"] != "add"]
    return not whole and all(w.document[0]["path"] == "/metadata/resourceVersion" for w in writes)


def test_nr_08_the_first_seen_time_is_written_once() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1", "a2")
        one = stage.start()
        await stage.until(lambda: one.leads)
        await asyncio.sleep(5)
        other = "2026-01-01T00:00:04Z"
        stage.on("PATCH", NODE_PATH, lambda _: stage.annotate("a1", vocabulary.FIRST_SEEN_ANNOTATION, other))
        stage.signal("a1")
        await asyncio.sleep(30)
        assert stage.first_seen("a1") == other
        assert [write.status for write in stage.journal.node_writes] == [409]

    play(story, resync_period=1.0)


@pytest.mark.parametrize("joins", ["a4", "a4 unready"])
def test_nr_18_a_node_that_joins_a_blocked_zone_is_tainted_at_once(joins: str) -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(10s) P", "a2 S(10s) P")
        one = stage.start()
        await stage.until(lambda: one.leads)
        await asyncio.sleep(20)
        stage.join(joins)
        await stage.until(lambda: stage.prevented("a4"), within=1)

    play(story, resync_period=86400.0)


def test_nr_19_a_node_is_tainted_when_its_labels_come() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(10s) P", "a2 S(10s) P")
        stage.start()
        nothing = {vocabulary.ZONE_LABEL: None, vocabulary.NODE_GROUP_LABEL: None}
        stage.join("a4", metadata={"labels": nothing})
        await asyncio.sleep(20)
        assert stage.clean("a4")
        stage.label("a4", zone="a", group="g")
        await stage.until(lambda: stage.prevented("a4"), within=1)
        assert len(stage.journal.node_writes) == 1

    play(story, resync_period=86400.0)


def test_nr_20_a_taint_that_came_between_reading_and_writing_stays_in_its_place() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(10s) P", "a2 X Y", "a3 S(10s) P")
        stage.on("PATCH", NODE_PATH, lambda _: stage.taint("a2", notation.foreign("Z")))
        stage.start()
        await stage.until(lambda: stage.prevented("a2"), within=2)
        assert stage.marks("a2") == "X Y Z P"
        assert [write.status for write in stage.journal.node_writes] == [409, 200]
        assert only_exact_patches(stage)

    play(story)


def test_nr_21_a_list_that_shifts_under_a_removal_loses_nothing_else() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 X P Y")
        stage.on("PATCH", NODE_PATH, lambda _: stage.untaint("a1", "X"))
        stage.start()
        await stage.until(lambda: stage.clean("a1"), within=2)
        assert stage.marks("a1") == "Y"
        assert only_exact_patches(stage)

    play(story)


def test_nr_22_a_signal_that_goes_before_the_write_closes_nothing() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(301s)", "a2")
        stage.on("PATCH", NODE_PATH, lambda _: stage.calm("a1"))
        stage.start()
        await stage.settle()
        assert not [change for change in stage.journal.changes if "P" in notation.marks(change.after)]
        assert stage.first_seen("a1") is None

    play(story)


def test_nr_23_taint_and_time_are_one_write_and_anothers_taint_of_our_key_is_not_ours() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S", "a2 S(10s)", "a3")
        theirs = objects.taint(vocabulary.PREVENT_TAINT_KEY, "true", "PreferNoSchedule")
        stage.taint("a3", theirs)
        stage.start()
        await stage.until(lambda: stage.prevented("a1", "a2", "a3"), within=2)
        assert sorted(write.node for write in stage.journal.node_writes) == ["a1", "a2", "a3"]
        assert stage.first_seen("a1") is not None
        stage.calm("a1", "a2")
        await stage.until(lambda: stage.clean("a1", "a2", "a3"), within=2)
        assert stage.node("a3")["spec"]["taints"] == [theirs]
        assert len(stage.journal.node_writes) == 6

    play(story)


def test_nr_24_a_taint_that_somebody_removes_is_back_at_once_and_counted() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(10s)", "a2 S(10s)", "a3")
        one = stage.start()
        await stage.until(lambda: stage.prevented("a3"), within=2)
        stage.untaint("a3", vocabulary.PREVENT_TAINT_KEY)
        await stage.until(lambda: stage.prevented("a3"), within=1)
        await asyncio.sleep(1)
        assert one.metric("noderebalance_taint_restored_total") == 1
        stage.calm("a1", "a2")
        await stage.until(lambda: stage.clean("a1", "a2", "a3"), within=1)
        await stage.settle()
        assert one.metric("noderebalance_taint_restored_total") == 1

    play(story)


def test_nr_25_a_fight_over_a_taint_is_fought_slowly_and_told_once() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(10s)", "a2 S(10s)", "a3", "b1", "b2")
        one = stage.start()
        await stage.until(lambda: stage.prevented("a1", "a2", "a3"), within=2)
        begun = stage.time

        async def fight() -> None:
            while stage.time < begun + 600:
                if stage.prevented("a3"):
                    stage.untaint("a3", vocabulary.PREVENT_TAINT_KEY)
                await asyncio.sleep(0.2)

        fighting = asyncio.ensure_future(fight())
        await asyncio.sleep(30)
        stage.signal("b1", "b2")
        await stage.until(lambda: stage.prevented("b1", "b2"), within=1)
        await fighting
        times = [change.time for change in stage.journal.own_changes("a3") if change.time >= begun]
        # At once the first time, since a single removal is an accident; then each pause is twice the last one.
        assert times[0] < begun + 1
        gaps = [round(later - earlier) for earlier, later in pairwise(times)]
        assert gaps == [5, 10, 20, 40] + [60] * (len(gaps) - 4)
        assert times[-1] > begun + 540
        assert len(stage.journal.events("PreventTaintContested")) == 1
        assert (one.metric("noderebalance_taint_restored_total") or 0) >= 3
        await stage.until(lambda: stage.prevented("a3"), within=61)

    play(story)


def test_nr_26_nothing_is_decided_before_the_list_of_nodes_is_complete() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S P", "a2 S P", "a3 P", *(f"b{number}" for number in range(150)))
        stage.faults.inject(Answer(422, "Invalid"), When("WATCH", "/api/v1/nodes", times=1))
        stage.faults.inject(Delay(before=10), When("GET", "/api/v1/nodes", skip=1, times=1))
        one = stage.start()
        await asyncio.sleep(9)
        assert not stage.journal.deeds
        assert not one.leads
        await stage.until(lambda: one.state("a") != "", within=10)
        await stage.settle()
        assert stage.prevented("a1", "a2", "a3")
        assert not [w for w in stage.journal.node_writes if any("/spec/taints" in op["path"] for op in w.document)]

    play(story)


def test_nr_27_repeated_events_lead_to_no_second_write() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1", "a2", "a3")
        stage.faults.inject(RepeatEvents(count=None), When("WATCH", "/api/v1/nodes"))
        one = stage.start()
        await stage.until(lambda: one.leads)
        stage.signal("a1", "a2")
        await stage.until(lambda: stage.prevented("a1", "a2", "a3"), within=1)
        await stage.settle()
        assert sorted(write.node for write in stage.journal.node_writes) == ["a1", "a2", "a3"]

    play(story)


def test_nr_27_an_own_write_that_the_watch_never_brings_is_not_written_again() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(10s)", "a2 S(10s)", "a3")
        stage.faults.inject(LoseEvents(count=None), When("WATCH", "/api/v1/nodes", skip=1))
        one = stage.start()
        await stage.until(lambda: stage.prevented("a1", "a2", "a3"), within=2)
        await asyncio.sleep(1200)
        assert len(stage.journal.node_writes) == 3
        assert one.state("a") == "blocked"

    play(story, resync_period=10.0)


def test_nr_27_a_write_whose_answer_is_lost_is_found_done() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(10s)", "a2 S(10s)", "a3")
        stage.faults.inject(Drop(processed=True), When("PATCH", NODE_PATH, times=3))
        one = stage.start()
        await stage.until(lambda: stage.prevented("a1", "a2", "a3") and one.state("a") == "blocked", within=60)
        await stage.settle()
        assert len([change for change in stage.journal.changes if change.cause in stage.journal.node_writes]) == 3

    play(story)


def test_nr_28_of_fifty_nodes_one_that_fails_holds_up_nobody() -> None:
    async def story(stage: Stage) -> None:
        names = [f"a{number}" for number in range(50)]
        stage.nodes(*names)
        one = stage.start()
        await stage.until(lambda: one.leads)
        fault = stage.faults.inject(Answer(500, "InternalError"), When("PATCH", "/api/v1/nodes/a37"))
        stage.signal("a1", "a2")
        await stage.until(lambda: stage.prevented(*(name for name in names if name != "a37")), within=1)
        assert one.state("a") == "partial"
        assert one.metric(BLOCKED, **CELL) == 0
        stage.faults.remove(fault)
        await stage.until(lambda: stage.prevented("a37") and one.state("a") == "blocked", within=30)
        assert one.metric(BLOCKED, **CELL) == 1
        assert all(len(list(stage.journal.own_changes(name))) <= 2 for name in names)

    play(story)


def test_nr_29_a_node_that_vanishes_while_it_is_written_is_no_error() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(10s)", "a2 S(10s)", *(f"a{number}" for number in range(3, 50)))
        stage.on("PATCH", "/api/v1/nodes/a37", lambda _: stage.delete("a37"))
        one = stage.start()
        await stage.until(lambda: one.state("a") == "blocked", within=2)
        assert one.metric(BLOCKED, **CELL) == 1

    play(story)


def test_nr_30_nothing_is_evicted_into_a_zone_that_is_still_open_but_not_for_ever() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(10s)", "a2 S(10s)", "a3")
        stage.pods("a1", "p")
        stage.faults.inject(Answer(500, "InternalError"), When("PATCH", "/api/v1/nodes/a3"))
        stage.start()
        await stage.until(lambda: stage.evicted() == ["p"], within=120)
        assert 60 <= stage.journal.evictions[0].time < 70

    play(story)


def test_nr_30_evictions_begin_as_soon_as_the_zone_is_closed() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(10s)", "a2 S(10s)", "a3")
        stage.pods("a1", "p")
        stage.faults.inject(Answer(500, "InternalError"), When("PATCH", "/api/v1/nodes/a3", times=1))
        stage.start()
        await stage.until(lambda: stage.evicted() == ["p"], within=5)
        assert stage.prevented("a1", "a2", "a3")

    play(story)
