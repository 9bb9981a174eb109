"""The states in which no node shows the block any more, out of a running reconciler: how they begin, what is said of
them where, how they end, and what a restart forgets of them."""

import asyncio
from typing import Any

import orjson
from aiohttp.test_utils import make_mocked_request

from ebbtide.sim import objects
from ebbtide.sim.kinds import NODES
from reconciler.engine.events import QUIET
from tests.simulation import notation
from tests.simulation.stage import Replica, Stage, play
from tests.simulation.wiretap import EVENT_PATH

# Seconds in which an Event that is told in a loop would have been written twice more.
A_WHILE = 2 * QUIET + 100

CACHED, INEFFECTIVE, STALE, OPENED = (
    "ZoneBlockCached",
    "ZoneBlockIneffective",
    "StaleAutoscalerTemplate",
    "ZoneOpened",
)


def told(stage: Stage) -> list[str]:
    """Reasons of the Events about the nodes of zone a, in order."""
    posted = stage.journal.matching("POST", EVENT_PATH)
    return [r.document["reason"] for r in posted if r.document["regarding"]["name"].startswith("a")]


def gauge(replica: Replica) -> float | None:
    return replica.metric("noderebalance_prevent_ca_scale_up", node_group="g", node_zone="a")


async def document(replica: Replica) -> dict[str, Any] | None:
    """The entry of zone a in /api/v1/state, None without one."""
    response = await replica.program._tell_state(make_mocked_request("GET", "/api/v1/state"))
    assert isinstance(response.body, bytes)
    cells: list[dict[str, Any]] = orjson.loads(response.body)["cells"]
    return next((cell for cell in cells if cell["zone"] == "a"), None)


def cordon(stage: Stage, *names: str, cordoned: bool = True) -> None:
    for name in names:
        stage.change(name, lambda body: body["spec"].update(unschedulable=cordoned))


async def blocked(stage: Stage, *others: str) -> Replica:
    """A leader that has seen zone a blocked for half a minute."""
    stage.nodes("a1 S(400s)", "b1", *others)
    one = stage.start("one")
    await stage.until(lambda: one.state("a") == "blocked")
    await asyncio.sleep(30)
    assert told(stage) == ["ZoneBlocked"]
    return one


# --- stale-template ---------------------------------------------------------------------------------------------


def test_nr_32_a_zone_whose_last_node_left_tainted_is_told_once_and_shown_until_a_new_node_comes() -> None:
    async def story(stage: Stage) -> None:
        one = await blocked(stage)
        stage.delete("a1")
        await stage.until(lambda: one.state("a") == "stale-template", within=1)
        assert gauge(one) == 0
        assert one.metric("noderebalance_signal_nodes", node_group="g", node_zone="a") == 0
        await asyncio.sleep(A_WHILE)
        assert told(stage) == ["ZoneBlocked", STALE]
        (event,) = stage.journal.events(STALE)
        assert event.document["type"] == "Warning"
        assert event.document["regarding"]["name"] == "a1"
        assert "--node-info-cache-expire-time" in event.document["note"]
        assert one.state("a") == "stale-template"
        cell = await document(one)
        assert cell is not None
        assert (cell["state"], cell["nodes"], cell["signalNodes"]) == ("stale-template", [], 0)
        assert "--node-info-cache-expire-time" in cell["advice"]
        stage.join("a2")
        await stage.until(lambda: one.state("a") == "open", within=1)
        cell = await document(one)
        assert cell is not None
        assert cell["state"] == "open"
        await asyncio.sleep(A_WHILE)
        assert told(stage) == ["ZoneBlocked", STALE, OPENED]
        assert stage.clean("a2")

    play(story)


def test_nr_32_a_zone_that_is_emptied_again_is_news_again() -> None:
    async def story(stage: Stage) -> None:
        one = await blocked(stage)
        stage.delete("a1")
        await stage.until(lambda: one.state("a") == "stale-template", within=1)
        stage.join("a2")
        stage.taint("a2", notation.signal(str(int(stage.now) - 400)))
        await stage.until(lambda: one.state("a") == "blocked", within=1)
        assert gauge(one) == 1
        stage.delete("a2")
        await stage.until(lambda: one.state("a") == "stale-template", within=1)
        await asyncio.sleep(5)
        assert told(stage).count(STALE) == 2

    play(story)


def test_nr_32_a_node_that_is_being_deleted_is_no_node_any_more() -> None:
    """From the moment of its deletion on nothing can be untainted; that it still stands there changes nothing."""

    async def story(stage: Stage) -> None:
        one = await blocked(stage)
        stage.change("a1", lambda body: body["metadata"].update(finalizers=["example.com/hold"]))
        stage.delete("a1")
        await stage.until(lambda: one.state("a") == "stale-template", within=1)
        await asyncio.sleep(60)
        stage.change("a1", lambda body: body["metadata"].pop("finalizers"))
        assert stage.storage.peek(NODES, "a1") is None
        await asyncio.sleep(600)
        assert one.state("a") == "stale-template"
        assert told(stage).count(STALE) == 1

    play(story)


def test_nr_32_a_zone_that_was_opened_before_its_last_node_left_is_forgotten() -> None:
    async def story(stage: Stage) -> None:
        one = await blocked(stage)
        stage.calm("a1")
        await stage.until(lambda: one.state("a") == "open", within=1)
        stage.delete("a1")
        await stage.until(lambda: one.state("a") == "", within=1)
        assert gauge(one) is None
        assert await document(one) is None
        await asyncio.sleep(600)
        assert STALE not in told(stage)

    play(story)


def test_nr_32_a_restart_forgets_it_since_nothing_on_the_cluster_carries_it_but_the_event() -> None:
    async def story(stage: Stage) -> None:
        one = await blocked(stage)
        stage.delete("a1")
        await stage.until(lambda: one.state("a") == "stale-template", within=1)
        await one.stop()
        two = stage.start("two")
        await stage.until(lambda: two.leads and two.state("b") == "open", within=60)
        await asyncio.sleep(600)
        assert two.state("a") == ""
        assert gauge(two) is None
        assert await document(two) is None
        assert told(stage).count(STALE) == 1

    play(story)


# --- cached -----------------------------------------------------------------------------------------------------


def test_nr_31_a_zone_without_schedulable_nodes_is_cached_after_two_scans_and_told_once() -> None:
    async def story(stage: Stage) -> None:
        one = await blocked(stage, "a2")
        cordon(stage, "a1")
        await asyncio.sleep(5)
        assert one.state("a") == "blocked"
        cordon(stage, "a2")
        await stage.until(lambda: one.state("a") == "cached", within=1)
        await asyncio.sleep(A_WHILE)
        assert one.state("a") == "cached"
        assert gauge(one) == 1
        assert told(stage) == ["ZoneBlocked", CACHED]
        cell = await document(one)
        assert cell is not None
        assert (cell["state"], cell["signalNodes"]) == ("cached", 1)
        assert "Leave one node of the zone uncordoned" in cell["advice"]

    play(story)


def test_nr_31_a_zone_that_was_blocked_for_less_is_ineffective() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(400s)", "a2", "b1")
        one = stage.start("one")
        await stage.until(lambda: one.state("a") == "blocked")
        await asyncio.sleep(19)
        cordon(stage, "a1", "a2")
        await stage.until(lambda: one.state("a") == "ineffective", within=1)
        await asyncio.sleep(A_WHILE)
        assert told(stage) == ["ZoneBlocked", INEFFECTIVE]

    play(story)


def test_nr_31_a_new_node_ends_it_when_the_autoscaler_takes_it_as_template() -> None:
    """Tainted on sight; until it has been Ready for a minute the autoscaler goes on remembering."""

    async def story(stage: Stage) -> None:
        one = await blocked(stage)
        cordon(stage, "a1")
        await stage.until(lambda: one.state("a") == "cached", within=1)
        await asyncio.sleep(QUIET)
        stage.join("a2", status={"conditions": [objects.ready_condition(ready=True, since=stage.storage.now())]})
        await stage.until(lambda: stage.prevented("a2"), within=1)
        await asyncio.sleep(59)
        assert one.state("a") == "cached"
        await stage.until(lambda: one.state("a") == "blocked", within=2)
        await asyncio.sleep(A_WHILE)
        assert told(stage) == ["ZoneBlocked", CACHED, "ZoneBlocked"]
        assert gauge(one) == 1

    play(story)


def test_nr_31_a_restart_no_longer_counts_on_what_the_autoscaler_remembers_and_says_so_once() -> None:
    async def story(stage: Stage) -> None:
        one = await blocked(stage)
        cordon(stage, "a1")
        await stage.until(lambda: one.state("a") == "cached", within=1)
        await one.stop()
        two = stage.start("two")
        await stage.until(lambda: two.state("a") == "ineffective", within=60)
        cell = await document(two)
        assert cell is not None
        assert cell["state"] == "ineffective"
        await asyncio.sleep(A_WHILE)
        assert told(stage) == ["ZoneBlocked", CACHED, INEFFECTIVE]
        assert gauge(two) == 1
        cordon(stage, "a1", cordoned=False)
        await stage.until(lambda: two.state("a") == "blocked", within=1)
        await asyncio.sleep(30)
        cordon(stage, "a1")
        await stage.until(lambda: two.state("a") == "cached", within=1)

    play(story)


def test_nr_31_a_clean_node_in_between_breaks_the_streak() -> None:
    """A node that cannot be tainted shows the autoscaler a clean template: what it remembered is not counted on."""

    async def story(stage: Stage) -> None:
        one = await blocked(stage, "a2")
        stage.untaint("a2", "ebbtide/prevent-ca-scale-up")
        await stage.until(lambda: stage.prevented("a2"), within=1)
        await asyncio.sleep(1)
        stage.untaint("a2", "ebbtide/prevent-ca-scale-up")
        await stage.until(lambda: one.state("a") == "partial", within=1)
        await stage.until(lambda: one.state("a") == "blocked", within=10)
        cordon(stage, "a1", "a2")
        await stage.until(lambda: one.state("a") == "ineffective", within=1)

    play(story)


def test_nr_31_minutes_without_a_node_are_no_minutes_of_a_block() -> None:
    """The block held for a second, which no scan may have seen; what comes after the last node begins anew."""

    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(400s)", "b1")
        one = stage.start("one")
        await stage.until(lambda: one.state("a") == "blocked")
        stage.delete("a1")
        await stage.until(lambda: one.state("a") == "stale-template", within=1)
        await asyncio.sleep(60)
        stage.join("a2 C")
        stage.taint("a2", notation.signal(str(int(stage.now) - 400)))
        await stage.until(lambda: one.state("a") == "ineffective", within=1)
        await asyncio.sleep(5)
        assert told(stage) == ["ZoneBlocked", STALE, INEFFECTIVE]

    play(story)
