"""The state as people see it: every zone, why, and what to do, at any width, whatever the cluster says."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from ebbtide.cli.overview import picture
from ebbtide.kube.lease_record import Record
from ebbtide.model import Cell, NodeFacts
from reconciler.sources import Answer
from reconciler.state import NOTHING_KNOWN, document
from tests.reconciler.rebalance.builders import DEFAULTS, NOW, node, rules

LEADER = Record("ebbtide-7d9f", 15.0, NOW - 3600, NOW - 1, 3, {})
LONG = "serverless-tiflash-write-node-group", "ap-northeast-1a"
CORDONED = [
    node("a1", signal=400, prevent=True, cordoned=True),
    node("a2", signal=10, prevent=True, cordoned=True),
    node("b1"),
]


def drawn(answer: Answer, width: int = 80) -> str:
    """What a terminal of that width shows, without its styles."""
    console = Console(file=StringIO(), width=width, markup=False, emoji=False, highlight=False)
    console.print(picture(answer, width))
    assert isinstance(console.file, StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def state(nodes: list[NodeFacts], leader: Record | None = LEADER, **special: Any) -> dict[str, Any]:
    return document(nodes, leader, NOTHING_KNOWN, DEFAULTS, NOW) | special


def test_a_zone_is_a_row_with_its_figures_and_its_reason_below() -> None:
    """In 80 columns no line is longer, and no word of the cure is lost."""
    shown = drawn(Answer(state(CORDONED, source="leader")))
    lines = shown.splitlines()
    assert lines[0] == "leader: ebbtide-7d9f for 60 min (as the leader sees it)"
    assert lines[2].split() == ["GROUP", "ZONE", "STATE", "FOR", "SIGNALS", "NODES", "TAINTED", "CORDONED"]
    assert lines[3].split() == ["g", "a", "ineffective", "7", "min", "2,", "7", "min", "2", "2", "2"]
    assert lines[4].split() == ["g", "b", "open", "-", "-", "1", "-", "-"]
    assert "g/a: ineffective" in lines
    assert "webhook's zone exclusion, where it is installed" in " ".join(shown.split())
    assert "g/b: open" not in shown
    assert max(map(len, lines)) <= 80


def test_long_names_are_folded_and_never_cut() -> None:
    long = [node("a1", cell=Cell(*LONG), signal=400, prevent=True)]
    shown = drawn(Answer(state(long)), 80)
    assert max(map(len, shown.splitlines())) <= 80
    assert "blocked" in shown
    rows = [line[:40] for line in shown.splitlines()]
    assert LONG[0] in "".join(row.split()[0] for row in rows if row.split())


def test_where_there_is_room_the_reason_stands_in_the_row() -> None:
    lines = drawn(Answer(state(CORDONED)), 400).splitlines()
    assert lines[2].endswith("WHY")
    assert "Uncordon one node" in lines[3]
    assert len(lines) == 5


def test_a_block_that_is_seen_in_a_moment_is_not_to_be_cured() -> None:
    """In the words of the event: nobody is to uncordon a node that is not cordoned."""
    young = [node("a1", signal=400, prevent=True, ready_for=20)]
    shown = " ".join(drawn(Answer(state(young))).split())
    assert "have not been Ready for long enough yet. This passes by itself in about 40 s." in shown
    assert "Uncordon" not in shown


def test_zones_with_news_come_first() -> None:
    shown = drawn(Answer(state([node("a1"), node("b1", signal=10)]))).splitlines()
    assert [line.split()[1] for line in shown[3:5]] == ["b", "a"]


@pytest.mark.parametrize(
    ("leader", "words"),
    [
        (None, "leader: none"),
        (Record("", 1.0, NOW, NOW, 3, {}), "leader: none"),
        (Record("one", 15.0, NOW - 9000, NOW - 600, 3, {}), "one, which has not renewed its lease for 10 min"),
        (Record("one", 15.0, None, None, 3, {}), "leader: one ("),
    ],
)
def test_the_head_says_whether_somebody_leads(leader: Record | None, words: str) -> None:
    assert words in drawn(Answer(state([], leader))).splitlines()[0]


@pytest.mark.parametrize(
    ("source", "words"),
    [("leader", "as the leader sees it"), ("dry-run", "a dry run"), ("nodes", "read off the nodes"), ("x", "(x)")],
)
def test_the_head_says_what_the_states_rest_on(source: str, words: str) -> None:
    assert words in drawn(Answer(state([], source=source))).splitlines()[0]


def test_an_empty_cluster_is_said_to_be_one() -> None:
    assert "no node belongs to a zone of a node group" in drawn(Answer(state([])))


def test_a_switched_off_rebalance_is_said() -> None:
    off = document([node("a1")], LEADER, NOTHING_KNOWN, rules(run=False), NOW)
    assert "node-rebalance.run = false" in drawn(Answer(off))


@pytest.mark.parametrize(("age", "told"), [(75.0, False), (151.0, True)])
def test_a_silence_about_the_nodes_is_told_once_it_is_none_that_is_usual(age: float, told: bool) -> None:
    shown = drawn(Answer(state(CORDONED, source="dry-run", nodesAgeSeconds=age)))
    assert ("nothing was heard of the nodes for 3 min: what is shown may be out of date" in shown) == told


def test_a_reconciler_that_does_not_say_how_old_it_is_is_believed() -> None:
    """One of an earlier version."""
    earlier = {key: value for key, value in state(CORDONED).items() if key != "nodesAgeSeconds"}
    assert "out of date" not in drawn(Answer(earlier))


def test_notes_are_shown() -> None:
    assert "note: the leader cannot be asked" in drawn(Answer(state([]), ("the leader cannot be asked",)))


def test_signalled_nodes_that_are_left_alone_are_named() -> None:
    """A few of them: a pool without labels may have thousands."""
    nodes = [node(f"x{number:03}", signal=10, cell=None) for number in range(50)]
    shown = " ".join(drawn(Answer(state(nodes))).split())
    assert "left alone: x000, x001," in shown
    assert "x009 …" in shown
    assert "x010" not in shown
    assert "left alone" not in drawn(Answer(state(CORDONED)))


def test_nothing_from_the_cluster_steers_the_terminal() -> None:
    """Neither as markup of the table's, nor as an escape sequence, nor by turning the direction of writing."""
    evil = Record("[bold red]x[/] :smile: \x1b[2J\u202e\r\n", 15.0, NOW, NOW, 3, {})
    shown = drawn(Answer(state([], evil), ("\x1b]0;title\x07",)), 200)
    assert "[bold red]x[/] :smile: \ufffd[2J\ufffd\ufffd\ufffd" in shown
    assert "\x1b" not in shown
    assert "\x07" not in shown
