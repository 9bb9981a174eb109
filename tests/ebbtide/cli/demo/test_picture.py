"""The picture shows everything at every size, and tells states without colour too."""

import io
from collections.abc import Mapping

import pytest
from rich.console import Console

from ebbtide.cli.demo.picture import Picture, Title
from ebbtide.cli.demo.scene import CellView, Choice, NodeView, Phase, PodView, Scene
from ebbtide.cli.demo.words import Line, Voice
from ebbtide.sim.actors.growth import Considered, Growth

GROWTH = Growth(
    waiting=("tidb/tikv-0",),
    considered=(
        Considered("a", "node a-3", against="node(s) had untolerated taint(s)"),
        Considered("b", "node b-1", pods=("tidb/tikv-0",), nodes=1),
    ),
    grown="b",
    nodes=1,
)
SCENE = Scene(
    at=75.0,
    zones=("us-east-1a", "us-east-1b"),
    nodes=(
        NodeView("a-1", "spot", "us-east-1a", signal_age=61.0, prevented=True, cordoned=True),
        NodeView(
            "a-2", "spot", "us-east-1a", prevented=True, pods=(PodView("tidb-5f7b9c8d4-x7k2q", "tidb", Phase.LEAVING),)
        ),
        NodeView("b-1", "spot", "us-east-1b", pods=(PodView("tikv-1", "tikv", Phase.SERVING, moved=99.0),)),
        NodeView("b-x7k2q", "spot", "us-east-1b", ready=False, pods=(PodView("tikv-2", "tikv", Phase.STARTING),)),
        NodeView("pd-b", "on-demand", "us-east-1b"),
    ),
    waiting=(PodView("tikv-0", "tikv", Phase.WAITING, refusal="0/5 nodes are available: 2 Insufficient cpu."),),
    cells=(
        CellView("spot", "us-east-1a", "blocked", "2 nodes are signalled", "every node is tainted", 14.0),
        CellView("spot", "us-east-1b", "open"),
    ),
    choice=Choice(20.0, GROWTH),
    ordered={"us-east-1b": 1},
    serving=3,
    wanted=4,
)
TIMELINE = tuple(Line(float(second), Voice.CLUSTER, f"event number {second}") for second in range(40))
TITLE = Title("several-signals", "two nodes are signalled", 10.0)


def drawn(width: int, height: int, *, environ: Mapping[str, str] | None = None, encoding: str = "utf-8") -> str:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    console = Console(
        file=out, width=width, height=height, force_terminal=True, color_system="truecolor", _environ=environ or {}
    )
    console.print(Picture(TITLE, SCENE, TIMELINE), height=height)
    out.flush()
    assert isinstance(out.buffer, io.BytesIO)
    return out.buffer.getvalue().decode(encoding)


def plainly(width: int, height: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    with console.capture() as capture:
        console.print(Picture(TITLE, SCENE, TIMELINE), height=height)
    return capture.get().splitlines()


@pytest.mark.parametrize(("width", "height"), [(40, 40), (60, 30), (80, 24), (100, 30), (132, 43), (220, 60)])
def test_every_node_and_pod_is_there_at_every_size(width: int, height: int) -> None:
    text = "\n".join(plainly(width, height))
    for name in ("a-1", "a-2", "b-1", "b-x7k2q", "pd-b", "tikv-0", "tikv-1", "tikv-2", "tidb…2q"):
        assert name in text


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (132, 43), (220, 60)])
def test_the_picture_fills_the_terminal_and_no_more(width: int, height: int) -> None:
    drawn_lines = plainly(width, height)
    assert len(drawn_lines) == height
    assert max(len(line) for line in drawn_lines) <= width


def test_marks_tell_the_states_of_nodes_without_colour() -> None:
    rows = {line.split()[1]: line for line in plainly(80, 24) if "│ a-" in line}
    assert "!⊘‖" in rows["a-1"]
    assert "1:01" in rows["a-1"]
    assert "⊘" in rows["a-2"]
    assert "!" not in rows["a-2"]
    assert "~tidb…2q" in rows["a-2"]


def test_it_says_who_decided_what_and_why() -> None:
    text = "\n".join(plainly(100, 30))
    assert "0:14 spot/us-east-1a blocked: 2 nodes are signalled" in text
    assert "0:20 grows b by 1 for 1 pod; on order: 1 in us-east-1b" in text
    assert "not a: node(s) had untolerated taint(s) (template: node a-3)" in text
    assert "2 Insufficient cpu" in text


def test_the_latest_events_are_the_ones_that_are_shown() -> None:
    text = "\n".join(plainly(80, 24))
    assert "event number 39" in text
    assert "event number 1 " not in text


def test_no_color_is_respected() -> None:
    coloured, bare = drawn(80, 24), drawn(80, 24, environ={"NO_COLOR": "1"})
    assert "\x1b[1;31m" in coloured
    assert not any(code in bare for code in ("\x1b[31m", "[1;31m", "48;5", "38;2", "48;2", ";4"))


def test_a_terminal_that_knows_ascii_only_gets_ascii_marks() -> None:
    text = drawn(80, 24, encoding="ascii")
    assert "#" in text
    assert text.isascii()


def test_an_empty_scene_is_a_picture_too() -> None:
    console = Console(file=io.StringIO(), width=80, height=24)
    with console.capture() as capture:
        console.print(Picture(TITLE, Scene(0.0, ("z1", "z2")), ()))
    assert "no pod waits for a node" in capture.get()
