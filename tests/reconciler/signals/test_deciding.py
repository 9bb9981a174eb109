"""What a message says, which node it is about, and what becomes of it."""

import json
import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.clock import SystemClock
from ebbtide.config import Settings
from ebbtide.config.signals import Signals, Sqs
from ebbtide.errors import UsageError
from ebbtide.kube.access import from_url
from ebbtide.kube.client import Client
from ebbtide.kube.store import Store
from ebbtide.model import CellLabels, NodeFacts, node_facts
from ebbtide.notices import Kind, Notice
from ebbtide.vocabulary import SIGNAL_TAINT_KEY
from reconciler.main import Reconciler
from reconciler.place import Place
from reconciler.signals.decide import Result, decide
from reconciler.signals.envelope import InstanceNotice, MalformedError, read
from reconciler.signals.snapshot import Instances
from reconciler.signals.wiring import region_of
from tests.reconciler.rebalance.builders import NOW, node, signal_taint
from tests.reconciler.signals.sqs import interruption, rebalance

AT = 1772366280.0


def test_both_kinds_are_read() -> None:
    """A recommendation has the time of the event, an interruption the one two minutes later."""
    assert read(rebalance("i-1")) == InstanceNotice("i-1", Notice(Kind.REBALANCE, AT))
    assert read(interruption("i-1")) == InstanceNotice("i-1", Notice(Kind.INTERRUPTION, AT + 240, "terminate"))


def changed(**fields: Any) -> str:
    envelope = json.loads(rebalance("i-1")) | fields
    return json.dumps({key: value for key, value in envelope.items() if value is not None})


MALFORMED = {
    "nothing": "",
    "no JSON": "hello",
    "no object": "[]",
    "null": "null",
    "no envelope": "{}",
    "no detail": changed(detail=None),
    "a detail that is none": changed(detail="i-1"),
    "no instance": changed(detail={}),
    "an instance that is none": changed(detail={"instance-id": "vol-1"}),
    "a number for an instance": changed(detail={"instance-id": 17}),
    "an endless instance": changed(detail={"instance-id": "i-" + "0" * 100}),
    "no time": changed(time=None),
    "a time that is none": changed(time="yesterday"),
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
def test_what_is_no_such_message_is_malformed(body: str) -> None:
    with pytest.raises(MalformedError):
        read(body)


@pytest.mark.parametrize(
    "body",
    [changed(**{"detail-type": "EC2 Instance State-change Notification"}), changed(source="com.example")],
    ids=["another event of EC2", "not of EC2"],
)
def test_other_events_are_none_of_ours(body: str) -> None:
    assert read(body) is None


@given(st.text() | st.recursive(st.none() | st.booleans() | st.text(), st.lists).map(json.dumps))
def test_no_message_makes_the_reader_fail(body: str) -> None:
    """Anybody who may send to the queue can send anything."""
    try:
        assert read(body) is None
    except MalformedError:
        return


def test_what_becomes_of_a_message() -> None:
    """Only what is on the node, or has no node to be on any more, is done with."""
    notice = Notice(Kind.REBALANCE, NOW)
    told = "2026-03-01T12:00:00Z"
    cases = [
        (None, Result.UNKNOWN_INSTANCE, False),
        (node("a1"), Result.STORED, True),
        (node("a1", signal=signal_taint(), rebalance_notice=told), Result.KNOWN, False),
        (node("a1", deleting=True), Result.LEAVING, False),
    ]
    for facts, result, writes in cases:
        verdict = decide(facts, notice, SIGNAL_TAINT_KEY)
        assert (verdict.result, bool(verdict.patch)) == (result, writes)
    assert {result for result in Result if result.done} == {Result.STORED, Result.KNOWN, Result.LEAVING}


# --- which node is it ---------------------------------------------------------------------------------------------


def store() -> Store[NodeFacts]:
    return Store(lambda raw: node_facts(raw, CellLabels()))


async def test_a_node_is_found_by_its_instance() -> None:
    """From its first event on, or when the cloud's controller has said which instance it is; until it has gone."""
    nodes = store()
    instances = Instances.following(nodes)
    plain = node("a1")
    known = replace(plain, instance="i-1")
    for raw in (_raw("a1", 1, ""), _raw("a1", 2, "i-1")):
        nodes.apply("ADDED" if raw["metadata"]["resourceVersion"] == "1" else "MODIFIED", raw)
    found = instances.node("i-1")
    assert found is not None
    assert (found.name, found.instance) == (known.name, known.instance)
    nodes.apply("MODIFIED", _raw("a1", 3, "i-2"))
    assert instances.node("i-1") is None
    nodes.apply("DELETED", _raw("a1", 4, "i-2"))
    assert instances.node("i-2") is None


async def test_of_two_nodes_of_one_instance_the_newer_counts() -> None:
    """An instance that was registered again under another name leaves the old node behind for a while."""
    nodes = store()
    instances = Instances.following(nodes)
    nodes.apply("ADDED", _raw("old", 1, "i-1", created="2026-01-01T00:00:00Z"))
    nodes.apply("ADDED", _raw("new", 2, "i-1", created="2026-02-01T00:00:00Z"))
    found = instances.node("i-1")
    assert found is not None
    assert found.name == "new"


@pytest.mark.parametrize(
    ("provider_id", "instance"),
    [
        ("aws:///eu-central-1a/i-0abc", "i-0abc"),
        ("aws://eu-central-1a/i-0abc", "i-0abc"),
        ("aws:///eu-central-1a/fargate-ip-10-0-0-1", ""),
        ("gce://project/zone/i-0abc", ""),
        ("kind://docker/kind/i-0abc", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_an_instance_is_what_the_provider_id_of_aws_says(provider_id: str | None, instance: str) -> None:
    raw = _raw("a1", 1, "")
    raw["spec"]["providerID"] = provider_id
    assert node_facts(raw, CellLabels()).instance == instance


def _raw(name: str, version: int, instance: str, created: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version), "creationTimestamp": created}
    return {"metadata": metadata, "spec": {"providerID": f"aws:///a/{instance}"} if instance else {}}


# --- how it is put together ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "region", "environ", "found"),
    [
        ("https://sqs.eu-central-1.amazonaws.com/1/q", "", {}, "eu-central-1"),
        ("https://sqs.cn-north-1.amazonaws.com.cn/1/q", "", {}, "cn-north-1"),
        ("https://sqs-fips.us-east-1.amazonaws.com/1/q", "", {}, "us-east-1"),
        ("https://eu-west-1.queue.amazonaws.com/1/q", "", {}, "eu-west-1"),
        ("https://vpce-1.sqs.eu-west-2.vpce.amazonaws.com/1/q", "", {}, "eu-west-2"),
        ("https://sqs.eu-central-1.amazonaws.com/1/q", "us-east-2", {}, "us-east-2"),
        ("https://sqs.eu-central-1.amazonaws.com/1/q", "", {"AWS_REGION": "us-east-1"}, "eu-central-1"),
        ("http://localhost:4566/1/q", "", {"AWS_REGION": "us-east-1"}, "us-east-1"),
        ("http://localhost:4566/1/q", "", {"AWS_DEFAULT_REGION": "us-east-1"}, "us-east-1"),
    ],
)
def test_the_region_is_found(url: str, region: str, environ: dict[str, str], found: str) -> None:
    """The key first, then the queue's own name, then the environment."""
    assert region_of(Sqs(queue_url=url, region=region), environ) == found


def test_a_region_that_nobody_names_is_a_problem_of_the_configuration() -> None:
    with pytest.raises(UsageError, match=r"signals\.sqs\.region must be set"):
        region_of(Sqs(queue_url="http://localhost:4566/1/q"), {})


WITH_QUEUE = Settings(signals=Signals(sqs=Sqs(queue_url="https://sqs.eu-central-1.amazonaws.com/1/q")))


def controllers(client: Client, settings: Settings, *, dry_run: bool = False) -> list[str]:
    """The names of what the leader would run."""
    place = Place("ebbtide-system", "a")
    program = Reconciler(settings, client, SystemClock(), place, dry_run)
    return [runnable.name for runnable in program._controllers.runnables]


async def test_the_queue_is_read_by_a_leader_that_is_told_of_one() -> None:
    """A dry run leaves it alone: what it saw would be hidden from whoever can store it."""
    async with Client(from_url("http://127.0.0.1:1"), field_manager="test", user_agent="test") as client:
        assert "signals" in controllers(client, WITH_QUEUE)
        assert "signals" not in controllers(client, Settings())
        assert "signals" not in controllers(client, WITH_QUEUE, dry_run=True)


async def test_a_queue_without_the_extra_is_a_problem_of_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 2, with what to install."""
    monkeypatch.setitem(sys.modules, "aiobotocore.config", None)
    monkeypatch.delitem(sys.modules, "reconciler.signals.queue", raising=False)
    async with Client(from_url("http://127.0.0.1:1"), field_manager="test", user_agent="test") as client:
        with pytest.raises(UsageError, match=r"pip install 'ebbtide\[sqs\]'"):
            controllers(client, WITH_QUEUE)
