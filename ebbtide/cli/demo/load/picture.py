"""Tables and workers side by side. A large table has a bar of its own, of many small ones each has a cell."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.box import ROUNDED
from rich.panel import Panel
from rich.table import Table as Grid
from rich.text import Text

from ebbtide.cli.demo.load.scene import Doing, Kind, LoadScene, PoolView, TableView, WorkerView
from ebbtide.cli.demo.load.tables import Step, human
from ebbtide.cli.demo.words import clock
from ebbtide.counting import count

# Rows that both panels have from the beginning, so that what comes moves nothing.
_ROOM: Final = 10
_BAR: Final = 6
_CELL: Final = 3
_DOING_STYLES: Final = {
    Doing.WAITING: "bold yellow",
    Doing.STARTING: "yellow",
    Doing.READY: "green",
    Doing.BUSY: "bold cyan",
    Doing.IDLE: "dim",
    Doing.ENDING: "red",
}
_STEP_STYLES: Final = {Step.ASKING: "yellow", Step.LOADING: "cyan", Step.LOADED: "green", Step.FAILED: "bold red"}


@dataclass(frozen=True, slots=True)
class Marks:
    """What stands for a part of a bar, for a table, and for a zone that is blocked."""

    full: str
    free: str
    levels: str
    asking: str
    loaded: str
    failed: str
    blocked: str


MARKS: Final = Marks(full="■", free="·", levels="▁▂▃▄▅▆▇█", asking="·", loaded="✓", failed="✗", blocked="⊘")
ASCII_MARKS: Final = Marks(full="#", free=".", levels="12345678", asking=".", loaded="v", failed="x", blocked="!")


def panels(load: LoadScene, blocked: Iterable[str], marks: Marks, *, side_by_side: bool) -> Grid:
    """`blocked` are the zones that get nothing new."""
    left = list(_crowd(load, load.pool, marks) if load.pool else (_table(view, marks) for view in load.tables))
    zones = frozenset(blocked)
    right = [_worker(worker, load.pool, zones, marks) for worker in load.workers]
    rows = max(_ROOM, len(left), len(right)) if side_by_side else 0
    both = (_panel("tables", left, rows), _panel("workers", right, rows))
    grid = Grid.grid(expand=True)
    for _ in both if side_by_side else both[:1]:
        grid.add_column(ratio=1)
    for row in (both,) if side_by_side else ((each,) for each in both):
        grid.add_row(*row)
    return grid


def progress(load: LoadScene) -> tuple[str, str]:
    """How much is done in a few words, and a style for them."""
    loaded = load.count(Step.LOADED)
    return f"{loaded}/{len(load.tables)} tables loaded", "green" if loaded == len(load.tables) else "yellow"


def clients(load: LoadScene) -> Text:
    """What the front has told them."""
    if not load.answers:
        return Text("nobody has asked for anything", style="dim")
    text = Text(f"{load.answers.get(302, 0)} sent on (302), {load.answers.get(503, 0)} told to come again (503)")
    slowest = max(load.tables, key=lambda view: view.asked)
    return text.append(f"; slowest {slowest.table.name} {clock(slowest.asked)}", "dim")


def meanings(marks: Marks) -> Iterator[tuple[str, str, str]]:
    """Mark, style and meaning, for the legend."""
    yield marks.full, "cyan", "sent, or a task"
    yield marks.free, "dim", "free"
    yield "|", "dim", "from here on the pool grows"
    yield marks.blocked, "red", "blocked zone"


def _panel(title: str, rows: Sequence[Text], height: int) -> Panel:
    lines = [*rows, *([Text()] * (height - len(rows)))]
    grid = Grid.grid(expand=True)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    for line in lines:
        grid.add_row(line)
    return Panel(grid, title=Text(title, "bold"), title_align="left", box=ROUNDED, padding=(0, 0, 0, 1))


# --- tables ----------------------------------------------------------------------------------------------------------


def _table(view: TableView, marks: Marks) -> Text:
    style = _STEP_STYLES[view.step]
    sent = int(view.sent * _BAR)
    return Text.assemble(
        f"{view.table.name:<9} ",
        (f"{human(view.table.size):>4} ", "dim"),
        (marks.full * sent, style),
        (marks.free * (_BAR - sent), "dim"),
        " ",
        (_where(view, marks), style),
    )


def _where(view: TableView, marks: Marks) -> str:
    match view.step:
        case Step.ASKING:
            return f"{clock(view.asked)}, 503 x{view.refused}" if view.refused else f"asks {clock(view.asked)}"
        case Step.LOADING:
            return view.worker
        case Step.LOADED:
            return f"{marks.loaded} loaded"
        case Step.FAILED:
            return f"{marks.failed} failed"


def _crowd(load: LoadScene, pool: PoolView, marks: Marks) -> Iterator[Text]:
    for first in range(0, len(load.tables), _CELL * 4):
        yield Text.assemble(*(_cell(view, marks) for view in load.tables[first : first + _CELL * 4]))
    yield Text()
    counts = ((step, load.count(step)) for step in Step)
    yield Text("  ").join(Text(f"{count} {step.value}", _STEP_STYLES[step]) for step, count in counts if count)
    yield Text(f"pool: {count(pool.replicas, 'pod')}, {pool.desired} desired, {pool.usable} usable")
    yield Text(f"grows above {pool.full} tasks a pod, to {pool.largest} pods", "dim")
    yield Text(f"then fills pods to {pool.most} tasks and above", "dim")


def _cell(view: TableView, marks: Marks) -> tuple[str, str]:
    signs = {Step.ASKING: marks.asking, Step.LOADED: marks.loaded, Step.FAILED: marks.failed}
    level = marks.levels[min(int(view.sent * len(marks.levels)), len(marks.levels) - 1)]
    return signs.get(view.step, level).center(_CELL), _STEP_STYLES[view.step]


# --- workers ---------------------------------------------------------------------------------------------------------


def _worker(worker: WorkerView, pool: PoolView | None, blocked: frozenset[str], marks: Marks) -> Text:
    zone = worker.zone.rpartition("-")[2]
    blocks = worker.zone in blocked and worker.kind is not Kind.LOCAL
    return Text.assemble(
        f"{worker.name:<14} ",
        (f"{zone:<2}", "red" if blocks else "dim"),
        (f"{marks.blocked if blocks else ''} ".rjust(2), "red"),
        (f"{worker.doing.value:<8} ", _DOING_STYLES[worker.doing]),
        *_tasks(worker, pool, marks),
    )


def _tasks(worker: WorkerView, pool: PoolView | None, marks: Marks) -> Iterator[tuple[str, str]]:
    """A worker's own table, or a mark for each task; of the pool against what a pod is to have and may have."""
    if worker.kind is Kind.OWN:
        yield worker.table, ""
        return
    most = pool.most if pool is not None and worker.kind is Kind.SHARED else 0
    for place in range(max(worker.running, most)):
        if pool is not None and most and place == pool.full:
            yield "|", "dim"
        yield (marks.full, "cyan") if place < worker.running else (marks.free, "dim")
