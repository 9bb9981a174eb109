"""Which row of the table: what is tainted, untainted and emptied, and when the cell is looked at again."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ebbtide.model import Cell, NodeFacts, Taint, format_time
from reconciler.rebalance.decide import decide
from reconciler.rebalance.plan import CellFacts, Change, Deed, GroupFacts, Wish, is_prevented
from tests.reconciler.rebalance.builders import (
    FOREIGN,
    HASH,
    NOW,
    PREVENT,
    cell,
    node,
    plan_of,
    prevent_taint,
    rules,
    seen,
    signal_taint,
)


@dataclass(frozen=True)
class Case:
    """A cell, the node looked at, and everything that the plan must say."""

    name: str
    nodes: tuple[NodeFacts, ...]
    wish: Wish
    look_at: str | None = None
    taint: str = ""
    untaint: str = ""
    evict: bool = False
    remember: str = ""
    forget: str = ""
    again: float | None = None
    reason: str = ""
    held: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


def _to_be_deleted(value: str, added: float | None = None) -> Taint:
    return Taint("ToBeDeletedByClusterAutoscaler", value, "NoSchedule", added)


LEAVING = (_to_be_deleted("1772366340"),)
OTHER_EFFECT = prevent_taint("true", "NoExecute")
JUST_AFTER = 0.001
SOLE = "one signal, of node a1, not older than 300 s"

NO_SIGNAL = [
    Case("a clean cell", (node("a1"), node("a2")), Wish.OPEN, "a1", reason="no node is signalled"),
    Case("a clean cell looked at as a cell", (node("a1"), node("a2")), Wish.OPEN),
    Case(
        "NR-04 the danger is over",
        (node("a1"), node("a2", prevent=True), node("a3", taints=[FOREIGN], prevent=True)),
        Wish.OPEN,
        "a1",
        untaint="a2 a3",
        reason="no node is signalled",
    ),
    Case("one leftover", (node("a1", prevent=True),), Wish.OPEN, "a1", untaint="a1"),
    Case("NR-10 annotation goes with the signal", (node("a1", first_seen=seen(100)),), Wish.OPEN, "a1", forget="a1"),
    Case(
        "NR-10 annotation and taint go in one write",
        (node("a1", prevent=True, first_seen=seen(100)),),
        Wish.OPEN,
        "a1",
        untaint="a1",
        forget="a1",
    ),
    Case("an unreadable annotation goes too", (node("a1", first_seen="x"),), Wish.OPEN, "a1", forget="a1"),
    Case("an empty annotation goes too", (node("a1", first_seen=""),), Wish.OPEN, "a1", forget="a1"),
    Case(
        "NR-16 the signal is on a dying node",
        (node("a1", signal=30, prevent=True, deleting=True), node("a2", prevent=True), node("a3", prevent=True)),
        Wish.OPEN,
        "a1",
        untaint="a2 a3",
    ),
    Case(
        "NR-16 two dying signal nodes are no two signals",
        (node("a1", signal=30, deleting=True), node("a2", signal=400, deleting=True), node("a3")),
        Wish.OPEN,
        "a2",
    ),
    Case("all nodes are dying", (node("a1", signal=30, prevent=True, deleting=True),), Wish.OPEN, "a1"),
    Case("another taint is no signal", (node("a1", taints=[FOREIGN]), node("a2", taints=[FOREIGN])), Wish.OPEN, "a1"),
    Case(
        "NR-23 our key with another effect is not ours and stays",
        (node("a1", taints=[OTHER_EFFECT]), node("a2", taints=[OTHER_EFFECT], prevent=True)),
        Wish.OPEN,
        "a1",
        untaint="a2",
    ),
]

ONE_SIGNAL = [
    Case(
        "NR-02 fresh",
        (node("a1", signal=299), node("a2")),
        Wish.WAIT,
        "a1",
        again=1 + JUST_AFTER,
        reason=SOLE,
        held=("evict the pods of node a1",),
    ),
    Case(
        "NR-02 exactly at the limit",
        (node("a1", signal=300), node("a2")),
        Wish.WAIT,
        "a1",
        again=JUST_AFTER,
        held=("evict the pods of node a1",),
    ),
    Case(
        "NR-02 a moment after the limit",
        (node("a1", signal=300.001), node("a2")),
        Wish.BLOCK,
        "a1",
        taint="a1 a2",
        evict=True,
        reason="the signal of node a1 is older than 300 s",
    ),
    Case("NR-02 the neighbour is looked at", (node("a1", signal=299), node("a2")), Wish.WAIT, "a2", again=1.001),
    Case(
        "NR-33 shown as waiting",
        (node("a1", signal=20), node("a2")),
        Wish.WAIT,
        None,
        again=280 + JUST_AFTER,
    ),
    Case(
        "NR-36 brand new, its time is written down",
        (node("a1", signal=signal_taint()), node("a2")),
        Wish.WAIT,
        "a1",
        remember="a1",
        again=300 + JUST_AFTER,
        held=("evict the pods of node a1",),
    ),
    Case(
        "NR-03 half blocked, a fresh signal completes",
        (node("a1", signal=20), node("a2", prevent=True), node("a3")),
        Wish.KEEP,
        "a1",
        taint="a1 a3",
        again=280 + JUST_AFTER,
        reason="the zone is blocked already and node a1 is signalled",
        held=("evict the pods of node a1",),
    ),
    Case(
        "NR-03 fully blocked, a fresh signal keeps it",
        (node("a1", signal=20, prevent=True), node("a2", prevent=True)),
        Wish.KEEP,
        "a1",
        again=280 + JUST_AFTER,
        held=("evict the pods of node a1",),
    ),
    Case(
        "NR-23 our key with another effect does not make a cell blocked",
        (node("a1", signal=20), node("a2", taints=[OTHER_EFFECT])),
        Wish.WAIT,
        "a2",
        again=280 + JUST_AFTER,
    ),
    Case(
        "the prevent taint of a dying node does not make a cell blocked",
        (node("a1", signal=20), node("a2", prevent=True, deleting=True)),
        Wish.WAIT,
        "a2",
        again=280 + JUST_AFTER,
    ),
    Case(
        "NR-05 old signal, the neighbour is looked at",
        (node("a1", signal=301), node("a2")),
        Wish.BLOCK,
        "a2",
        taint="a1 a2",
    ),
    Case(
        "NR-05 old signal, its node is looked at",
        (node("a1", signal=301), node("a2")),
        Wish.BLOCK,
        "a1",
        taint="a1 a2",
        evict=True,
    ),
    Case(
        "old signal, all tainted: only the eviction is left",
        (node("a1", signal=301, prevent=True), node("a2", prevent=True)),
        Wish.BLOCK,
        "a1",
        evict=True,
    ),
    Case("the only node of its cell", (node("a1", signal=400),), Wish.BLOCK, "a1", taint="a1", evict=True),
    Case(
        "NR-18 a node that came late",
        (node("a1", signal=20, prevent=True), node("a4", ready_for=None)),
        Wish.KEEP,
        "a4",
        taint="a4",
        again=280 + JUST_AFTER,
    ),
    Case(
        "a dying node beside it is not written",
        (node("a1", signal=301), node("a2", deleting=True), node("a3")),
        Wish.BLOCK,
        "a1",
        taint="a1 a3",
        evict=True,
    ),
    Case(
        "a second signal on a dying node does not count",
        (node("a1", signal=20), node("a2", signal=20, deleting=True)),
        Wish.WAIT,
        "a2",
        again=280 + JUST_AFTER,
    ),
    Case(
        "a value ahead begins to age when it is reached",
        (node("a1", signal=signal_taint("1772366460")), node("a2")),
        Wish.WAIT,
        "a2",
        again=360 + JUST_AFTER,
    ),
    Case(
        "a short limit",
        (node("a1", signal=11),),
        Wish.BLOCK,
        "a1",
        taint="a1",
        evict=True,
        settings={"max_rebalance_signal_time": 10},
    ),
    Case(
        "no patience at all still means older than, not as old as",
        (node("a1", signal=0),),
        Wish.WAIT,
        again=JUST_AFTER,
        settings={"max_rebalance_signal_time": 0},
    ),
    Case(
        "NR-09 the annotation outlives a restart: 40 s are left of 300",
        (node("a1", signal=260), node("a2")),
        Wish.WAIT,
        again=40 + JUST_AFTER,
    ),
    Case(
        "NR-12 a namesake's annotation is written anew",
        (node("a1", signal=600, created=NOW - 30), node("a2")),
        Wish.WAIT,
        "a2",
        remember="a1",
        again=300 + JUST_AFTER,
    ),
    Case(
        "a time that the taint itself carries is not written down again",
        (node("a1", signal=signal_taint("1772366380")), node("a2", taints=[FOREIGN])),
        Wish.WAIT,
        again=280 + JUST_AFTER,
    ),
    Case(
        "nor is one that the API server gave",
        (node("a1", signal=signal_taint(added=NOW - 20)),),
        Wish.WAIT,
        again=280 + JUST_AFTER,
    ),
]

MORE_SIGNALS = [
    Case(
        "NR-01 the first node",
        (node("a1", signal=30), node("a2", signal=10), node("a3")),
        Wish.BLOCK,
        "a1",
        taint="a1 a2 a3",
        evict=True,
        reason="2 nodes are signalled",
    ),
    Case(
        "NR-01 then the second",
        (node("a1", signal=30, prevent=True), node("a2", signal=10, prevent=True), node("a3", prevent=True)),
        Wish.BLOCK,
        "a2",
        evict=True,
    ),
    Case(
        "NR-01 a node without signal is not emptied",
        (node("a1", signal=30, prevent=True), node("a2", signal=10, prevent=True), node("a3", prevent=True)),
        Wish.BLOCK,
        "a3",
    ),
    Case(
        "nor is anything when only the cell is looked at",
        (node("a1", signal=30), node("a2", signal=10)),
        Wish.BLOCK,
        None,
        taint="a1 a2",
    ),
    Case(
        "a node of another cell is not emptied by name",
        (node("a1", signal=30), node("a2", signal=10)),
        Wish.BLOCK,
        "b1",
        taint="a1 a2",
    ),
    Case(
        "NR-11 equal values are two signals",
        (node("a1", signal=10), node("a2", signal=10)),
        Wish.BLOCK,
        "a1",
        taint="a1 a2",
        evict=True,
    ),
    Case(
        "NR-64 not Ready, and Ready but empty",
        (node("a1", signal=10, ready_for=None), node("a2", signal=10, ready_for=20), node("a3")),
        Wish.BLOCK,
        "a1",
        taint="a1 a2 a3",
        evict=True,
    ),
    Case(
        "cordoned nodes are tainted as well",
        (node("a1", signal=10, cordoned=True), node("a2", signal=10, cordoned=True), node("a3", cordoned=True)),
        Wish.BLOCK,
        taint="a1 a2 a3",
    ),
    Case(
        "NR-23 annotation and taint in one write",
        (node("a1", signal=signal_taint()), node("a2", signal=10)),
        Wish.BLOCK,
        "a1",
        taint="a1 a2",
        remember="a1",
        evict=True,
    ),
    Case(
        "NR-23 our key with another effect does not count",
        (node("a1", signal=10, taints=[OTHER_EFFECT]), node("a2", signal=10, prevent=True)),
        Wish.BLOCK,
        "a2",
        taint="a1",
        evict=True,
    ),
    Case(
        "NR-18 a late node in a blocked cell",
        (node("a1", signal=10, prevent=True), node("a2", signal=10, prevent=True), node("a4", ready_for=None)),
        Wish.BLOCK,
        taint="a4",
    ),
    Case(
        "NR-60 half done before a kill",
        (
            node("a1", signal=10, prevent=True),
            node("a2", signal=10, prevent=True),
            *(node(f"a{n}", prevent=n < 26) for n in range(3, 51)),
        ),
        Wish.BLOCK,
        taint=" ".join(f"a{n}" for n in range(26, 51)),
    ),
    Case(
        "other times in other places",
        (node("a1", signal=signal_taint("1772366390")), node("a2", signal=signal_taint(added=NOW))),
        Wish.BLOCK,
        taint="a1 a2",
    ),
    Case(
        "a signal ahead counts",
        (node("a1", signal=signal_taint("1772370000")), node("a2", signal=0)),
        Wish.BLOCK,
        taint="a1 a2",
    ),
]

TO_BE_DELETED = [
    Case(
        "NR-17 marked a minute ago",
        (node("a1", signal=10, taints=LEAVING), node("a2", signal=10)),
        Wish.BLOCK,
        "a1",
        taint="a1 a2",
        again=840 + JUST_AFTER,
        held=("evict the pods of node a1",),
    ),
    *(
        Case(
            f"NR-17 mark {name}",
            (node("a1", signal=10, prevent=True, taints=[mark]), node("a2", signal=10, prevent=True)),
            Wish.BLOCK,
            "a1",
            evict=again is None,
            again=again,
            held=() if again is None else ("evict the pods of node a1",),
        )
        for name, mark, again in (
            ("901 s old", _to_be_deleted("1772365499"), None),
            ("900 s old", _to_be_deleted("1772365500"), None),
            ("899 s old", _to_be_deleted("1772365501"), 1 + JUST_AFTER),
            ("of this second", _to_be_deleted("1772366400"), 900 + JUST_AFTER),
            ("ahead", _to_be_deleted("1772366500"), 900 + JUST_AFTER),
            ("without a time", _to_be_deleted(""), None),
            ("with nonsense", _to_be_deleted("soon"), None),
            ("dated by the API server", _to_be_deleted("", NOW - 100), 800 + JUST_AFTER),
            ("with another effect", replace(_to_be_deleted("1772366340"), effect="NoExecute"), 840 + JUST_AFTER),
        )
    ),
    Case(
        "NR-17 the other signal node goes as ever",
        (node("a1", signal=10, taints=LEAVING), node("a2", signal=10)),
        Wish.BLOCK,
        "a2",
        taint="a1 a2",
        evict=True,
    ),
    Case(
        "the mark on a fresh single signal changes nothing",
        (node("a1", signal=10, taints=LEAVING), node("a2")),
        Wish.WAIT,
        "a1",
        again=290 + JUST_AFTER,
        held=("evict the pods of node a1",),
    ),
]

THREE_MINUTES = {"hold_down": 180}
HOLD_DOWN = [
    Case(
        "NR-37 within it the block stays and is completed",
        (node("a2", prevent=True), node("a5")),
        Wish.KEEP,
        "a5",
        taint="a5",
        again=120,
        settings=THREE_MINUTES,
        facts={"quiet_for": 60},
        reason="no signal any more, within hold-down",
    ),
    Case(
        "NR-37 just before its end",
        (node("a2", prevent=True), node("a5", prevent=True)),
        Wish.KEEP,
        again=0.5,
        settings=THREE_MINUTES,
        facts={"quiet_for": 179.5},
    ),
    Case(
        "NR-37 at its end",
        (node("a2", prevent=True), node("a5", prevent=True)),
        Wish.OPEN,
        untaint="a2 a5",
        settings=THREE_MINUTES,
        facts={"quiet_for": 180},
    ),
    Case(
        "NR-37 after our restart it counts anew",
        (node("a2", prevent=True),),
        Wish.KEEP,
        again=180,
        settings=THREE_MINUTES,
    ),
    Case(
        "NR-37 our annotation goes at once all the same",
        (node("a2", prevent=True, first_seen=seen(30)),),
        Wish.KEEP,
        forget="a2",
        again=170,
        settings=THREE_MINUTES,
        facts={"quiet_for": 10},
    ),
    Case(
        "a cell that was not blocked is not held",
        (node("a2"), node("a5")),
        Wish.OPEN,
        settings=THREE_MINUTES,
        facts={"quiet_for": 1},
    ),
    Case(
        "NR-37 a fresh signal within it keeps the block without evicting",
        (node("a2", prevent=True, signal=1), node("a5", prevent=True)),
        Wish.KEEP,
        "a2",
        again=299 + JUST_AFTER,
        settings=THREE_MINUTES,
        held=("evict the pods of node a2",),
    ),
    Case(
        "two signals within it evict",
        (node("a2", prevent=True, signal=1), node("a5", prevent=True, signal=1)),
        Wish.BLOCK,
        "a2",
        evict=True,
        settings=THREE_MINUTES,
    ),
    Case(
        "NR-39 an override ends it at once",
        (node("a2", prevent=True), node("a5", prevent=True, ignored=True)),
        Wish.OPEN,
        untaint="a2 a5",
        settings=THREE_MINUTES,
        reason="node a5 is annotated ebbtide/block=ignore",
    ),
    Case(
        "NR-16 a dying node's taint is not what is held",
        (node("a1", prevent=True, deleting=True), node("a2")),
        Wish.OPEN,
        settings=THREE_MINUTES,
    ),
]

PROD = {"node_groups": ("prod-*",)}
OVERRIDES = [
    Case(
        "NR-39 a blocked cell",
        (
            node("a1", signal=10, prevent=True),
            node("a2", signal=10, prevent=True),
            node("a3", prevent=True, ignored=True),
        ),
        Wish.OPEN,
        "a1",
        untaint="a1 a2 a3",
        reason="node a3 is annotated ebbtide/block=ignore",
        held=("evict the pods of node a1",),
    ),
    Case(
        "NR-39 before the block",
        (node("a1", signal=10, ignored=True), node("a2", signal=400)),
        Wish.OPEN,
        "a2",
        held=("evict the pods of node a2",),
    ),
    Case(
        "NR-39 on a dying node it has no effect",
        (node("a1", signal=10), node("a2", signal=10), node("a3", ignored=True, deleting=True)),
        Wish.BLOCK,
        "a1",
        taint="a1 a2",
        evict=True,
    ),
    Case(
        "NR-40 outside node-groups",
        (node("a1", signal=10), node("a2", signal=10)),
        Wish.OPEN,
        "a1",
        settings=PROD,
        reason="group g is outside node-groups",
        held=("evict the pods of node a1",),
    ),
    Case(
        "NR-40 a group that left node-groups is opened",
        (node("a1", signal=10, prevent=True), node("a2", signal=10, prevent=True)),
        Wish.OPEN,
        untaint="a1 a2",
        settings=PROD,
    ),
    Case(
        "NR-40 outside node-groups no time is written down",
        (node("a1", signal=signal_taint()), node("a2", signal=signal_taint())),
        Wish.OPEN,
        settings=PROD,
    ),
    Case(
        "NR-40 one of several patterns",
        (node("a1", signal=10), node("a2", signal=10)),
        Wish.BLOCK,
        taint="a1 a2",
        settings={"node_groups": ("prod-*", "?")},
    ),
]

INCOMPLETE = [
    Case(
        "NR-30 evictions wait for the whole cell",
        (node("a1", signal=10, prevent=True), node("a2", signal=10, prevent=True), node("a3")),
        Wish.BLOCK,
        "a1",
        taint="a3",
        evict=True,
        again=50,
        facts={"incomplete_for": 10},
    ),
    *(
        Case(
            f"NR-30 incomplete for {seconds} s, regardless",
            (node("a1", signal=10, prevent=True), node("a2", signal=10, prevent=True), node("a3")),
            Wish.BLOCK,
            "a1",
            taint="a3",
            evict=True,
            facts={"incomplete_for": seconds},
        )
        for seconds in (60, 60.001, 3600)
    ),
    Case(
        "NR-25 a contested node is left for a while",
        (node("a1", signal=10, prevent=True), node("a2", signal=10, prevent=True), node("a3")),
        Wish.BLOCK,
        again=5,
        facts={"restrained": {"a3": 5}},
        held=("taint node a3",),
    ),
    Case(
        "NR-25 the others are written meanwhile",
        (node("a1", signal=10, prevent=True), node("a2", signal=10), node("a3"), node("a4")),
        Wish.BLOCK,
        taint="a2",
        again=5,
        facts={"restrained": {"a3": 20, "a4": 5}},
        held=("taint node a3", "taint node a4"),
    ),
    Case(
        "NR-25 removing is never restrained",
        (node("a1", prevent=True),),
        Wish.OPEN,
        untaint="a1",
        facts={"restrained": {"a1": 60}},
    ),
    Case(
        "NR-25 the time of a signal is written on a contested node all the same",
        (node("a1", signal=signal_taint()), node("a2", signal=10, prevent=True)),
        Wish.BLOCK,
        remember="a1",
        again=5,
        facts={"restrained": {"a1": 5}},
        held=("taint node a1",),
    ),
    Case(
        "NR-24 what need not come back is not held back either",
        (node("a1", signal=10), node("a2")),
        Wish.WAIT,
        again=290 + JUST_AFTER,
        facts={"restrained": {"a2": 5}},
    ),
]

RENAMED = {"rebalance_signal_taint_key": "example.com/risk", "prevent_ca_scale_up_taint_key": "example.com/closed"}
RISK, CLOSED = Taint("example.com/risk", "", "NoExecute"), Taint("example.com/closed", "1", "NoSchedule")
RENAMES = [
    Case(
        "configured keys block",
        (node("a1", taints=[RISK], first_seen=seen(10)), node("a2", taints=[RISK, CLOSED], first_seen=seen(10))),
        Wish.BLOCK,
        "a1",
        taint="a1",
        evict=True,
        settings=RENAMED,
    ),
    Case(
        "configured keys open, taints under the old key stay",
        (node("a1", taints=[CLOSED], prevent=True), node("a2", signal=400, prevent=True)),
        Wish.OPEN,
        untaint="a1",
        forget="a2",
        settings=RENAMED,
    ),
]

CASES = [
    *NO_SIGNAL,
    *ONE_SIGNAL,
    *MORE_SIGNALS,
    *TO_BE_DELETED,
    *HOLD_DOWN,
    *OVERRIDES,
    *INCOMPLETE,
    *RENAMES,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_cell_gets_exactly_the_plan_of_its_row(case: Case) -> None:
    """Nothing more is written, evicted, held back or waited for than the row says."""
    plan = plan_of(cell(*case.nodes, **case.facts), case.look_at, rules(**case.settings))
    assert plan.wish is case.wish
    assert plan.taint == tuple(case.taint.split())
    assert plan.untaint == tuple(case.untaint.split())
    assert [write.node.name for write in plan.writes if write.first_seen is Change.SET] == case.remember.split()
    assert [write.node.name for write in plan.writes if write.first_seen is Change.REMOVE] == case.forget.split()
    assert (plan.evict.node.name if plan.evict else None) == (case.look_at if case.evict else None)
    assert tuple(held.what for held in plan.held_back) == case.held
    assert plan.look_again_in == (None if case.again is None else pytest.approx(case.again, abs=1e-5))
    assert plan.reason == case.reason or not case.reason


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_plan_says_why(case: Case) -> None:
    """Also for what was held back, so that no reader has to guess."""
    plan = plan_of(cell(*case.nodes, **case.facts), case.look_at, rules(**case.settings))
    assert plan.reason
    assert all(held.what and held.reason for held in plan.held_back)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_one_write_for_one_node(case: Case) -> None:
    """Everything that changes on a node is one request, and none is empty."""
    plan = plan_of(cell(*case.nodes, **case.facts), case.look_at, rules(**case.settings))
    names = [write.node.name for write in plan.writes]
    assert len(names) == len(set(names))
    assert all({write.prevent, write.first_seen} != {Change.LEAVE} for write in plan.writes)


@pytest.mark.parametrize(
    ("incomplete_for", "at_once"), [(0, False), (0.1, False), (59.9, False), (60, True), (600, True)]
)
def test_after_a_minute_evictions_do_not_wait_for_the_last_taint(incomplete_for: float, at_once: bool) -> None:
    """NR-30: the node may be taken soon."""
    plan = plan_of(cell(node("a1", signal=400), node("a2"), incomplete_for=incomplete_for), "a1")
    assert plan.evict is not None
    assert plan.evict.at_once is at_once


def test_evictions_are_counted_from_the_signal() -> None:
    """The eviction carries the signal's own time, by which drained nodes are ordered."""
    plan = plan_of(cell(node("a1", signal=30), node("a2", signal=signal_taint("1772366000"))), "a2")
    assert plan.evict is not None
    assert plan.evict.since == 1772366000


def test_signal_nodes_are_marked_in_the_writes() -> None:
    """NR-22: they are the evidence for all the others' taints and are written first."""
    plan = plan_of(cell(node("a1"), node("a2", signal=400), node("a3", signal=10, deleting=True)))
    assert {write.node.name: write.signalled for write in plan.writes} == {"a1": False, "a2": True}


def test_signals_are_listed_oldest_first() -> None:
    """The oldest is what is reported; names settle a tie."""
    plan = plan_of(cell(node("a1", signal=5), node("a3", signal=50), node("a2", signal=50), node("a4")))
    assert [signal.node.name for signal in plan.signals] == ["a2", "a3", "a1"]


def test_only_the_cell_asked_for_is_in_the_plan() -> None:
    """NR-15: neither the group's other zones nor another group in the same zone."""
    zone_b = cell(node("b1", signal=400), node("b2"))
    plan = plan_of(cell(node("a1", signal=10), node("a2", signal=10)), "b1", rules(), NOW, zone_b)
    assert plan.taint == ("a1", "a2")
    assert plan.evict is None


# --- min-open-zones ---------------------------------------------------------------------------------------------


def zone(name: str, *signals: float, prevent: bool = False, **special: Any) -> CellFacts:
    """A zone with these signal ages and one node without."""
    signalled = (node(f"{name}{n}", signal=age, prevent=prevent) for n, age in enumerate(signals))
    return cell(*signalled, node(f"{name}-plain", prevent=prevent, **special))


@dataclass(frozen=True)
class Limit:
    """The zones of a group, how many stay open, and which of them are to be blocked."""

    name: str
    zones: tuple[CellFacts, ...]
    at_least: int
    blocked: str
    settings: dict[str, Any] = field(default_factory=dict)


LIMITS = [
    Limit("no limit, all are blocked", (zone("a", 10, 10), zone("b", 10, 10)), 0, "a b"),
    Limit("NR-41 the older signal wins", (zone("a", 10, 20), zone("b", 30, 5)), 1, "b"),
    Limit("NR-41 the older signal wins, the other way round", (zone("a", 31, 20), zone("b", 30, 5)), 1, "a"),
    Limit("NR-41 equal ages, the first name wins", (zone("b", 10, 10), zone("a", 10, 10)), 1, "a"),
    Limit("NR-41 blocked already stays", (zone("a", 10, 20), zone("b", 5, 5, prevent=True)), 1, "b"),
    Limit("NR-41 both blocked already stay", (zone("a", 5, 5, prevent=True), zone("b", 5, 5, prevent=True)), 1, "a b"),
    Limit("NR-41 a single zone is never blocked", (zone("a", 400, 10),), 1, ""),
    Limit("a single zone blocked before the limit was set stays", (zone("a", 400, prevent=True),), 1, "a"),
    Limit("three zones, one open", (zone("a", 10, 10), zone("b", 20, 20), zone("c", 30, 30)), 1, "b c"),
    Limit("three zones, two open", (zone("a", 10, 10), zone("b", 20, 20), zone("c", 30, 30)), 2, "c"),
    Limit("three zones, three open", (zone("a", 10, 10), zone("b", 20, 20), zone("c", 30, 30)), 3, ""),
    Limit("more to be open than there are zones", (zone("a", 10, 10), zone("b", 10, 10)), 9, ""),
    Limit("a zone without danger leaves room", (zone("a", 10, 10), zone("b", 20, 20), zone("c")), 1, "a b"),
    Limit("a waiting zone leaves room", (zone("a", 10, 10), zone("b", 200)), 1, "a"),
    Limit("one old signal counts like two", (zone("a", 10, 10), zone("b", 301)), 1, "b"),
    Limit(
        "a zone without live nodes is no zone",
        (zone("a", 10, 10), cell(node("b1", deleting=True))),
        1,
        "",
    ),
    Limit(
        "an overridden zone is open and leaves room",
        (zone("a", 10, 10), zone("b", 900, 900, ignored=True)),
        1,
        "a",
    ),
    Limit(
        "a zone that is about to open is closed until its taints are off",
        (zone("a", 10, 10), zone("b", prevent=True)),
        1,
        "",
    ),
    Limit("a zone in its hold-down is closed", (zone("a", 10, 10), zone("b", prevent=True)), 1, "b", {"hold_down": 60}),
    Limit(
        "a half blocked zone is completed",
        (zone("a", 40, 40), cell(node("b1", signal=5, prevent=True), node("b2"))),
        1,
        "b",
    ),
]


@pytest.mark.parametrize("case", LIMITS, ids=lambda case: case.name)
def test_zones_that_must_stay_open_are_not_blocked(case: Limit) -> None:
    """The limit is the group's, whatever zone is looked at first."""
    group = GroupFacts("g", {facts.cell.zone: facts for facts in case.zones})
    limit = rules(min_open_zones=case.at_least, **case.settings)
    plans = [decide(group, facts.cell, None, limit, NOW) for facts in case.zones]
    assert sorted(plan.cell.zone for plan in plans if plan.wish.blocks) == case.blocked.split()


def test_a_zone_that_stays_open_says_so_and_keeps_its_pods() -> None:
    """NR-41: no taint, no eviction, the reason in the plan."""
    plan = plan_of(zone("a", 400, 10), "a0", rules(min_open_zones=1))
    assert plan.wish is Wish.OPEN
    assert plan.reason == "2 nodes are signalled, but min-open-zones = 1 keeps the zone open"
    assert not plan.writes
    assert plan.evict is None
    assert [held.reason for held in plan.held_back] == [plan.reason]


def test_a_zone_that_stays_open_still_writes_down_its_signal_s_time() -> None:
    """Else its signal would never get older, and a restart would forget which zone came first."""
    plan = plan_of(cell(node("a1", signal=signal_taint()), node("a2", signal=400)), "a1", rules(min_open_zones=1))
    assert [(write.node.name, write.prevent, write.first_seen) for write in plan.writes] == [
        ("a1", Change.LEAVE, Change.SET)
    ]


# --- small claims -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "patterns", "managed"),
    [
        ("prod-1", ("prod-*",), True),
        ("test-1", ("prod-*",), False),
        ("anything", ("*",), True),
        ("prod-1", ("test-*", "prod-?"), True),
        ("prod-10", ("prod-?",), False),
        ("Prod-1", ("prod-*",), False),
        ("prod-1", ("prod-1",), True),
        ("prod-1", ("prod",), False),
        ("prod-2", ("prod-[12]",), True),
        ("prod-3", ("prod-[!12]",), True),
        ("a.b", ("a?b",), True),
        ("axb", ("a.b",), False),
    ],
)
def test_groups_are_matched_like_file_names_in_a_shell(group: str, patterns: tuple[str, ...], managed: bool) -> None:
    """Case counts on every platform, dots mean themselves."""
    assert rules(node_groups=patterns).manages(group) is managed


@pytest.mark.parametrize(
    ("taints", "ours"),
    [
        ((), False),
        ((prevent_taint(),), True),
        ((prevent_taint(value=""),), True),
        ((prevent_taint(value="true"),), True),
        ((prevent_taint(effect="NoExecute"),), False),
        ((prevent_taint(effect="PreferNoSchedule"),), False),
        ((prevent_taint(effect="NoExecute"), prevent_taint()), True),
        ((FOREIGN, prevent_taint()), True),
        ((Taint(PREVENT + "-2", "", "NoSchedule"),), False),
        ((signal_taint(HASH),), False),
    ],
)
def test_the_prevent_taint_is_known_by_key_and_effect(taints: tuple[Taint, ...], ours: bool) -> None:
    """NR-23: its value is a time, which nobody has to know."""
    assert is_prevented(node("a1", taints=taints), rules()) is ours


def test_cells_are_ordered_and_readable() -> None:
    """As they stand in messages."""
    assert str(Cell("g", "a")) == "g/a"
    assert sorted([Cell("h", "a"), Cell("g", "b"), Cell("g", "a")])[0] == Cell("g", "a")


# --- a signal whose time cannot be noted ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen_for", "wish"),
    [({}, Wish.WAIT), ({"a1": 300.0}, Wish.WAIT), ({"a1": 300.5}, Wish.BLOCK), ({"a2": 900.0}, Wish.WAIT)],
    ids=["seen just now", "at the limit", "old", "another node's"],
)
def test_a_signal_without_a_time_is_as_old_as_it_has_been_seen(seen_for: dict[str, float], wish: Wish) -> None:
    facts = cell(node("a1", signal=signal_taint()), node("a2"), seen_for=seen_for)
    assert plan_of(facts, "a1").wish is wish


def test_what_the_node_says_goes_before_what_is_remembered() -> None:
    facts = cell(node("a1", signal=10), node("a2"), seen_for={"a1": 900.0})
    assert plan_of(facts, "a1").wish is Wish.WAIT


@pytest.mark.parametrize(
    ("again_in", "prevent", "noted"),
    [(30.0, True, False), (0.0, True, True), (-5.0, True, True), (30.0, False, False), (-5.0, False, True)],
    ids=["not yet", "now", "long due", "not yet, and a taint", "due, and a taint"],
)
def test_an_annotation_that_was_refused_is_left_out_for_a_while(again_in: float, prevent: bool, noted: bool) -> None:
    carrying = node("a1", signal=signal_taint(), prevent=prevent)
    facts = cell(carrying, node("a2", signal=10, prevent=prevent), unnoted={"a1": again_in})
    plan = plan_of(facts)
    changes = {write.node.name: write for write in plan.writes}
    assert ("a1" in changes and changes["a1"].first_seen is Change.SET) is noted
    assert ("a1" in changes and changes["a1"].prevent is Change.SET) is not prevent
    assert any(held.deed is Deed.NOTE_SIGNAL for held in plan.held_back) is not noted
    assert (plan.look_again_in == again_in) is not noted


@pytest.mark.parametrize(("ahead", "told"), [(3600, True), (6, True), (5, False), (-10, False)])
def test_a_time_in_the_future_is_part_of_the_reason(ahead: int, told: bool) -> None:
    """Nobody would see otherwise why a signal does not get old; clocks that differ a little are no reason."""
    plan = plan_of(cell(node("a1", signal=signal_taint(str(int(NOW) + ahead))), node("a2")))
    assert plan.wish is Wish.WAIT
    assert (f"whose time {format_time(NOW + ahead)} lies in the future" in plan.reason) is told
