"""A node that is emptied has to be still the same node: its name may be used again where nobody is looking.

The pods of a node are watched by its name, and an eviction can only name the pod. So whenever the watch of nodes may
have missed something, the node is asked for before a pod of it goes.
"""

import asyncio
from collections.abc import Callable

import pytest

from ebbtide.sim import objects
from ebbtide.sim.deletion import Deletion
from ebbtide.sim.faults import Answer, Compact, Delay, Drop, Effect, FreezeWatch, When
from ebbtide.sim.kinds import PODS
from tests.simulation.stage import Stage, play
from tests.simulation.wiretap import NODE_PATH, Request

NODES_PATH = "/api/v1/nodes"
PODS_PATH = "/api/v1/pods"
# Seconds for which an outage of this page keeps the watch of nodes from telling anything.
OUTAGE = 12.0


async def emptying(stage: Stage, within: float = 40) -> None:
    """a1 is emptied; a budget holds one pod of it, which is asked again every 10 s."""
    stage.nodes("a1 S(400s)", "a2", "b1")
    stage.cluster.create(objects.budget("db", match={"app": "db"}, min_available=1000))
    stage.pods("a1", "free")
    stage.pods("a1", "held", metadata={"labels": {"app": "db"}})
    stage.start()
    await stage.until(lambda: "free" in stage.evicted() and len(asked(stage, "held")) == 2, within=within)
    await asyncio.sleep(3)


def asked(stage: Stage, pod: str) -> list[float]:
    return [request.time for request in stage.journal.evictions if request.pod == pod]


def questions(stage: Stage) -> list[Request]:
    """Reads of single nodes."""
    return stage.journal.matching("GET", NODE_PATH)


# --- how the watch of nodes may fail ----------------------------------------------------------------------------


def nothing_opens(stage: Stage) -> None:
    stage.faults.inject(Delay(before=OUTAGE), When("WATCH", NODES_PATH, times=1))
    stage.faults.cut_watches(NODES_PATH)


def nothing_is_answered(stage: Stage) -> None:
    stage.faults.inject(Answer(503, retry_after=int(OUTAGE)), When("WATCH", NODES_PATH, times=1))
    stage.faults.cut_watches(NODES_PATH)


def everything_breaks(stage: Stage) -> None:
    """The watches of pods are back at once, that of nodes is not."""
    stage.faults.inject(Delay(before=OUTAGE), When("WATCH", NODES_PATH, times=1))
    stage.faults.cut_watches()


def history_is_compacted(stage: Stage) -> None:
    """A new list is needed, and comes late."""
    stage.faults.inject(Compact(), When("WATCH", NODES_PATH, times=1))
    stage.faults.inject(Delay(before=OUTAGE), When("WATCH", NODES_PATH, skip=1, times=1))
    stage.faults.cut_watches(NODES_PATH)


def falls_silent(stage: Stage) -> None:
    """It opens anew and never says a word."""
    stage.faults.inject(FreezeWatch(), When("WATCH", NODES_PATH, times=1))
    stage.faults.cut_watches(NODES_PATH)


OUTAGES = [nothing_opens, nothing_is_answered, everything_breaks, history_is_compacted, falls_silent]


def named(function: Callable[..., object]) -> str:
    return function.__name__.replace("_", " ")


# --- what may happen meanwhile ----------------------------------------------------------------------------------


def replace(stage: Stage, text: str) -> str:
    """a1 gives way to another node of its name, with a pod that nothing threatens; that pod's UID."""
    stage.delete("a1")
    stage.join(text)
    (uid,) = stage.pods("a1", "newcomer")
    return uid


@pytest.mark.parametrize("text", ["a1", "a1 S"], ids=["well", "signalled just now"])
@pytest.mark.parametrize("after", [0.0, 0.5, 5.0], ids=["at once", "soon", "in the middle"])
@pytest.mark.parametrize("outage", OUTAGES, ids=named)
def test_the_pods_of_a_node_that_took_the_name_over_stay(
    outage: Callable[[Stage], None], after: float, text: str
) -> None:
    async def story(stage: Stage) -> None:
        await emptying(stage)
        outage(stage)
        await asyncio.sleep(after)
        newcomer = replace(stage, text)
        await asyncio.sleep(120)
        assert newcomer not in {request.uid for request in stage.journal.evictions}

    play(story)


@pytest.mark.parametrize("outage", OUTAGES, ids=named)
def test_a_node_that_goes_in_an_outage_and_comes_back_after_it_is_another_one(outage: Callable[[Stage], None]) -> None:
    """The outage is over before the watch has caught up with what happened in it."""

    async def story(stage: Stage) -> None:
        await emptying(stage)
        outage(stage)
        stage.delete("a1")
        await asyncio.sleep(1)
        stage.faults.clear()
        stage.faults.cut_watches()
        stage.join("a1")
        (newcomer,) = stage.pods("a1", "newcomer")
        await asyncio.sleep(120)
        assert newcomer not in {request.uid for request in stage.journal.evictions}

    play(story)


@pytest.mark.parametrize("outage", OUTAGES[:-1], ids=named)
def test_a_pod_is_not_asked_again_once_the_signal_has_gone_unseen(outage: Callable[[Stage], None]) -> None:
    async def story(stage: Stage) -> None:
        await emptying(stage)
        outage(stage)
        stage.calm("a1")
        gone = stage.time
        await asyncio.sleep(120)
        assert not [time for time in asked(stage, "held") if time > gone]
        assert stage.clean("a1", "a2")

    play(story)


def test_a_silent_watch_is_not_believed_for_ever() -> None:
    """It ends only after minutes of silence; a pod under a budget is asked for with a question before, meanwhile."""

    async def story(stage: Stage) -> None:
        await emptying(stage)
        falls_silent(stage)
        await asyncio.sleep(15)
        stage.calm("a1")
        gone = stage.time
        await asyncio.sleep(600)
        assert max(asked(stage, "held")) < gone + 90
        assert stage.clean("a1", "a2")

    play(story)


# --- what it must not cost --------------------------------------------------------------------------------------


@pytest.mark.parametrize("outage", OUTAGES, ids=named)
def test_evictions_go_on_during_an_outage_when_the_node_is_still_the_same(outage: Callable[[Stage], None]) -> None:
    async def story(stage: Stage) -> None:
        await emptying(stage)
        outage(stage)
        stage.pods("a1", "late")
        await stage.until(lambda: "late" in stage.evicted(), within=2)
        before = len(asked(stage, "held"))
        await asyncio.sleep(60)
        assert len(asked(stage, "held")) - before >= 4

    play(story)


def test_an_undisturbed_drain_costs_one_read_for_each_node_with_pods() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("c1 S(400s)")
        stage.pods("c1", *(f"p{number}" for number in range(40)))
        await emptying(stage)
        await stage.until(lambda: len(stage.evicted()) == 41, within=30)
        await asyncio.sleep(200)
        assert len(asked(stage, "held")) > 15
        assert sorted(request.node for request in questions(stage)) == ["a1", "c1"]

    play(story)


def test_a_node_without_pods_that_could_go_costs_no_read() -> None:
    async def story(stage: Stage) -> None:
        stage.nodes("a1 S(30s)", "a2 S(10s)")
        stage.pods("a1", "daemon", kind="DaemonSet")
        stage.start()
        await asyncio.sleep(120)
        assert not questions(stage)

    play(story)


@pytest.mark.parametrize(
    "failing",
    [Answer(500, "InternalError"), Answer(403, "Forbidden"), Drop(), Delay(before=3600)],
    ids=["fails", "is forbidden", "breaks off", "hangs"],
)
def test_pods_go_all_the_same_a_minute_after_the_first_question_without_an_answer(failing: Effect) -> None:
    """The node may be taken soon, and all that is known says that it is the same one."""

    async def story(stage: Stage) -> None:
        stage.faults.inject(failing, When("GET", NODE_PATH))
        stage.nodes("a1 S(30s)", "a2 S(10s)")
        stage.pods("a1", "p1", "p2")
        stage.start()
        await stage.until(lambda: len(stage.evicted()) == 2, within=70)
        first = questions(stage)[0].time
        assert all(60 <= request.time - first <= 65 for request in stage.journal.evictions)
        assert len(questions(stage)) <= 60

    play(story)


def test_a_node_that_can_be_read_at_last_is_asked_for_again() -> None:
    """Pods that went without an answer are no reason to go without one for ever."""

    async def story(stage: Stage) -> None:
        refusal = stage.faults.inject(Answer(500, "InternalError"), When("GET", NODE_PATH))
        await emptying(stage, within=100)
        stage.faults.remove(refusal)
        await asyncio.sleep(40)
        nothing_opens(stage)
        newcomer = replace(stage, "a1")
        await asyncio.sleep(60)
        assert newcomer not in {request.uid for request in stage.journal.evictions}

    play(story)


def test_a_node_that_cannot_be_read_holds_up_no_other() -> None:
    async def story(stage: Stage) -> None:
        stage.faults.inject(Answer(500, "InternalError"), When("GET", f"{NODES_PATH}/a1"))
        stage.nodes("a1 S(30s)", "a2 S(10s)")
        stage.pods("a1", *(f"p{number}" for number in range(40)))
        stage.pods("a2", "q1", "q2")
        stage.start()
        await stage.until(lambda: sorted(stage.evicted()) == ["q1", "q2"], within=3)
        await stage.until(lambda: len(stage.evicted()) == 42, within=80)

    play(story)


def test_a_pod_that_goes_by_itself_ends_the_questions() -> None:
    """A node that is another one now is asked for only as long as there is a pod that waits for the answer."""

    async def story(stage: Stage) -> None:
        await emptying(stage)
        falls_silent(stage)
        replace(stage, "a1")
        await asyncio.sleep(20)
        for pod in ("held", "newcomer"):
            stage.storage.delete(PODS, pod, "default", Deletion(grace_seconds=0))
        await asyncio.sleep(5)
        before = len(questions(stage))
        await asyncio.sleep(60)
        assert len(questions(stage)) == before

    play(story)
