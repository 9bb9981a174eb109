"""What the agent does to its node, and what it does about an API server that is in no state to be told."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from ebbtide.agent.act import Act, OwnNode
from ebbtide.agent.report import Report
from ebbtide.errors import ClusterAccessError
from ebbtide.kube.client import Client
from ebbtide.kube.resources import EVENTS, NODES
from ebbtide.notices import Kind, Notice
from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.faults import Answer, Delay, When
from ebbtide.sim.time import simulate
from ebbtide.vocabulary import INTERRUPTION_NOTICE_ANNOTATION, REBALANCE_NOTICE_ANNOTATION, SIGNAL_TAINT_KEY
from tests.ebbtide.agent.service import INTERRUPTION_AT, NOTICE_AT

REBALANCE = Notice(Kind.REBALANCE, NOTICE_AT)
INTERRUPTION = Notice(Kind.INTERRUPTION, INTERRUPTION_AT, "terminate")
FOREIGN = objects.taint("team", "x")
SIGNAL = {"key": SIGNAL_TAINT_KEY, "value": "1772366280", "effect": "NoSchedule"}
PATCHES = When(method="PATCH", path="/api/v1/nodes/*")


@dataclass
class Stage:
    """A cluster with one node, and the agent's client of it."""

    cluster: Cluster
    client: Client

    def act(self) -> Act:
        """An agent that has just been started."""
        report = Report(CollectorRegistry())
        return Act(OwnNode(self.client, "a1", SIGNAL_TAINT_KEY), report, self.cluster.clock.now)

    async def node(self) -> dict[str, Any]:
        return await self.client.get(NODES, "a1")

    async def taints(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.node())["spec"].get("taints", [])
        return found

    async def annotations(self) -> dict[str, str]:
        found: dict[str, str] = (await self.node())["metadata"].get("annotations", {})
        return found

    async def set_taints(self, *taints: dict[str, Any]) -> None:
        await self.client.patch_merge(NODES, "a1", {"spec": {"taints": list(taints)}})

    async def events(self) -> list[dict[str, Any]]:
        found, _ = await self.client.list_all(EVENTS)
        return found


@asynccontextmanager
async def running(act: Act) -> AsyncIterator[asyncio.Future[None]]:
    task = asyncio.ensure_future(act.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def on_stage(test: Callable[[Stage], Awaitable[None]], *, node: bool = True) -> None:
    async def main() -> None:
        async with Cluster(seed=1) as cluster:
            if node:
                cluster.create(objects.node("a1", zone="a", taints=[FOREIGN]))
            async with Client(cluster.access(), field_manager="ebbtide-agent", user_agent="test") as client:
                await test(Stage(cluster, client))

    simulate(main())


def test_a_recommendation_becomes_the_signal_once() -> None:
    """Heard for an hour, written once, by one request; other taints and the cordon switch are left alone."""

    async def hour(stage: Stage) -> None:
        act = stage.act()
        async with running(act):
            await asyncio.sleep(1)
            before = (await stage.node())["metadata"]["resourceVersion"]
            requests = stage.cluster.faults.inject(Delay())
            for _ in range(1800):
                act.tell(REBALANCE)
                await asyncio.sleep(2)
            assert await stage.taints() == [FOREIGN, SIGNAL]
            assert (await stage.annotations())[REBALANCE_NOTICE_ANNOTATION] == "2026-03-01T11:58:00Z"
            assert "unschedulable" not in (await stage.node())["spec"]
            assert int((await stage.node())["metadata"]["resourceVersion"]) == int(before) + 1
            # Read, patch, event; and a look every ten minutes.
            assert requests.hits <= 3 + 6 + 4
            assert [each["reason"] for each in await stage.events()] == ["RebalanceRecommended"]

    on_stage(hour)


def test_a_signal_of_another_program_stays_as_it_is() -> None:
    """Under the same key, with a value that is no time: nobody fights over it."""
    other = {"key": SIGNAL_TAINT_KEY, "value": "rebalance-recommendation-5e1f0c", "effect": "NoSchedule"}

    async def told(stage: Stage) -> None:
        await stage.set_taints(other, FOREIGN)
        act = stage.act()
        async with running(act):
            act.tell(REBALANCE)
            act.tell(INTERRUPTION)
            await asyncio.sleep(5)
            assert await stage.taints() == [other, FOREIGN]
            assert (await stage.annotations())[INTERRUPTION_NOTICE_ANNOTATION] == "2026-03-01T12:02:00Z"

    on_stage(told)


def test_a_signal_that_was_taken_away_is_not_set_again_for_the_same_recommendation() -> None:
    """Not by this process, and not by the one after it."""

    async def taken_away(stage: Stage) -> None:
        for act in (stage.act(), stage.act()):
            async with running(act):
                act.tell(REBALANCE)
                await asyncio.sleep(5)
                await stage.set_taints(FOREIGN)
                act.tell(REBALANCE)
                await asyncio.sleep(60)
                assert await stage.taints() == [FOREIGN]
        later = Notice(Kind.REBALANCE, NOTICE_AT + 3600)
        act = stage.act()
        async with running(act):
            act.tell(later)
            await asyncio.sleep(5)
            assert [taint["value"] for taint in await stage.taints() if taint["key"] == SIGNAL_TAINT_KEY] == [
                "1772369880"
            ]

    on_stage(taken_away)


def test_a_node_that_was_registered_anew_is_told_again() -> None:
    """Somebody has deleted the Node object; the instance is the same, and so is what AWS says of it."""

    async def anew(stage: Stage) -> None:
        act = stage.act()
        async with running(act):
            act.tell(REBALANCE)
            await asyncio.sleep(5)
            await stage.client.delete(NODES, "a1")
            stage.cluster.create(objects.node("a1", zone="a"))
            for _ in range(400):
                act.tell(REBALANCE)
                await asyncio.sleep(2)
            assert await stage.taints() == [SIGNAL]

    on_stage(anew)


def test_an_interruption_signals_the_node_and_says_when() -> None:
    """The signal is as old as AWS's warning, which comes two minutes ahead; the event is a Warning."""

    async def interrupted(stage: Stage) -> None:
        act = stage.act()
        async with running(act):
            act.tell(INTERRUPTION)
            await asyncio.sleep(5)
            assert await stage.taints() == [FOREIGN, SIGNAL | {"value": str(int(INTERRUPTION_AT) - 120)}]
            assert (await stage.annotations())[INTERRUPTION_NOTICE_ANNOTATION] == "2026-03-01T12:02:00Z"
            (event,) = await stage.events()
            assert (event["reason"], event["type"]) == ("InterruptionNotice", "Warning")
            assert "terminate at 2026-03-01T12:02:00Z" in event["note"]

    on_stage(interrupted)


def test_a_notice_outlives_ten_minutes_without_an_api_server() -> None:
    """It is kept, and written within seconds once the server is back; meanwhile the agent says that it is not ready."""

    async def outage(stage: Stage) -> None:
        act = stage.act()
        async with running(act):
            await asyncio.sleep(1)
            assert act.problem() is None
            stage.cluster.faults.inject(Answer(503), When(path="/api/v1/nodes*", times=10_000))
            act.tell(REBALANCE)
            act.tell(INTERRUPTION)
            await asyncio.sleep(600)
            assert "503" in (act.problem() or "")
            stage.cluster.faults.clear()
            await asyncio.sleep(30)
            assert act.problem() is None
            assert await stage.taints() != [FOREIGN]
            assert {REBALANCE_NOTICE_ANNOTATION, INTERRUPTION_NOTICE_ANNOTATION} <= (await stage.annotations()).keys()

    on_stage(outage)


def test_a_notice_that_comes_before_the_cluster_does_is_kept() -> None:
    """The agent starts while the API server is away, and hears at once."""

    async def early(stage: Stage) -> None:
        stage.cluster.faults.inject(Answer(503), When(path="/api/v1/nodes*"))
        act = stage.act()
        async with running(act):
            act.tell(REBALANCE)
            await asyncio.sleep(600)
            assert act.problem() is not None
            stage.cluster.faults.clear()
            await asyncio.sleep(30)
            assert await stage.taints() == [FOREIGN, SIGNAL]

    on_stage(early)


def test_what_comes_while_something_is_written_is_written_next() -> None:
    """The interruption does not get lost behind a recommendation that takes its time."""

    async def overlapping(stage: Stage) -> None:
        act = stage.act()
        async with running(act):
            await asyncio.sleep(1)
            stage.cluster.faults.inject(Delay(before=10), PATCHES)
            act.tell(REBALANCE)
            await asyncio.sleep(5)
            act.tell(INTERRUPTION)
            await asyncio.sleep(60)
            assert {REBALANCE_NOTICE_ANNOTATION, INTERRUPTION_NOTICE_ANNOTATION} <= (await stage.annotations()).keys()

    on_stage(overlapping)


def test_another_writer_in_between_costs_a_second_look() -> None:
    """The patch is for the version that was read; what the other has added survives."""

    async def interleaved(stage: Stage) -> None:
        act = stage.act()
        async with running(act):
            await asyncio.sleep(1)
            stage.cluster.faults.inject(Delay(before=2), When(method="PATCH", path="/api/v1/nodes/*", times=1))
            act.tell(REBALANCE)
            await asyncio.sleep(1)
            other = objects.taint("late", "y")
            stage.cluster.faults.clear()
            await stage.set_taints(FOREIGN, other)
            await asyncio.sleep(10)
            assert await stage.taints() == [FOREIGN, other, SIGNAL]

    on_stage(interleaved)


def test_an_answer_that_is_lost_leads_to_no_second_signal() -> None:
    """The node is read again before anything is repeated."""

    async def lost(stage: Stage) -> None:
        act = stage.act()
        async with running(act):
            await asyncio.sleep(1)
            stage.cluster.faults.inject(Delay(after=100), When(method="PATCH", path="/api/v1/nodes/*", times=1))
            act.tell(REBALANCE)
            await asyncio.sleep(120)
            assert await stage.taints() == [FOREIGN, SIGNAL]

    on_stage(lost)


@pytest.mark.parametrize("code", [401, 403])
@pytest.mark.parametrize("method", ["GET", "PATCH"])
def test_a_refusal_at_the_start_ends_it(method: str, code: int) -> None:
    """Whoever has forgotten a role, or a policy stands in the way: the first write is tried as a dry run."""

    async def refused(stage: Stage) -> None:
        stage.cluster.faults.inject(Answer(code), When(method=method, path="/api/v1/nodes/*"))
        with pytest.raises(ClusterAccessError, match="node a1 cannot be told"):
            await stage.act().run()
        stage.cluster.faults.clear()
        assert await stage.taints() == [FOREIGN]

    on_stage(refused)


def test_a_refusal_later_is_outwaited() -> None:
    """Roles are replaced in an upgrade; a notice is not thrown away for that."""

    async def later(stage: Stage) -> None:
        act = stage.act()
        async with running(act) as task:
            await asyncio.sleep(1)
            stage.cluster.faults.inject(Answer(403), When(path="/api/v1/nodes/*"))
            act.tell(REBALANCE)
            await asyncio.sleep(60)
            assert not task.done()
            stage.cluster.faults.clear()
            await asyncio.sleep(30)
            assert await stage.taints() == [FOREIGN, SIGNAL]

    on_stage(later)


def test_a_node_that_is_not_registered_yet_is_waited_for() -> None:
    """Pods of files start before their node is registered; a wrong name looks the same, and is told as not ready."""

    async def unregistered(stage: Stage) -> None:
        act = stage.act()
        async with running(act):
            act.tell(REBALANCE)
            await asyncio.sleep(60)
            assert "/api/v1/nodes/a1" in (act.problem() or "")
            stage.cluster.create(objects.node("a1", zone="a"))
            await asyncio.sleep(30)
            assert act.problem() is None
            assert await stage.taints() == [SIGNAL]

    on_stage(unregistered, node=False)


def test_without_events_the_node_is_told_all_the_same() -> None:
    async def no_events(stage: Stage) -> None:
        stage.cluster.faults.inject(Answer(403), When(method="POST"))
        act = stage.act()
        async with running(act):
            act.tell(REBALANCE)
            await asyncio.sleep(10)
            assert await stage.taints() == [FOREIGN, SIGNAL]
            assert act.problem() is None

    on_stage(no_events)


def test_a_clock_that_jumps_changes_nothing() -> None:
    """The signal has AWS's time; durations are the loop's."""

    async def jumping(stage: Stage) -> None:
        act = stage.act()
        async with running(act):
            await asyncio.sleep(1)
            for seconds in (-86_400.0, 10 * 86_400.0):
                stage.cluster.clock.jump(seconds)  # type: ignore[attr-defined] # the clock of a simulated loop
            act.tell(REBALANCE)
            await asyncio.sleep(5)
            assert await stage.taints() == [FOREIGN, SIGNAL]

    on_stage(jumping)
