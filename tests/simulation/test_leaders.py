"""Kills at any moment, leaders that change, and a run that only looks."""

import asyncio

import pytest

from ebbtide.sim.faults import Answer, Delay, Drop, Effect, When
from ebbtide.sim.kinds import NODES
from tests.simulation import notation
from tests.simulation.stage import Replica, Stage, play
from tests.simulation.wiretap import EVICTION_PATH, LEASE_PATH, NODE_PATH, Request

DEADLINE = 10.0


def no_pod_was_evicted_twice(stage: Stage) -> bool:
    return max(stage.journal.accepted().values(), default=0) <= 1


def our_taint_was_never_removed(stage: Stage) -> bool:
    nodes = [change for change in stage.journal.changes if change.event.kind is NODES and change.before]
    return not [c for c in nodes if "P" in notation.marks(c.before) and "P" not in notation.marks(c.after)]


def test_nr_59_a_leader_that_cannot_renew_stops_writing_in_time_and_the_next_one_finishes() -> None:
    async def story(stage: Stage) -> None:
        names = [f"a{number}" for number in range(50)]
        stage.nodes(*names)
        one = stage.start("one")
        await stage.until(lambda: one.leads)
        two = stage.start("two")
        await asyncio.sleep(20)
        stage.faults.inject(Drop(), When("*", LEASE_PATH, user_agent="*/one"))
        stage.faults.inject(Delay(before=1.5), When("PATCH", NODE_PATH, user_agent="*/one"))
        stage.faults.inject(Answer(500, "InternalError"), When("PATCH", NODE_PATH, user_agent="*/one", skip=25))
        last = max(r.time for r in stage.journal.matching("PUT", LEASE_PATH) if r.who == "one" and r.status == 200)
        await asyncio.sleep(4)
        stage.signal("a1", "a2")
        await stage.until(lambda: stage.prevented(*names) and two.state("a") == "blocked", within=40)
        assert all(request.time < last + DEADLINE for request in stage.journal.node_writes if request.who == "one")
        assert all(request.time > last + DEADLINE for request in stage.journal.node_writes if request.who == "two")
        assert all(len(list(stage.journal.own_changes(name))) == 1 for name in names if name not in ("a1", "a2"))
        assert one.task.done() is False

    play(story)


def test_nr_60_a_kill_in_the_middle_loses_nothing() -> None:
    async def story(stage: Stage) -> None:
        names = [f"a{number}" for number in range(50)]
        stage.nodes("a0 S(10s)", "a1 S(10s)", *names[2:])
        uids = stage.pods("a0", *(f"p{number}" for number in range(9)))
        one = stage.start("one")
        stage.on("PATCH", NODE_PATH, lambda _: one.kill(), skip=25)
        await stage.until(lambda: one.killed, within=5)
        assert 0 < sum(stage.prevented(name) for name in names) < 50
        two = stage.start("two")
        stage.on("POST", EVICTION_PATH, lambda _: two.kill(), skip=3)
        await stage.until(lambda: two.killed, within=30)
        stage.start("three")
        await stage.until(lambda: stage.prevented(*names) and not stage.on_node("a0"), within=30)
        assert our_taint_was_never_removed(stage)
        assert no_pod_was_evicted_twice(stage)
        assert {request.uid for request in stage.journal.evictions} == set(uids)

    play(story)


def rescue(stage: Stage) -> None:
    """Two old signals of two zones, seven nodes, six pods to move, one of them under a budget."""
    stage.nodes("a1 X S", "a2 S Y", "a3", "b1 S(301s) X", "b2", "c1", "c2 X P")
    stage.pods("a1", "p1", "p2", "p3")
    stage.pods("b1", "q1", "q2", "q3")


def writes_of_the_rescue() -> int:
    counted = []

    async def story(stage: Stage) -> None:
        rescue(stage)
        stage.start()
        await stage.settle(quiet=60)
        counted.append(len([request for request in stage.journal.requests if request.writes]))

    play(story)
    return min(counted[0], 40)


@pytest.mark.parametrize("answered", [False, True], ids=["before it is done", "before it is answered"])
def test_a_kill_at_any_write_ends_the_same(answered: bool) -> None:
    """Every write in turn is the last of a process; the next process brings the cluster to the same end."""

    async def story(stage: Stage, number: int) -> None:
        rescue(stage)
        one = stage.start("one")
        for method in ("PATCH", "POST", "PUT"):
            stage.on(method, "*", lambda request: counting(request, one), answered=answered, times=None)
        left = [number]

        def counting(request: Request, one: Replica) -> None:
            if request.who == "one" and request.writes:
                left[0] -= 1
                if left[0] == 0:
                    one.kill()

        await stage.until(lambda: one.killed or stage.time > 100, within=120)
        clock = stage.first_seen("a1")
        stage.start("two")
        await stage.until(lambda: stage.prevented("a1", "a2", "a3", "b1", "b2") and stage.clean("c1", "c2"), within=60)
        await stage.settle(quiet=30)
        assert [stage.marks(name) for name in ("a1", "a2", "b1", "c2")] == ["X S P", "S Y P", "S X P", "X"]
        assert not stage.on_node("a1") + stage.on_node("b1")
        assert no_pod_was_evicted_twice(stage)
        assert clock is None or stage.first_seen("a1") == clock

    for number in range(1, writes_of_the_rescue() + 1):
        play(lambda stage, number=number: story(stage, number))  # type: ignore[misc] # mypy has no type for defaults


def test_nr_62_a_dry_run_decides_and_reports_and_writes_nothing() -> None:
    async def story(stage: Stage) -> None:
        rescue(stage)
        one = stage.start(dry_run=True)
        await stage.until(lambda: one.state("a") == "partial", within=5)
        await asyncio.sleep(900)
        assert one.state("b") == "partial"
        assert not [request for request in stage.journal.requests if request.writes]
        assert not [change for change in stage.journal.changes if change.cause is not None]

    play(story)


TROUBLE: dict[str, Effect] = {
    "409": Answer(409, "Conflict"),
    "422": Answer(422, "Invalid"),
    "429 with a time": Answer(429, "TooManyRequests", retry_after=2),
    "429 without": Answer(429, "TooManyRequests"),
    "500": Answer(500, "InternalError"),
    "503": Answer(503, "ServiceUnavailable"),
    "504": Answer(504, "Timeout"),
    "no answer": Delay(before=3600),
    "connection lost before": Drop(),
    "connection lost after": Drop(processed=True),
}


@pytest.mark.parametrize("trouble", TROUBLE)
@pytest.mark.parametrize("method", ["GET", "WATCH", "PATCH", "POST", "PUT"])
def test_any_failure_of_any_request_delays_and_changes_nothing(method: str, trouble: str) -> None:
    """The first, third and fifth request of each kind fails; the cluster ends as it should all the same."""

    async def story(stage: Stage) -> None:
        rescue(stage)
        for skip in (0, 2, 4):
            stage.faults.inject(TROUBLE[trouble], When(method, skip=skip, times=1))
        stage.start("one")
        await stage.until(lambda: stage.prevented("a1", "a2", "a3", "b1", "b2") and stage.clean("c1", "c2"), within=400)
        await stage.until(lambda: not stage.on_node("a1") + stage.on_node("b1"), within=400)
        assert [stage.marks(name) for name in ("a1", "a2", "b1", "c2")] == ["X S P", "S Y P", "S X P", "X"]
        assert no_pod_was_evicted_twice(stage)

    play(story)
