"""`ebbtide explain` in words: whatever decides is named, nothing is cut, and every failure has its exit code."""

from collections.abc import AsyncIterator
from io import StringIO
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from ebbtide import vocabulary
from ebbtide.cli.asking import Terminal
from ebbtide.cli.explain import show
from ebbtide.cli.main import main
from ebbtide.sim import objects
from ebbtide.sim.cluster import Cluster
from ebbtide.sim.faults import Answer, When
from reconciler.explain.explanation import Explanation, of_cell
from reconciler.rebalance.decide import decide
from reconciler.rebalance.plan import Deed, HeldBack
from reconciler.scaler.describe import WorkersNow
from tests.ebbtide.cli.commands import kubeconfig, run, serving
from tests.reconciler.rebalance.builders import NOW, cell, group, node, rules
from tests.reconciler.scaler.workers_now import WORKERS


def words(explanation: Explanation, width: int = 200) -> str:
    """What is shown in a terminal of that width."""
    terminal = Terminal()
    terminal.file, terminal.width = StringIO(), width
    show(explanation, terminal)
    return terminal.file.getvalue()


def of_zone(*nodes: Any, look_at: str | None = None, **settings: Any) -> Explanation:
    facts, special = group(cell(*nodes)), rules(**settings)
    return of_cell("zone g/a", facts, decide(facts, nodes[0].cell, look_at, special, NOW), special, NOW)


def test_a_zone_is_explained_with_verdict_cure_clock_and_nodes() -> None:
    said = words(of_zone(node("a1", signal=400, prevent=True, cordoned=True)))
    lines = said.splitlines()
    assert lines[0] == "zone g/a: ineffective"
    assert "because" in lines[1]
    assert "the signal of node a1 is older than 300 s" in lines[1]
    assert "webhook's zone exclusion, where it is installed" in said
    assert "of node a1, 7 min old, read from the annotation in which ebbtide noted it" in said
    assert lines[-2].split() == ["NODE", "SIGNAL", "TAINTED", "CORDONED", "READY", "GOING"]
    assert lines[-1].split() == ["a1", "yes", "yes", "yes", "yes", "-"]


def test_the_rules_that_decide_are_named_with_their_values() -> None:
    said = words(of_zone(node("a1", signal=400), min_open_zones=1, hold_down=600.0))
    assert "min-open-zones = 1; zones of the group: a (open)" in said
    assert "hold-down = 600 s" in said


def test_what_is_to_be_done_and_what_is_held_back_is_listed() -> None:
    said = words(of_zone(node("a1", signal=100), look_at="a1"))
    assert "held back  evict the pods of node a1: one signal, of node a1, not older than 300 s" in said
    assert "next look  in 3 min, if nothing happens before" in said
    assert "to taint" in words(of_zone(node("a1", signal=400), node("a2")))


def test_in_80_columns_no_line_is_longer_and_no_word_is_lost() -> None:
    found = of_zone(*(node(f"a{number}", signal=400, prevent=True, cordoned=True) for number in range(3)))
    narrow, wide = words(found, 80), words(found, 1000)
    assert max(map(len, narrow.splitlines())) <= 80
    assert sorted(narrow.split()) == sorted(wide.split())


def test_of_thousands_of_nodes_the_ones_that_matter_are_shown() -> None:
    """Those with a signal, then those without our taint; the rest is counted."""
    many = [node(f"a{number:04}", prevent=True) for number in range(1000)]
    said = words(of_zone(*many, node("a9998", signal=400), node("a9999")))
    shown = said[said.index("NODE ") :].splitlines()
    assert [line.split()[0] for line in shown[1:3]] == ["a9998", "a9999"]
    assert shown[-1].strip() == "… and 982 more nodes; --output json has all of them"


def test_long_lists_are_counted_to_their_end() -> None:
    """A zone of thousands of nodes, of which each is to be tainted, is no screen full of names."""
    said = words(of_zone(*(node(f"a{number:04}", signal=400) for number in range(1000))), 1000)
    (line,) = (line for line in said.splitlines() if "to taint" in line)
    assert line.endswith("a0019 and 980 more")
    assert len(said.splitlines()) < 50


def test_nothing_from_the_cluster_steers_the_terminal() -> None:
    held = HeldBack(Deed.EVICT, "a/b\x07", "\x9b")
    evil = Explanation("pod [red]x", "waiting", "\x1b[2J", {"scheduler": "[/]\x07"}, held_back=(held,))
    said = words(evil)
    assert "pod [red]x: waiting" in said
    assert not set("\x1b\x07\x9b") & set(said)


# --- as a process ------------------------------------------------------------------------------------------------


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """A zone that is to be blocked, with a pod on its signalled node."""
    async with Cluster() as created:
        old = objects.taint(vocabulary.SIGNAL_TAINT_KEY, "1600000000")
        created.create(objects.node("a1", group="g", zone="a", taints=[old]), objects.node("b1", group="g", zone="b"))
        created.create(objects.pod("p", node="a1"))
        yield created


@pytest.fixture
async def config(cluster: Cluster, tmp_path: Path) -> str:
    return str(kubeconfig(tmp_path, await cluster.serve()))


async def test_it_works_without_any_reconciler_in_words_and_as_json(config: str) -> None:
    said = await run("explain", "node", "a1", "--kubeconfig", config)
    assert (said.code, said.err) == (0, "")
    assert "to evict" in said.out
    assert "default/p" in said.out
    assert all(line == line.rstrip() for line in said.out.splitlines())
    read = await run("explain", "pod", "default/p", "--kubeconfig", config, "--output", "json")
    found = orjson.loads(read.out)
    assert (read.code, found["subject"], found["state"]) == (0, "pod default/p", "to-be-evicted")
    assert found["plan"] == {"taint": [], "untaint": [], "evict": True, "readmit": False}


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (("node", "b"), "ebbtide: there is no node b; the nearest: b1\n"),
        (("zone", "g/c"), "ebbtide: there is no node in zone g/c; the nearest: g/b, g/a\n"),
        (("pod", "default/x"), "ebbtide: there is no pod default/x\n"),
    ],
)
async def test_what_is_not_there_ends_it_with_1(question: tuple[str, str], message: str, config: str) -> None:
    ended = await run("explain", *question, "--kubeconfig", config)
    assert (ended.code, ended.out, ended.err) == (1, "", message)


async def test_a_refusal_ends_it_with_3_and_names_verb_and_resource(cluster: Cluster, config: str) -> None:
    message = 'namespaces is forbidden: User "eve" cannot list resource "namespaces"'
    cluster.faults.inject(Answer(403, "Forbidden", message), When(path="/api/v1/namespaces"))
    ended = await run("explain", "pod", "default/p", "--kubeconfig", config)
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("ebbtide: context test")
    assert message in ended.err


async def test_a_cluster_that_is_away_ends_it_with_3(tmp_path: Path) -> None:
    ended = await run("explain", "zone", "g/a", "--kubeconfig", str(kubeconfig(tmp_path, "http://127.0.0.1:1")))
    assert (ended.code, ended.out) == (3, "")
    assert "cannot be reached: GET /api/v1/nodes: 127.0.0.1:1 refuses connections" in ended.err


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (("zone", "a"), "'a' is not GROUP/ZONE"),
        (("zone", "/a"), "'/a' is not GROUP/ZONE"),
        (("pod", "p"), "'p' is not NAMESPACE/NAME"),
        (("pod", "a/b/c"), "'a/b/c' is not NAMESPACE/NAME"),
        (("load", "1"), "there is no 'load' (there are zone, node, pod, task)"),
        (("task", "1-170-139"), "'1-170-139' is no task id"),
        (("task", "1-170-139-0", "--data-size", "large"), "'large' is no size"),
        ((), "required: KIND"),
    ],
)
def test_a_question_that_makes_no_sense_ends_with_2(
    question: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["explain", *question])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


async def test_a_task_that_nobody_knows_and_where_it_would_go(config: str) -> None:
    """From its size; without a leader what only that knows is named."""
    ended = await run("explain", "task", "1-170-139-0", "--data-size", str(3 << 30), "--kubeconfig", config)
    assert (ended.code, ended.err) == (0, "")
    said = " ".join(ended.out.split())
    assert said.startswith("task 1-170-139-0: unknown because it has no worker of its own and no promise; it would be")
    assert "its worker 2 cores and 8Gi at most" in said
    assert "not known which tasks the local pods have" in said


async def test_a_task_is_asked_for_at_a_url(config: str) -> None:
    """Of the reconciler that serves there; where it does not answer, the cluster does as far as it can."""

    async def leading(_request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"cells": [], "workers": WORKERS.document()})

    task = str(WORKERS.tasks[0].task)
    async with serving(leading) as url:
        ended = await run("explain", "task", task, "--url", url, "--output", "json", "--kubeconfig", config)
    assert (ended.code, ended.err) == (0, "")
    told = orjson.loads(ended.out)
    assert told["facts"]["place"]["pool"] == str(WORKERS.tasks[0].target)
    assert told["facts"]["unknown"] == []
    ended = await run("explain", "task", task, "--url", url, "--output", "json", "--kubeconfig", config)
    assert ended.code == 0
    assert f"the leader cannot be asked: {url}/api/v1/state cannot be reached" in ended.out


async def test_a_reconciler_at_a_url_that_does_not_lead_says_nothing_of_tasks(config: str) -> None:
    async def following(_request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"cells": [], "workers": WorkersNow(run=True).document()})

    async with serving(following) as url:
        ended = await run("explain", "task", "1-170-139-0", "--url", url, "--kubeconfig", config)
    said = " ".join(ended.out.split())
    assert f"the reconciler at {url} does not lead, or does not run the worker scaler" in said
