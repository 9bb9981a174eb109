"""The promises as they are stored: their spelling, writes that exclude each other, bounds."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.kube.client import Client
from ebbtide.kube.errors import Conflict, KubeError
from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.faults import Answer, Drop, When
from ebbtide.sim.kinds import CONFIG_MAPS
from ebbtide.sim.time import simulate
from reconciler.scaler.shared.ledger import (
    LARGEST,
    Entry,
    Ledger,
    LedgerFullError,
    Record,
    read,
    write,
)
from reconciler.scaler.task import TaskId

NAMESPACE = "tidb-serverless"
LINE = write([Entry(TaskId(1, 2, 3, -1), 7, 100, 1700000000)])

signed = st.integers(-(2**63), 2**63 - 1)
entries = st.builds(
    Entry,
    task=st.builds(TaskId, st.integers(0, 2**32 - 1), signed, signed, st.integers(-(2**31), 2**31 - 1)),
    cluster=st.integers(0, 2**64 - 1),
    size=st.integers(0, 2**40),
    dated=st.integers(0, 2**32),
)


@given(st.dictionaries(st.integers(0, 1000), st.lists(entries, min_size=1, max_size=5), max_size=5))
def test_what_is_written_is_read(each: dict[int, list[Entry]]) -> None:
    data = {str(ordinal): write(lines) for ordinal, lines in each.items()}
    assert read(data) == Record(entries=each)


def test_a_promise_is_a_short_line() -> None:
    assert LINE == '["1-2-3--1",7,100,1700000000]'


def test_what_makes_no_sense_is_left_out_and_the_rest_is_read() -> None:
    lines = '{\n["no task",7,1,1]\n[1]\n["1-2-3-4",7,1,1]\n["1-2-3-5","x",1,1]'
    found = read({"0": lines, "one": "x", "closing": "soon", "clusters": "7,x,9"})
    assert found.entries == {0: [Entry(TaskId(1, 2, 3, 4), 7, 1, 1)]}
    assert found.closing is None
    assert found.clusters == {7, 9}


Story = Callable[[Cluster, Callable[[str], Ledger]], Coroutine[Any, Any, None]]


def on_cluster(story: Story) -> None:
    async def play() -> None:
        async with Cluster() as cluster:
            cluster.create(objects.namespace(NAMESPACE))
            async with Client(cluster.access(), field_manager="t", user_agent="t") as client:
                await story(cluster, lambda name: Ledger(client, NAMESPACE, "pool", name))

    simulate(play())


def stored(cluster: Cluster) -> dict[str, str]:
    return dict(cluster.storage.find(CONFIG_MAPS, "pool-ledger", NAMESPACE).body.get("data") or {})


def test_nothing_is_written_before_it_was_read_or_when_nothing_changes() -> None:
    async def story(cluster: Cluster, make: Callable[[str], Ledger]) -> None:
        ledger = make("a")
        with pytest.raises(Conflict):
            await ledger.save({0: LINE})
        assert await ledger.take_over("1") == Record()
        await ledger.save({0: LINE}, [7])
        before = cluster.storage.find(CONFIG_MAPS, "pool-ledger", NAMESPACE).body["metadata"]["resourceVersion"]
        await ledger.save({0: LINE, 1: ""}, [7])
        after = cluster.storage.find(CONFIG_MAPS, "pool-ledger", NAMESPACE).body["metadata"]["resourceVersion"]
        assert before == after
        await ledger.save({0: ""}, [7])
        assert stored(cluster) == {"clusters": "7"}

    on_cluster(story)


def test_who_takes_over_ends_the_writes_of_whoever_had_it() -> None:
    async def story(cluster: Cluster, make: Callable[[str], Ledger]) -> None:
        old, new = make("old"), make("new")
        await old.take_over("1")
        await old.save({0: LINE})
        record = await new.take_over("1")
        assert set(record.entries) == {0}
        with pytest.raises(Conflict):
            await old.save({1: LINE})
        assert not old.certain
        await new.save({2: LINE})
        assert set(stored(cluster)) == {"0", "2", "holder"}

    on_cluster(story)


def test_of_two_that_make_it_one_finds_out() -> None:
    async def story(cluster: Cluster, make: Callable[[str], Ledger]) -> None:
        one, other = make("one"), make("other")
        await one.take_over("1")
        await other.take_over("1")
        outcomes = await asyncio.gather(one.save({0: LINE}), other.save({1: LINE}), return_exceptions=True)
        assert sorted(isinstance(outcome, Conflict) for outcome in outcomes) == [False, True]
        assert len(stored(cluster)) == 1

    on_cluster(story)


@pytest.mark.parametrize("fault", [Answer(500), Drop(processed=True), Drop()])
def test_after_a_failure_it_has_to_be_read_again(fault: Answer | Drop) -> None:
    async def story(cluster: Cluster, make: Callable[[str], Ledger]) -> None:
        ledger = make("a")
        await ledger.take_over("1")
        await ledger.save({0: LINE})
        cluster.faults.inject(fault, When("PATCH", times=1))
        with pytest.raises(KubeError):
            await ledger.save({1: LINE})
        assert not ledger.certain
        record = await ledger.take_over("1")
        assert (1 in record.entries) == (fault == Drop(processed=True))
        await ledger.save({1: LINE})
        assert {"0", "1"} <= set(stored(cluster))

    on_cluster(story)


def test_closing_is_stored_with_the_lines_that_go_with_it() -> None:
    async def story(cluster: Cluster, make: Callable[[str], Ledger]) -> None:
        ledger = make("a")
        await ledger.take_over("1")
        await ledger.save({0: LINE, 3: LINE})
        await ledger.close(2, {3: ""})
        assert stored(cluster) == {"0": LINE, "closing": "2"}
        assert (await make("b").look()).closing == 2
        await ledger.close(None, {})
        assert stored(cluster) == {"0": LINE}

    on_cluster(story)


def test_it_does_not_grow_beyond_what_an_object_may_have() -> None:
    async def story(cluster: Cluster, make: Callable[[str], Ledger]) -> None:
        ledger = make("a")
        await ledger.take_over("1")
        await ledger.save({0: LINE})
        with pytest.raises(LedgerFullError):
            await ledger.save({1: "x" * LARGEST})
        assert ledger.certain
        await ledger.save({1: LINE})

    on_cluster(story)


def test_it_has_the_clusters_of_the_last_write_and_no_others() -> None:
    async def story(cluster: Cluster, make: Callable[[str], Ledger]) -> None:
        ledger = make("a")
        await ledger.take_over("1")
        await ledger.save({}, [7, 8])
        await ledger.save({0: LINE}, [8, 9])
        assert read(stored(cluster)).clusters == {8, 9}

    on_cluster(story)
