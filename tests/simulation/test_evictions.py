"""Pods of signalled nodes: who goes, in what order, and what every answer of the server leads to."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from ebbtide import vocabulary
from ebbtide.sim import objects
from ebbtide.sim.deletion import Deletion
from ebbtide.sim.faults import Answer, Delay, Drop, When
from ebbtide.sim.kinds import NAMESPACES, POD_DISRUPTION_BUDGETS, PODS
from tests.simulation.notation import BOTH_TOLERATED
from tests.simulation.stage import NAMESPACE, Stage, play
from tests.simulation.wiretap import EVICTION_PATH, LEASE_PATH

EVICTED = "noderebalance_evict_node_total"
A1 = {"node": "a1", "node_group": "g", "node_zone": "a"}
SLOW = {"annotations": {"sim.ebbtide/stopping": "600"}}


def eviction_of(pod: str) -> str:
    return f"/api/v1/namespaces/*/pods/{pod}/eviction"


def budget(stage: Stage, available: int = 1000) -> Any:
    """A budget over the pods labelled `app: db`, which allows none of them to go."""
    return stage.cluster.create(objects.budget("db", match={"app": "db"}, min_available=available))[0]


def asked(stage: Stage, pod: str) -> list[float]:
    """When that pod was asked to go."""
    return [request.time for request in stage.journal.evictions if request.pod == pod]


async def blocked(stage: Stage, *others: str) -> None:
    """Two signalled nodes, a1 and a2, of a zone that gets blocked."""
    stage.nodes("a1 S(30s)", "a2 S(10s)", *others)
    stage.start()


def test_nr_42_system_pods_stay_and_application_pods_go_the_own_one_last() -> None:
    async def story(stage: Stage) -> None:
        stage.cluster.create(objects.namespace("quiet", annotations={vocabulary.BLOCK_ANNOTATION: "ignore"}))
        mirror = {"metadata": {"annotations": {vocabulary.MIRROR_POD_ANNOTATION: "x"}}}
        for name, kind, patch in (
            ("deployed", "ReplicaSet", {}),
            ("pending", "ReplicaSet", {"status": {"phase": "Pending"}}),
            ("daemon", "DaemonSet", {}),
            ("static", "", mirror),
            ("succeeded", "ReplicaSet", {"status": {"phase": "Succeeded"}}),
            ("failed", "ReplicaSet", {"status": {"phase": "Failed"}}),
            ("bare", "", {}),
            ("ignored", "", {"metadata": {"namespace": "quiet"}}),
            ("one", "", {"metadata": {"namespace": NAMESPACE}}),
            ("leaving", "", {"metadata": SLOW}),
        ):
            stage.pods("a1", name, kind=kind, **patch)
        stage.storage.delete(PODS, "leaving", "default", Deletion(grace_seconds=600))
        await blocked(stage)
        await stage.settle(quiet=30)
        assert sorted(stage.evicted()) == ["bare", "deployed", "one", "pending"]
        assert stage.evicted()[-1] == "one"
        assert not [r for r in stage.journal.requests if r.method == "DELETE"]
        assert all("gracePeriodSeconds" not in str(request.document) for request in stage.journal.evictions)

    play(story)


def test_nr_42_bare_pods_stay_where_the_operator_says_so() -> None:
    async def story(stage: Stage) -> None:
        stage.pods("a1", "bare", kind="")
        stage.pods("a1", "owned")
        await blocked(stage)
        await stage.settle(quiet=30)
        assert stage.evicted() == ["owned"]

    play(story, evict_bare_pods=False)


@pytest.mark.parametrize(
    ("tolerations", "goes"),
    [
        ([{"operator": "Exists"}], False),
        (list(BOTH_TOLERATED), False),
        ([BOTH_TOLERATED[1]], True),
        ([BOTH_TOLERATED[1], {**BOTH_TOLERATED[0], "effect": "NoExecute"}], True),
        ([BOTH_TOLERATED[0], {"key": vocabulary.PREVENT_TAINT_KEY, "operator": "Equal", "value": "true"}], True),
    ],
)
def test_nr_43_pods_that_would_come_straight_back_stay(tolerations: list[dict[str, str]], goes: bool) -> None:
    async def story(stage: Stage) -> None:
        stage.pods("a1", "p", spec={"tolerations": tolerations})
        await blocked(stage)
        await stage.settle(quiet=30)
        assert bool(stage.evicted()) is goes

    play(story)


def test_nr_44_unimportant_pods_are_asked_first_and_idle_workers_before_busy_ones() -> None:
    async def story(stage: Stage) -> None:
        for name, priority, labels in (
            ("high", 1000, {}),
            ("busy", 0, {vocabulary.POOL_LABEL: "load", vocabulary.BUSY_LABEL: "true"}),
            ("idle", 0, {vocabulary.POOL_LABEL: "load"}),
            ("low", -10, {}),
        ):
            stage.pods("a1", name, spec={"priority": priority}, metadata={"labels": labels})
        await blocked(stage)
        await stage.settle(quiet=30)
        assert [request.pod for request in stage.journal.evictions] == ["low", "idle", "busy", "high"]

    play(story)


def test_nr_45_a_budget_holds_up_its_own_pod_only_and_is_asked_again_for_as_long_as_it_takes() -> None:
    async def story(stage: Stage) -> None:
        budget(stage)
        stage.pods("a1", "p1", metadata={"labels": {"app": "db"}})
        others = [f"p{number}" for number in range(2, 21)]
        stage.pods("a1", *others)
        await blocked(stage)
        await stage.until(lambda: sorted(stage.evicted()) == sorted(others), within=2)
        await asyncio.sleep(1200)
        times = asked(stage, "p1")
        pauses = [later - earlier for earlier, later in pairwise(times)]
        assert len(pauses) >= 80
        assert all(10 <= pause <= 15 for pause in pauses)
        stage.storage.delete(POD_DISRUPTION_BUDGETS, "db", "default")
        await stage.until(lambda: "p1" in stage.evicted(), within=15)

    play(story)


def test_nr_46_an_overloaded_server_stops_every_eviction_and_not_the_lease() -> None:
    async def story(stage: Stage) -> None:
        stage.pods("a1", *(f"p{number}" for number in range(5)))
        stage.pods("a2", *(f"q{number}" for number in range(5)))
        stage.faults.inject(Answer(429, "TooManyRequests", retry_after=5), When("POST", EVICTION_PATH, times=1))
        await blocked(stage)
        await stage.until(lambda: len(stage.evicted()) == 10, within=10)
        refused = stage.journal.evictions[0].time
        first = len([request for request in stage.journal.evictions if request.time <= refused])
        assert all(request.time >= refused + 5 for request in stage.journal.evictions[first:])
        renewals = [request.time for request in stage.journal.matching("PUT", LEASE_PATH)]
        assert [time for time in renewals if refused < time < refused + 5]

    play(story)


def test_nr_46_taints_do_not_wait_for_evictions_that_are_throttled() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("b1", "b2")
        stage.pods("a1", "p")
        stage.faults.inject(Answer(429, "TooManyRequests", retry_after=30), When("POST", EVICTION_PATH))
        await blocked(stage)
        await asyncio.sleep(40)
        stage.signal("b1", "b2")
        await stage.until(lambda: stage.prevented("b1", "b2"), within=1)
        stage.calm("a1", "a2")
        await stage.until(lambda: stage.clean("a1", "a2"), within=1)

    play(story)


def test_nr_47_two_budgets_over_one_pod_are_told_and_hold_up_nobody_else() -> None:
    async def story(stage: Stage) -> None:
        budget(stage)
        stage.cluster.create(objects.budget("again", match={"app": "db"}, max_unavailable=1))
        stage.pods("a1", "p1", metadata={"labels": {"app": "db"}})
        stage.pods("a1", "p2", "p3")
        await blocked(stage)
        await stage.until(lambda: sorted(stage.evicted()) == ["p2", "p3"], within=2)
        await asyncio.sleep(1000)
        times = asked(stage, "p1")
        assert all(later - earlier >= 60 for earlier, later in pairwise(times))
        assert 5 <= len(times) <= 18
        (told, *_) = stage.journal.events("EvictionMisconfigured")
        assert "p1" in told.document["note"]
        assert len(stage.journal.events("EvictionMisconfigured")) <= 2

    play(story)


@pytest.mark.parametrize(
    ("answer", "soonest", "latest", "told"),
    [
        (Answer(404, "NotFound"), 10, 40, False),
        (
            Answer(409, "Conflict", "the UID in the precondition (a) does not match the UID in record (b)"),
            10,
            40,
            False,
        ),
        (Answer(403, "Forbidden"), 60, 90, True),
        (Answer(503, "ServiceUnavailable"), 0.5, 3, False),
        (Answer(500, "InternalError"), 0.5, 3, False),
        (Answer(429, "TooManyRequests"), 0.5, 10, False),
        (Drop(), 0.5, 3, False),
        (Delay(before=70), 59, 75, False),
    ],
)
def test_nr_48_errors_that_are_none_and_errors_that_are(
    answer: Answer | Drop | Delay, soonest: float, latest: float, told: bool
) -> None:
    """Whatever the answer, the pod is asked again in its time, and the other pods go on."""

    async def story(stage: Stage) -> None:
        stage.pods("a1", "p1", "p2")
        stage.faults.inject(answer, When("POST", eviction_of("p1"), times=1))
        await blocked(stage)
        await stage.until(lambda: "p2" in stage.evicted(), within=10)
        await stage.until(lambda: len(asked(stage, "p1")) >= 2, within=latest + 10)
        first, second = asked(stage, "p1")[:2]
        assert soonest <= second - first <= latest
        await stage.until(lambda: not stage.on_node("a1"), within=10)
        assert bool(stage.journal.events("EvictionForbidden")) is told

    play(story)


def test_nr_48_pods_of_a_namespace_that_is_going_are_waited_for() -> None:
    async def story(stage: Stage) -> None:
        stage.cluster.create(objects.namespace("going"))
        stage.pods("a1", "p", kind="", metadata={"namespace": "going", "finalizers": ["example.com/hold"]})
        stage.on("POST", EVICTION_PATH, lambda _: stage.storage.delete(NAMESPACES, "going"))
        await blocked(stage)
        await asyncio.sleep(120)
        assert not stage.journal.events("EvictionForbidden")
        assert len(stage.journal.evictions) == 1

    play(story)


def test_nr_49_a_pod_that_took_the_name_over_is_not_the_one_that_was_meant() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("b1")
        (old,) = stage.pods("a1", "web-0", metadata={"labels": {"app": "db"}})
        budget(stage)
        await blocked(stage)
        await stage.until(lambda: stage.journal.evictions, within=2)
        stage.storage.delete(PODS, "web-0", "default", Deletion(grace_seconds=0))
        stage.pods("b1", "web-0", metadata={"labels": {"app": "db"}})
        await stage.settle()
        assert {request.uid for request in stage.journal.evictions} == {old}
        assert len(stage.journal.evictions) == 1

    play(story)


def test_nr_50_when_the_signals_go_the_evictions_end() -> None:
    async def story(stage: Stage) -> None:
        budget(stage)
        stage.pods("a1", *(f"p{number}" for number in range(40)), metadata={"labels": {"app": "db"}})
        await blocked(stage)
        await asyncio.sleep(25)
        assert len(stage.journal.evictions) >= 40
        stage.faults.inject(Delay(before=30), When("PATCH", "/api/v1/nodes/*"))
        stage.calm("a1", "a2")
        gone = stage.time
        await stage.until(lambda: stage.clean("a1", "a2"), within=70)
        await stage.settle()
        assert not [request for request in stage.journal.evictions if request.time > gone + 0.1]

    play(story)


def test_nr_50_when_the_operator_says_no_the_evictions_end_before_the_taints_are_off() -> None:
    async def story(stage: Stage) -> None:
        budget(stage)
        stage.pods("a1", *(f"p{number}" for number in range(10)), metadata={"labels": {"app": "db"}})
        await blocked(stage, "a3")
        await asyncio.sleep(25)
        stage.faults.inject(Delay(before=30), When("PATCH", "/api/v1/nodes/*"))
        stage.annotate("a3", vocabulary.BLOCK_ANNOTATION, vocabulary.BLOCK_IGNORE)
        told = stage.time
        await stage.until(lambda: stage.clean("a1", "a2", "a3"), within=70)
        await stage.settle()
        assert not [request for request in stage.journal.evictions if request.time > told + 0.1]

    play(story)
