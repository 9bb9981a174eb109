"""A reflector keeps its store like the server, on simulated time against a scripted server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from ebbtide import shapes
from ebbtide.kube import errors
from ebbtide.kube.access import from_url
from ebbtide.kube.calls import Selection
from ebbtide.kube.client import Client
from ebbtide.kube.reflector import Reflector
from ebbtide.kube.resources import NODES, PODS
from ebbtide.kube.store import Store
from ebbtide.sim.time import simulate
from tests.ebbtide.kube.projection import Small, small
from tests.ebbtide.kube.wire import (
    Reply,
    Seen,
    Wire,
    bookmark,
    event,
    hangs_up,
    listing,
    node,
    refuses,
    says,
    status,
    streams,
    until,
)

LONG = 3600.0
QUIET = streams(end="hold")


@dataclass
class Following:
    """A running reflector."""

    wire: Wire
    store: Store[Small]
    problems: list[errors.KubeError]

    @property
    def names(self) -> set[str]:
        return {each.key for each in self.store.values()}

    @property
    def seen(self) -> list[Seen]:
        return self.wire.seen

    async def knows(self, *names: str) -> None:
        await until(lambda: self.names == set(names), within=LONG)


Scenario = Callable[[Following], Awaitable[Any]]


@asynccontextmanager
async def following(*script: Reply) -> AsyncIterator[Following]:
    store, problems = Store(small), list[errors.KubeError]()
    async with (
        Wire(list(script)) as wire,
        Client(from_url(wire.url), field_manager="ebbtide-test", user_agent="ebbtide/test") as client,
        asyncio.TaskGroup() as tasks,
    ):
        running = tasks.create_task(Reflector(client, NODES, store, on_problem=problems.append).run())
        yield Following(wire, store, problems)
        running.cancel()


def follow(*script: Reply, scenario: Scenario) -> Any:
    """What the scenario returns for a reflector of that server."""

    async def run() -> Any:
        async with following(*script) as follower:
            return await scenario(follower)

    return simulate(run(), limit=LONG)


def first(version: int, *objects: dict[str, Any], then: tuple[Any, ...] = (), end: str = "hold") -> Reply:
    """A streamed list that is complete, and what follows it."""
    return streams(*(event("ADDED", each) for each in objects), bookmark(version, initial_end=True), *then, end=end)


# --- the first list ---------------------------------------------------------------------------------------------


def test_the_first_list_and_the_watch_are_one_stream() -> None:
    async def scenario(follower: Following) -> None:
        await follower.store.wait_synced()
        await follower.knows("a", "b", "c")
        assert len(follower.seen) == 1

    follow(first(5, node("b", 3), node("a", 2), then=(event("ADDED", node("c", 6)),)), scenario=scenario)


def test_nothing_is_visible_before_the_list_is_complete() -> None:
    async def scenario(follower: Following) -> None:
        await follower.wire.asked(1)
        await asyncio.sleep(1)
        assert not follower.store.synced
        assert follower.names == set()

    follow(streams(event("ADDED", node("a", 2)), end="hold"), scenario=scenario)


def test_objects_that_change_or_end_while_the_list_streams_are_taken_as_they_end() -> None:
    async def scenario(follower: Following) -> None:
        await follower.knows("b")
        known = follower.store.get("b")
        assert known is not None
        assert known.note == "new"

    parts = (
        event("ADDED", node("a", 2)),
        event("ADDED", node("b", 3)),
        bookmark(4),
        event("MODIFIED", node("b", 5, note="new")),
        event("DELETED", node("a", 6)),
        bookmark(6, initial_end=True),
    )
    follow(streams(*parts, end="hold"), scenario=scenario)


def test_a_later_run_begins_with_a_list_and_nothing_is_taken_for_known_before_it() -> None:
    """A leader that leads again must not act on what was so when it led before."""

    async def story() -> None:
        store = Store(small)
        script = [first(5, node("a", 2)), first(9, node("b", 8))]
        async with (
            Wire(script) as wire,
            Client(from_url(wire.url), field_manager="ebbtide-test", user_agent="ebbtide/test") as client,
        ):
            reflector = Reflector(client, NODES, store)
            for names in ({"a"}, {"b"}):
                run = asyncio.create_task(reflector.run())
                await asyncio.sleep(0)
                assert not store.synced
                await store.wait_synced()
                assert {each.key for each in store.values()} == names
                run.cancel()
                await asyncio.wait([run])

    simulate(story(), limit=LONG)


@pytest.mark.parametrize("refusal", [refuses(422, "Invalid"), refuses(400, "BadRequest")])
def test_a_server_that_cannot_stream_lists_is_asked_for_pages_and_not_again(refusal: Reply) -> None:
    async def scenario(follower: Following) -> None:
        await follower.knows("z")
        lists = [seen for seen in follower.seen if "watch" not in seen.query]
        streamed = [seen for seen in follower.seen if "sendInitialEvents" in seen.query]
        assert [seen.query["limit"] for seen in lists] == ["50"] * 3
        assert len(streamed) == 1
        assert follower.problems == []

    follow(
        refusal,
        says(listing(9, node("a", 1), token="t")),
        says(listing(9, node("b", 2))),
        refuses(410, "Expired"),
        says(listing(20, node("z", 11))),
        QUIET,
        scenario=scenario,
    )


def test_of_the_objects_in_pages_only_what_the_shape_of_the_store_names_is_read() -> None:
    """As of those in a stream: a page of heavy nodes, each parsed in full, takes megabytes."""
    read: list[list[str]] = []

    def project(raw: Mapping[str, Any]) -> Small:
        read.append(sorted(raw["metadata"]))
        return small(raw)

    async def run() -> None:
        heavy = node("a", 1)
        heavy["metadata"]["managedFields"] = [{"manager": "kubelet"}]
        store = Store(project, shapes.Node)
        async with (
            Wire([refuses(422, "Invalid"), says(listing(9, heavy)), QUIET]) as wire,
            Client(from_url(wire.url), field_manager="ebbtide-test", user_agent="ebbtide/test") as client,
        ):
            running = asyncio.create_task(Reflector(client, NODES, store).run())
            await store.wait_synced()
            running.cancel()
            await asyncio.wait([running])

    simulate(run(), limit=LONG)
    assert read == [["annotations", "name", "resourceVersion", "uid"]]


def test_the_watch_goes_on_from_the_version_of_the_pages() -> None:
    async def scenario(follower: Following) -> None:
        await follower.wire.asked(3)
        assert follower.seen[2].query["resourceVersion"] == "9"

    follow(refuses(422), says(listing(9, node("a", 1))), QUIET, scenario=scenario)


@pytest.mark.parametrize("end", ["close", "cut"])
def test_a_streamed_list_that_breaks_off_is_replaced_by_pages(end: str) -> None:
    async def scenario(follower: Following) -> None:
        await follower.knows("a", "b")

    half = streams(event("ADDED", node("a", 1)), event("ADDED", node("gone", 1)), end=end)
    follow(half, says(listing(9, node("a", 1), node("b", 2))), QUIET, scenario=scenario)


def test_a_streamed_list_that_never_ends_is_replaced_by_pages_after_a_minute() -> None:
    """Servers before 1.27 take no notice of the parameters, and send no such bookmark ever."""

    async def scenario(follower: Following) -> None:
        await follower.knows("a")
        assert 59 <= follower.seen[1].at <= 61

    follow(streams(event("ADDED", node("a", 1)), end="hold"), says(listing(9, node("a", 1))), QUIET, scenario=scenario)


def test_pages_compacted_under_way_are_read_again_from_the_start() -> None:
    async def scenario(follower: Following) -> None:
        await follower.knows("b")
        assert [seen.query.get("continue") for seen in follower.seen[1:4]] == [None, "t", None]

    follow(
        refuses(422),
        says(listing(9, node("a", 1), token="t")),
        refuses(410, "Expired"),
        says(listing(12, node("b", 11))),
        QUIET,
        scenario=scenario,
    )


# --- the watch --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["close", "cut"])
def test_a_stream_that_ends_is_resumed_after_the_last_event_seen(end: str) -> None:
    async def scenario(follower: Following) -> None:
        await follower.knows("a", "b")
        assert follower.seen[1].query["resourceVersion"] == "8"
        assert "sendInitialEvents" not in follower.seen[1].query

    follow(
        first(5, node("a", 2), then=(bookmark(8), b'{"type":"ADDED","obj'), end=end),
        streams(event("ADDED", node("b", 9)), end="hold"),
        scenario=scenario,
    )


def test_a_silent_stream_is_dropped_and_resumed() -> None:
    async def scenario(follower: Following) -> None:
        await follower.knows("a", "b")
        assert 150 <= follower.seen[1].at <= 160
        assert follower.seen[1].query["resourceVersion"] == "5"
        assert [type(problem) for problem in follower.problems] == [errors.Silent]

    follow(first(5, node("a", 2)), streams(event("ADDED", node("b", 9)), end="hold"), scenario=scenario)


def test_a_server_that_stays_silent_to_a_version_is_asked_for_a_fresh_list() -> None:
    """So does one that was restored from a backup: it waits for a version that it has not reached yet."""

    async def scenario(follower: Following) -> None:
        await follower.knows("restored")
        assert [seen.query.get("resourceVersion") for seen in follower.seen] == [None, "500", None]

    script = (first(500, node("a", 400)), QUIET, first(40, node("restored", 30)))
    follow(*script, scenario=scenario)


def test_repeated_and_older_events_of_a_resumed_stream_change_nothing() -> None:
    async def scenario(follower: Following) -> None:
        await follower.knows("a", "c")
        known = follower.store.get("a")
        assert known is not None
        assert known.note == "new"
        await follower.wire.asked(3)
        assert follower.seen[2].query["resourceVersion"] == "8"

    follow(
        first(
            5,
            node("a", 2),
            node("b", 3),
            then=(event("MODIFIED", node("a", 6, note="new")), event("DELETED", node("b", 7))),
            end="close",
        ),
        streams(event("ADDED", node("b", 3)), event("MODIFIED", node("a", 2)), event("ADDED", node("c", 8))),
        QUIET,
        scenario=scenario,
    )


TOO_OLD = {
    "status": refuses(410, "Expired"),
    "event": streams(event("ERROR", status(410, "Expired"))),
    "history shorter than ours": refuses(504, "Timeout", causes=["ResourceVersionTooLarge"]),
}


@pytest.mark.parametrize("refusal", TOO_OLD.values(), ids=TOO_OLD)
def test_a_version_that_is_too_old_is_never_asked_for_again(refusal: Reply) -> None:
    async def scenario(follower: Following) -> None:
        await follower.knows("b")
        assert follower.seen[1].query["resourceVersion"] == "5"
        for later in follower.seen[2:]:
            assert later.query.get("resourceVersion") != "5"

    follow(
        first(5, node("a", 2), end="close"),
        refusal,
        first(40, node("b", 30)),
        scenario=scenario,
    )


def test_what_ended_unseen_is_told_after_the_fresh_list() -> None:
    async def scenario(follower: Following) -> list[str]:
        gone: list[str] = []
        follower.store.subscribe(lambda old, new: gone.append(old.key) if old and new is None else None)
        await follower.knows("b")
        return gone

    script = (first(5, node("a", 2), node("b", 3), end="close"), refuses(410), first(9, node("b", 3)))
    assert follow(*script, scenario=scenario) == ["a"]


def test_the_old_world_stays_visible_until_the_fresh_list_is_complete() -> None:
    async def scenario(follower: Following) -> None:
        await follower.wire.asked(3)
        await asyncio.sleep(1)
        assert follower.names == {"a"}

    slow = streams(event("ADDED", node("b", 9)), end="hold")
    follow(first(5, node("a", 2), end="close"), refuses(410), slow, scenario=scenario)


def test_age_is_the_time_since_the_last_word() -> None:
    async def scenario(follower: Following) -> float:
        await follower.store.wait_synced()
        await asyncio.sleep(42)
        return follower.store.age()

    assert 42 <= follow(first(5), scenario=scenario) < 43


# --- trouble ----------------------------------------------------------------------------------------------------


def test_pauses_grow_to_half_a_minute_while_the_server_is_away_and_are_short_after_progress() -> None:
    async def scenario(follower: Following) -> list[float]:
        await until(lambda: len(follower.seen) >= 12, within=LONG)
        times = [seen.at for seen in follower.seen[:12]]
        return [after - before for before, after in pairwise(times)]

    pauses = follow(first(5, end="close"), refuses(500), scenario=scenario)
    assert pauses[1] <= 0.6
    assert all(pause <= 31 for pause in pauses)
    assert pauses[-1] >= 15


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [(refuses(401), errors.Unauthorized), (refuses(403), errors.Forbidden), (refuses(404), errors.NotFound)],
)
def test_what_a_person_must_put_right_is_reported_and_tried_again_slowly(
    refusal: Reply, kind: type[errors.KubeError]
) -> None:
    async def scenario(follower: Following) -> None:
        await until(lambda: len(follower.problems) >= 3, within=LONG)
        assert {type(problem) for problem in follower.problems} == {kind}
        assert asyncio.get_running_loop().time() >= 30
        follower.wire.script[:] = [first(5, node("a", 1))]
        await follower.knows("a")

    follow(refusal, scenario=scenario)


def test_a_program_can_end_the_reflector_by_what_it_raises_on_a_problem() -> None:
    async def scenario() -> None:
        def give_up(problem: errors.KubeError) -> None:
            raise SystemError from problem

        async with (
            Wire([refuses(403)]) as wire,
            Client(from_url(wire.url), field_manager="ebbtide-test", user_agent="ebbtide/test") as client,
        ):
            await Reflector(client, NODES, Store(small), on_problem=give_up).run()

    with pytest.raises(SystemError):
        simulate(scenario())


def test_a_server_that_asks_to_slow_down_is_left_alone_for_that_long() -> None:
    async def scenario(follower: Following) -> float:
        await follower.knows("a")
        return follower.seen[1].at

    assert follow(refuses(429, header="20"), first(5, node("a", 1)), scenario=scenario) >= 20


def test_a_server_that_is_away_at_the_start_is_waited_for() -> None:
    async def scenario(follower: Following) -> None:
        await until(lambda: len(follower.problems) >= 2, within=LONG)
        assert not follower.store.synced
        follower.wire.script[:] = [first(5, node("a", 1))]
        await follower.knows("a")

    follow(hangs_up, scenario=scenario)


def test_selectors_go_with_list_and_watch() -> None:
    async def scenario() -> list[Seen]:
        script = [refuses(422), says(listing(9)), QUIET]
        async with (
            Wire(script) as wire,
            Client(from_url(wire.url), field_manager="ebbtide-test", user_agent="ebbtide/test") as client,
            asyncio.TaskGroup() as tasks,
        ):
            which: Selection = {"namespace": "n", "label_selector": "a=b", "field_selector": "spec.nodeName=x"}
            running = tasks.create_task(Reflector(client, PODS, Store(small), **which).run())
            await wire.asked(3)
            running.cancel()
            return wire.seen

    for seen in simulate(scenario()):
        assert seen.path == "/api/v1/namespaces/n/pods"
        assert (seen.query["labelSelector"], seen.query["fieldSelector"]) == ("a=b", "spec.nodeName=x")


def test_it_is_named_after_what_it_watches() -> None:
    async def scenario() -> str:
        async with Client(from_url("http://127.0.0.1:1"), field_manager="m", user_agent="u") as client:
            return Reflector(client, PODS, Store(small)).name

    assert simulate(scenario()) == "watch of pods"


def test_a_quiet_stream_that_opens_again_counts_as_hearing_of_the_server() -> None:
    """After an outage in a quiet cluster the copy is current as soon as the watch stands, not at the first bookmark."""

    async def scenario(follower: Following) -> None:
        await until(lambda: len(follower.seen) >= 10, within=LONG)
        await until(lambda: follower.store.last_contact >= follower.seen[9].at)

    outage = [refuses(503, "ServiceUnavailable")] * 8
    follow(first(5, node("a", 3), end="cut"), *outage, QUIET, scenario=scenario)


# --- which stream tells of changes ------------------------------------------------------------------------------


def test_streams_are_numbered_and_there_is_none_between_them() -> None:
    """What was read within one stream is known to be true as long as that stream says nothing else."""

    async def scenario(follower: Following) -> None:
        seen = [follower.store.stream]
        await follower.store.wait_synced()
        seen.append(follower.store.stream)
        await until(lambda: follower.store.stream is None, within=LONG)
        await until(lambda: follower.store.stream is not None, within=LONG)
        seen.append(follower.store.stream)
        assert seen == [None, 1, 2]

    follow(first(5, node("a", 3), end="cut"), refuses(503, "ServiceUnavailable"), QUIET, scenario=scenario)


def test_a_stream_does_not_count_before_the_list_that_it_begins_with_is_complete() -> None:
    async def scenario(follower: Following) -> None:
        await until(lambda: len(follower.seen) == 3, within=LONG)
        await asyncio.sleep(5)
        assert follower.store.stream is None

    listing_without_end = streams(event("ADDED", node("b", 9)), end="hold")
    follow(first(5, end="close"), refuses(410), listing_without_end, scenario=scenario)


def test_a_watch_after_pages_is_a_stream_as_soon_as_it_stands() -> None:
    async def scenario(follower: Following) -> None:
        await until(lambda: follower.store.stream is not None, within=5)
        assert follower.store.synced

    follow(refuses(422, "Invalid"), says(listing(5, node("a", 2))), QUIET, scenario=scenario)


def test_a_reflector_that_was_stopped_has_no_stream() -> None:
    async def scenario() -> int | None:
        async with following(first(5)) as follower:
            await follower.store.wait_synced()
        return follower.store.stream

    assert simulate(scenario()) is None
