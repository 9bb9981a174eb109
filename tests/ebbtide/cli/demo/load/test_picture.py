"""The picture of a load shows every table and worker at every size, and tells states without colour too."""

import io

import pytest
from rich.console import Console

from ebbtide.cli.demo.load.scene import Doing, Kind, LoadScene, PoolView, TableView, WorkerView
from ebbtide.cli.demo.load.tables import GIB, MIB, Step, Table
from ebbtide.cli.demo.picture import Picture, Title
from ebbtide.cli.demo.scene import CellView, Scene
from ebbtide.cli.demo.words import Line, Voice

IMPORT = LoadScene(
    tables=(
        TableView(Table(1, "regions", 40 * MIB, 20), Step.LOADED, 1.0, "tikv-api-0"),
        TableView(Table(6, "orders", 110 * GIB, 150), Step.LOADING, 0.99, "ldw-1-26-6-0-0"),
        TableView(Table(9, "payments", 3 * GIB // 2, 150), Step.ASKING, refused=2, asked=63.0),
        TableView(Table(10, "shipments", GIB, 150), Step.FAILED),
    ),
    workers=(
        WorkerView("tikv-api-0", Kind.LOCAL, "us-east-1a", Doing.BUSY, running=2),
        WorkerView("ldw-1-26-6-0-0", Kind.OWN, "us-east-1a", Doing.BUSY, running=1, table="orders"),
        WorkerView("ldw-1-26-9-0-0", Kind.OWN, "", Doing.WAITING, table="payments"),
    ),
    answers={302: 2, 503: 2},
)
CROWD = LoadScene(
    tables=tuple(TableView(Table(number, f"t{number}", MIB, 9), Step.LOADING, number / 30) for number in range(30)),
    workers=(
        WorkerView("ldw-shared-0", Kind.SHARED, "us-east-1b", Doing.BUSY, running=5),
        WorkerView("ldw-shared-1", Kind.SHARED, "us-east-1b", Doing.BUSY, running=8),
        WorkerView("ldw-shared-2", Kind.SHARED, "us-east-1b", Doing.IDLE),
    ),
    pool=PoolView(replicas=3, desired=4, usable=2, full=4, most=6, largest=6),
)
BLOCKED = (CellView("spot", "us-east-1a", "blocked", "2 nodes are signalled"), CellView("spot", "us-east-1b", "open"))
TIMELINE = tuple(Line(float(second), Voice.CLIENT, f"event number {second}") for second in range(40))


def drawn(load: LoadScene, width: int = 80, height: int = 24, encoding: str = "utf-8") -> list[str]:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    console = Console(file=out, width=width, height=height, color_system=None)
    scene = Scene(75.0, ("us-east-1a", "us-east-1b"), cells=BLOCKED, load=load)
    console.print(Picture(Title("import", "ten tables", 10.0), scene, TIMELINE), height=height)
    out.flush()
    assert isinstance(out.buffer, io.BytesIO)
    return out.buffer.getvalue().decode(encoding).splitlines()


def row(load: LoadScene, name: str) -> str:
    """The part of the picture's row that begins with the name, up to the border."""
    [line] = [line for line in drawn(load) if f"│ {name}" in line]
    return line[line.index(f"│ {name}") + 2 :].partition("│")[0].rstrip()


@pytest.mark.parametrize("load", [IMPORT, CROWD], ids=["import", "crowd"])
@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (132, 43), (220, 60)])
def test_the_picture_fills_the_terminal_and_no_more(load: LoadScene, width: int, height: int) -> None:
    lines = drawn(load, width, height)
    assert len(lines) == height
    assert max(len(line) for line in lines) <= width


@pytest.mark.parametrize(("width", "height"), [(50, 40), (80, 24), (132, 43)])
def test_every_table_and_worker_is_there_at_every_size(width: int, height: int) -> None:
    text = "\n".join(drawn(IMPORT, width, height))
    for name in (*(view.table.name for view in IMPORT.tables), *(worker.name for worker in IMPORT.workers)):
        assert name in text


def test_a_table_tells_how_far_it_is_and_where() -> None:
    """What is not sent to the end does not look so."""
    assert row(IMPORT, "regions") == "regions    40M ■■■■■■ ✓ loaded"
    assert row(IMPORT, "orders") == "orders    110G ■■■■■· ldw-1-26-6-0-0"
    assert row(IMPORT, "payments") == "payments  1.5G ······ 1:03, 503 x2"
    assert row(IMPORT, "shipments") == "shipments   1G ······ ✗ failed"


def test_a_worker_tells_what_it_does_and_whether_its_zone_is_blocked() -> None:
    """Pods of the template belong to no node group, so no block is theirs."""
    assert row(IMPORT, "tikv-api-0") == "tikv-api-0     1a  busy     ■■"
    assert row(IMPORT, "ldw-1-26-6-0-0") == "ldw-1-26-6-0-0 1a⊘ busy     orders"
    assert row(IMPORT, "ldw-1-26-9-0-0") == "ldw-1-26-9-0-0     Pending  payments"


def test_the_load_of_a_pod_is_shown_against_both_limits() -> None:
    assert row(CROWD, "ldw-shared-0") == "ldw-shared-0   1b  busy     ■■■■|■·"
    assert row(CROWD, "ldw-shared-1") == "ldw-shared-1   1b  busy     ■■■■|■■■■"
    assert row(CROWD, "ldw-shared-2") == "ldw-shared-2   1b  idle     ····|··"


def test_it_says_what_clients_were_told_and_what_the_pool_wants() -> None:
    assert any("2 sent on (302), 2 told to come again (503); slowest payments 1:03" in line for line in drawn(IMPORT))
    assert any("pool: 3 pods, 4 desired, 2 usable" in line for line in drawn(CROWD))


def test_a_terminal_that_knows_ascii_only_gets_ascii_marks() -> None:
    text = "\n".join(drawn(IMPORT, encoding="ascii"))
    assert text.isascii()
    assert "?" not in text
    assert "#####. ldw-1-26-6-0-0" in text


def test_nothing_yet_is_a_picture_too() -> None:
    assert any("nobody has asked for anything" in line for line in drawn(LoadScene()))
