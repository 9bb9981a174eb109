"""Which zones close, and when: the decision table on a living cluster, to the second."""

import asyncio

from ebbtide import vocabulary
from ebbtide.sim import objects
from tests.simulation.stage import Stage, play


def looks(stage: Stage) -> float:
    """How often cells and nodes were looked at so far."""
    return stage.replicas[0].metric("noderebalance_reconcile_duration_seconds_count") or 0.0


def test_nr_01_two_signals_close_the_zone_and_each_signalled_node_is_emptied_in_its_own_look() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(30s)", "a2 S(10s)", "a3", "b1")
        for node in ("a1", "a2", "a3", "b1"):
            stage.pods(node, f"on-{node}")
        stage.start()
        await stage.until(lambda: stage.prevented("a1", "a2", "a3"), within=2)
        await stage.settle()
        assert sorted(stage.evicted()) == ["on-a1", "on-a2"]
        assert stage.clean("b1")
        assert len(stage.journal.node_writes) == 3

    play(story)


def test_nr_02_one_fresh_signal_closes_the_zone_just_after_its_three_hundredth_second() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(299s)", "a2")
        stage.pods("a1", "p")
        stage.start()
        await asyncio.sleep(1.0)
        assert not stage.journal.deeds
        assert looks(stage) <= 2
        await stage.until(lambda: stage.prevented("a1", "a2") and stage.evicted() == ["p"])
        assert all(1.0 < deed.time < 2.0 for deed in stage.journal.deeds)

    play(story)


def test_nr_05_the_zone_of_an_old_signal_closes_whichever_of_its_nodes_is_looked_at() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(301s)", "a2")
        stage.pods("a1", "p1")
        stage.pods("a2", "p2")
        stage.start()
        await stage.until(lambda: stage.prevented("a1", "a2"), within=2)
        await stage.settle()
        assert stage.evicted() == ["p1"]

    play(story)


def test_nr_64_nodes_that_are_not_ready_or_still_empty_are_signals_like_any_other() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(10s) unready", "a2 S(10s)", "a3")
        stage.pods("a1", "stuck", metadata={"annotations": {"sim.ebbtide/stopping": "100000"}})
        one = stage.start()
        await stage.until(lambda: stage.prevented("a1", "a2", "a3"), within=2)
        await stage.settle()
        cell = {"node_group": "g", "node_zone": "a"}
        assert one.metric("noderebalance_evict_node_total", node="a1", **cell) == 1
        assert one.metric("noderebalance_evict_node_total", node="a2", **cell) is None
        stage.pods("a2", "late")
        await stage.settle()
        assert stage.evicted() == ["stuck", "late"]
        assert not [r for r in stage.journal.requests if r.method == "DELETE"]

    play(story)


def test_nr_36_a_timer_outlives_the_resyncs_before_it() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1", "a2")
        stage.pods("a1", "p")
        one = stage.start()
        await stage.until(lambda: one.leads)
        stage.signal("a1")
        begun = stage.time
        await stage.until(lambda: stage.prevented("a1", "a2"), within=400)
        assert 300 <= stage.time - begun < 301
        await stage.until(lambda: stage.evicted() == ["p"], within=1)

    play(story, resync_period=300.0)
    play(story, resync_period=7.0)


def test_nr_09_the_age_of_a_signal_survives_a_kill() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(200s)", "a2")
        one = stage.start()
        await stage.until(lambda: one.leads)
        one.kill()
        await asyncio.sleep(60 - stage.time)
        two = stage.start("two")
        await stage.until(lambda: two.leads)
        assert not stage.journal.deeds
        await stage.until(lambda: stage.prevented("a1", "a2"))
        assert 100 < stage.time <= 101

    play(story)


def test_nr_10_a_signal_that_comes_back_is_a_new_one() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(100s)", "a2")
        one = stage.start()
        await stage.until(lambda: one.leads)
        stage.calm("a1")
        await stage.until(lambda: stage.first_seen("a1") is None, within=1)
        await asyncio.sleep(7200)
        stage.signal("a1")
        back = stage.time
        await stage.until(lambda: stage.prevented("a1", "a2"), within=400)
        assert 300 < stage.time - back < 301
        assert one.state("a") == "blocked"

    play(story)


def test_nr_11_equal_values_are_two_signals() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1", "a2", "a3")
        one = stage.start()
        await stage.until(lambda: one.leads)
        stage.signal("a1", "a2")
        assert stage.node("a1")["spec"]["taints"] == stage.node("a2")["spec"]["taints"]
        await stage.until(lambda: stage.prevented("a1", "a2", "a3"), within=1)

    play(story)


def test_nr_12_a_node_that_takes_a_name_over_inherits_nothing() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(600s)", "a2")
        stage.pods("a1", "old", metadata={"labels": {"app": "db"}})
        stage.cluster.create(objects.budget("none", match={"app": "db"}, min_available=1))
        stage.start()
        await stage.until(lambda: stage.prevented("a1", "a2") and len(stage.journal.evictions) >= 3, within=60)
        stage.delete("a1")
        asked = len(stage.journal.evictions)
        stage.join("a1")
        stage.pods("a1", "new")
        await stage.until(lambda: stage.clean("a1", "a2"), within=1)
        await stage.settle()
        assert len(stage.journal.evictions) == asked
        assert "new" in stage.on_node("a1")
        assert stage.first_seen("a1") is None

    play(story)


def test_nr_12_an_annotation_older_than_the_node_is_an_earlier_nodes() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a2")
        one = stage.start()
        await stage.until(lambda: one.leads)
        await asyncio.sleep(10)
        stage.join("a1 S(600s)")
        joined = stage.time
        await stage.until(lambda: stage.prevented("a1", "a2"), within=400)
        assert 300 < stage.time - joined <= 302

    play(story)


def test_nr_13_a_node_counts_from_the_moment_it_has_its_zone() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(10s)", "x1")
        stage.label("x1", zone=None)
        stage.signal("x1")
        one = stage.start()
        await stage.until(lambda: one.leads)
        await asyncio.sleep(5)
        stage.label("x1", zone="")
        await asyncio.sleep(5)
        assert not stage.journal.node_writes
        assert one.metric("noderebalance_signal_nodes", node_group="g", node_zone="a") == 1
        stage.label("x1", zone="a")
        await stage.until(lambda: stage.prevented("a1", "x1"), within=1)

    play(story)


def test_nr_14_the_old_zone_label_counts_where_the_new_one_is_missing() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("n1", "n2")
        old = {vocabulary.ZONE_LABEL: None, vocabulary.ZONE_LABEL_FALLBACK: "a"}
        both = {vocabulary.ZONE_LABEL: "a", vocabulary.ZONE_LABEL_FALLBACK: "b"}
        for name, labels in (("n1", old), ("n2", both)):
            stage.change(
                name,
                lambda body, labels=labels: body.update(  # type: ignore[misc] # mypy has no type for defaults
                    objects.changed(body, {"metadata": {"labels": labels}})
                ),
            )
        stage.start()
        stage.signal("n1", "n2")
        await stage.until(lambda: stage.prevented("n1", "n2"), within=3)

    play(story)


def test_nr_15_neighbours_are_left_alone_and_so_is_a_node_that_leaves_its_cell() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(10s)", "a2 S(10s)", "b1")
        stage.nodes("ah1", "ah2", group="h")
        stage.start()
        await stage.until(lambda: stage.prevented("a1", "a2"), within=2)
        stage.label("a2", group=None)
        await stage.settle()
        assert stage.clean("b1", "ah1", "ah2")
        assert stage.prevented("a1", "a2")
        assert len(stage.journal.node_writes) == 2

    play(story)


def test_nr_16_a_signal_on_a_dying_node_does_not_keep_the_zone_closed() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S P D", "a2 P", "a3 P")
        stage.start()
        await stage.until(lambda: stage.clean("a2", "a3"), within=2)
        await stage.settle()
        assert stage.marks("a1") == "S P"
        assert {request.node for request in stage.journal.node_writes} == {"a2", "a3"}

    play(story)


def test_nr_17_the_autoscaler_may_empty_a_node_it_removes_for_a_quarter_of_an_hour() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(10s)", "a2 S(10s)", "a3 S(10s)")
        stage.taint("a1", objects.taint(vocabulary.TO_BE_DELETED_TAINT_KEY, str(int(stage.now) - 60)))
        stage.taint("a2", objects.taint(vocabulary.TO_BE_DELETED_TAINT_KEY, str(int(stage.now) - 901)))
        stage.pods("a1", "p1")
        stage.pods("a2", "p2")
        stage.start()
        await stage.until(lambda: stage.prevented("a1", "a2", "a3") and stage.evicted() == ["p2"], within=2)
        await asyncio.sleep(830 - stage.time)
        assert stage.evicted() == ["p2"]
        await stage.until(lambda: stage.evicted() == ["p2", "p1"], within=20)
        assert 840 < stage.time < 841

    play(story)
