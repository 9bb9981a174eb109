"""From the queue to the node, against a server of queues: nothing is lost, nothing is told twice."""

from functools import partial

import pytest
from structlog.testing import capture_logs

from ebbtide.kube.resources import EVENTS, NODES
from ebbtide.model import NodeFacts
from ebbtide.sim.faults import Answer, Delay, When
from ebbtide.vocabulary import INTERRUPTION_NOTICE_ANNOTATION, SIGNAL_TAINT_KEY
from reconciler.signals.act import Act
from reconciler.signals.controller import QueueReader
from reconciler.signals.decide import Result
from reconciler.signals.envelope import InstanceNotice
from reconciler.signals.messages import QueueError
from reconciler.signals.queue import opened
from tests.controlplane.world import wait_until
from tests.ebbtide.kube.wire import until
from tests.reconciler.signals.sqs import REGION, gate, interruption, new_queue, rebalance
from tests.reconciler.signals.stage import FOREIGN, reading, stage

PATCHES = When(method="PATCH", path="/api/v1/nodes/*")


async def test_a_recommendation_reaches_the_node_and_leaves_the_queue(queues: str) -> None:
    """The taint has the second of EventBridge's message; other taints stay; an event says why."""
    async with stage() as on, new_queue(queues) as queue:
        on.add_node("a1", "i-1")
        await queue.send(rebalance("i-1"))
        async with reading(on.reader(queue.url)):
            await queue.emptied()
        assert (await on.raw("a1"))["spec"]["taints"][0] == FOREIGN
        assert await on.signals("a1") == ["1772366280"]
        assert on.count("stored") == 1
        events, _ = await on.client.list_all(EVENTS)
        assert [event["reason"] for event in events] == ["RebalanceRecommended"]


async def test_an_interruption_says_when_the_instance_goes(queues: str) -> None:
    """Two minutes after the message."""
    async with stage() as on, new_queue(queues) as queue:
        on.add_node("a1", "i-1")
        await queue.send(interruption("i-1"))
        async with reading(on.reader(queue.url)):
            await queue.emptied()
        annotations = (await on.raw("a1"))["metadata"]["annotations"]
        assert annotations[INTERRUPTION_NOTICE_ANNOTATION] == "2026-03-01T12:02:00Z"
        assert await on.signals("a1") == ["1772366400"]


@pytest.mark.parametrize(
    ("fault", "action"),
    [
        pytest.param(Delay(before=3600), "", id="received, the node not asked yet"),
        pytest.param(Delay(after=3600), "", id="stored, the answer not here yet"),
        pytest.param(None, "before", id="stored, not deleted"),
        pytest.param(None, "after", id="deleted, the answer not here yet"),
    ],
)
async def test_a_kill_between_two_steps_loses_nothing(queues: str, fault: Delay | None, action: str) -> None:
    """The next leader finds the message again, or the signal stored, and never stores it twice."""
    async with stage() as on, new_queue(queues) as queue, gate(queues) as way:
        on.add_node("a1", "i-1")
        await queue.send(rebalance("i-1"))
        patches = on.cluster.faults.inject(fault, PATCHES) if fault else None
        held = {"before": way.before, "after": way.after}
        if action:
            held[action].add("DeleteMessageBatch")
        async with reading(on.reader(way.through(queue))):
            await until(lambda: way.held.is_set() or bool(patches and patches.hits))
        on.cluster.faults.clear()
        way.before.clear()
        way.after.clear()
        async with reading(on.reader(way.through(queue))):
            await queue.emptied()
            await on.signalled("a1")
        assert await on.signals("a1") == ["1772366280"]


async def test_a_message_stays_until_its_node_was_written(queues: str) -> None:
    """The write fails once; the message comes again by itself."""
    async with stage() as on, new_queue(queues) as queue:
        on.add_node("a1", "i-1")
        on.cluster.faults.inject(Answer(500), When(method="PATCH", path="/api/v1/nodes/*", times=1))
        await queue.send(rebalance("i-1"))
        async with reading(on.reader(queue.url)):
            await on.counted("failed", 1)
            assert await queue.depth() == 1
            await queue.emptied()
        assert await on.signals("a1") == ["1772366280"]


async def test_an_unknown_instance_is_left_to_the_queue(queues: str) -> None:
    """Its node may be about to join; until then the message is counted each time it comes."""
    async with stage() as on, new_queue(queues) as queue:
        await queue.send(rebalance("i-9"))
        async with reading(on.reader(queue.url)):
            await on.counted("unknown-instance", 1)
            assert await queue.depth() == 1
            on.add_node("a9", "i-9")
            await queue.emptied()
        assert await on.signals("a9") == ["1772366280"]


async def test_poison_is_left_to_the_queue_s_own_rule(queues: str) -> None:
    """Counted, and moved on by the queue; what is good behind it is not held up."""
    async with stage() as on, new_queue(queues, redrive_after=2) as queue:
        assert queue.dead is not None
        on.add_node("a1", "i-1")
        await queue.send("no envelope", rebalance("i-1"), '{"detail-type": "EC2 Something", "source": "aws.ec2"}')
        async with reading(on.reader(queue.url)):
            await queue.emptied()
        assert await on.signals("a1") == ["1772366280"]
        assert on.count("malformed") >= 2
        assert on.count("other-kind") >= 2
        assert await queue.dead.depth() == 2


async def test_what_comes_twice_changes_nothing(queues: str) -> None:
    """Ten times the same in one answer, and again later: one write."""
    async with stage() as on, new_queue(queues) as queue:
        on.add_node("a1", "i-1")
        await queue.send(*[rebalance("i-1")] * 10)
        async with reading(on.reader(queue.url)):
            await queue.emptied()
            await queue.send(rebalance("i-1"))
            await on.counted("known", 10)
            await queue.emptied()
        assert on.count("stored") == 1
        assert sum(count for verb, count in on.client.sent.items() if verb.verb == "patch") == 1


async def test_a_node_that_is_being_deleted_is_not_written(queues: str) -> None:
    async with stage() as on, new_queue(queues) as queue:
        on.add_node("a1", "i-1")
        await on.client.patch_merge(NODES, "a1", {"metadata": {"finalizers": ["example.com/wait"]}})
        await on.client.delete(NODES, "a1")
        await queue.send(rebalance("i-1"))
        await until(lambda: (node := on.nodes.get("a1")) is not None and node.deleting)
        async with reading(on.reader(queue.url)):
            await queue.emptied()
        assert on.count("leaving") == 1
        assert await on.signals("a1") == []


class Defective(Act):
    """Falls over one instance."""

    async def store(self, told: InstanceNotice) -> tuple[Result, NodeFacts | None]:
        if told.instance == "i-1":
            raise ZeroDivisionError(told.instance)
        return await super().store(told)


async def test_a_defect_that_one_message_meets_holds_up_no_other(queues: str) -> None:
    """It stays in the queue, is told with its traceback, and the reader goes on."""
    async with stage() as on, new_queue(queues) as queue:
        for name, instance in (("a1", "i-1"), ("a2", "i-2"), ("a3", "i-3")):
            on.add_node(name, instance)
        await queue.send(rebalance("i-1"), rebalance("i-2"))
        reader = QueueReader(
            partial(opened, queue.url, REGION), Defective(on.client, on.nodes, SIGNAL_TAINT_KEY), on.report
        )
        with capture_logs() as entries:
            async with reading(reader) as running:
                await on.counted("failed", 1)
                await queue.send(rebalance("i-3"))
                await on.signalled("a2")
                await on.signalled("a3")
                assert not running.done()
        assert await on.signals("a1") == []
        told = [entry["exc_info"] for entry in entries if entry["log_level"] == "error"]
        assert told
        assert all(isinstance(error, ZeroDivisionError) for error in told)


async def test_whoever_does_not_lead_any_more_deletes_nothing(queues: str) -> None:
    """The message is the next leader's."""
    async with stage() as on, new_queue(queues) as queue:
        on.add_node("a1", "i-1")
        await queue.send(rebalance("i-1"))
        async with reading(on.reader(queue.url, on.client.permitted(lambda: False))):
            await on.counted("failed", 1)
        assert await queue.depth() == 1
        assert await on.signals("a1") == []


async def test_a_queue_that_is_away_is_asked_on(queues: str) -> None:
    """It is told as not answering, and read as soon as it is back."""
    async with stage() as on, new_queue(queues) as queue, gate(queues) as way:
        on.add_node("a1", "i-1")
        way.refused = {"ReceiveMessage"}
        async with reading(on.reader(way.through(queue))):
            await until(lambda: bool(on.registry.get_sample_value("signals_queue_errors_total")), 60)
            assert on.registry.get_sample_value("signals_queue_answering") == 0
            way.refused.clear()
            await queue.send(rebalance("i-1"))
            await on.signalled("a1")
            assert on.registry.get_sample_value("signals_queue_answering") == 1


async def test_a_message_that_cannot_be_deleted_comes_again_and_changes_nothing(queues: str) -> None:
    async with stage() as on, new_queue(queues) as queue, gate(queues) as way:
        on.add_node("a1", "i-1")
        way.refused = {"DeleteMessageBatch"}
        await queue.send(rebalance("i-1"))
        async with reading(on.reader(way.through(queue))):
            await until(lambda: bool(on.registry.get_sample_value("signals_undeleted_total")), 60)
            way.refused.clear()
            await queue.emptied()
        assert (on.count("stored"), on.count("known") > 0) == (1, True)


async def test_a_queue_that_does_not_exist_is_no_reason_to_fall_over(queues: str) -> None:
    async with stage() as on, reading(on.reader(f"{queues}/123456789012/none")) as task:
        await until(lambda: bool(on.registry.get_sample_value("signals_queue_errors_total")), 60)
        assert not task.done()


async def test_the_end_does_not_wait_for_the_long_poll(queues: str) -> None:
    """What was received is finished first; polls that are under way then are never answered."""
    async with stage() as on, new_queue(queues, visibility=60) as queue, gate(queues) as way:
        on.add_node("a1", "i-1")
        on.cluster.faults.inject(Delay(before=2), PATCHES)
        await queue.send(rebalance("i-1"))
        reader = on.reader(way.through(queue))

        async def at_work() -> bool:
            return reader.longest() > 0

        async with reading(reader) as task:
            await wait_until(at_work, "the message is received")
            reader.drain()
            await task
        assert way.answered.count("ReceiveMessage") < way.actions.count("ReceiveMessage")
        assert await queue.depth() == 0
        assert reader.longest() == 0


async def test_a_queue_that_cannot_be_reached_is_said_with_host_and_port(unused_tcp_port: int) -> None:
    async with opened(f"http://127.0.0.1:{unused_tcp_port}/1/queue", REGION) as queue:
        with pytest.raises(QueueError) as failed:
            await queue.receive()
    assert str(failed.value) == f"127.0.0.1:{unused_tcp_port} refuses connections"
