"""A scene as a picture in the terminal: zones side by side, what waits, who decided what and why, the last events.

Every part keeps its height, so that nothing jumps. States are told by a mark as well as by colour.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.box import ROUNDED
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ebbtide.cli.demo.load import picture as load_picture
from ebbtide.cli.demo.scenario import SPOT
from ebbtide.cli.demo.scene import NodeView, Phase, PodView, Scene
from ebbtide.cli.demo.words import Line, Voice, clock, listed
from ebbtide.counting import count

# Below this width the zones stand one above the other.
_SIDE_BY_SIDE: Final = 64
_TALL: Final = 30
# States of a zone in which it takes whatever comes; "" before the reconciler has looked.
_OPEN: Final = frozenset(("", "open", "waiting"))
_JUST_MOVED: Final = 12.0
_LABEL: Final = 12
# Rows that a zone has from the beginning, so that the first nodes that arrive move nothing.
_ROOM: Final = 6
# `b-x7k2q`, as the cloud names them.
_NODE_NAME: Final = 7

_STATE_STYLES: Final = {
    "open": "green",
    "waiting": "yellow",
    "blocked": "red",
    "cached": "red",
    "partial": "magenta",
    "ineffective": "magenta",
    "stale-template": "magenta",
}
_APP_STYLES: Final = {"tikv": "white on dark_blue", "tidb": "black on dark_cyan", "pd": "white on grey30"}
_VOICE_STYLES: Final = {
    Voice.AWS: "magenta",
    Voice.USER: "blue",
    Voice.EBBTIDE: "cyan",
    Voice.AUTOSCALER: "yellow",
    Voice.CLUSTER: "default",
    Voice.CLIENT: "green",
    Voice.ALARM: "bold red",
}


@dataclass(frozen=True, slots=True)
class Title:
    """What stands above the picture. `speed` None: as fast as it goes."""

    scenario: str
    summary: str
    speed: float | None


@dataclass(frozen=True, slots=True)
class _Marks:
    """What stands for a node's or pod's state."""

    signal: str
    prevented: str
    cordoned: str
    not_ready: str
    leaving: str
    starting: str


_MARKS: Final = _Marks(signal="!", prevented="⊘", cordoned="‖", not_ready="○", leaving="~", starting="+")
_ASCII_MARKS: Final = _Marks(signal="!", prevented="#", cordoned="=", not_ready="o", leaving="~", starting="+")


class Picture:
    """Draws itself as wide and as high as the console is. `final`: only as high as needed, without a time line."""

    def __init__(self, title: Title, scene: Scene, timeline: Sequence[Line], *, final: bool = False) -> None:
        self._title = title
        self._scene = scene
        self._timeline = timeline
        self._final = final

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, height = options.max_width, options.height or console.size.height
        marks = _ASCII_MARKS if options.ascii_only else _MARKS
        tall = height >= _TALL
        middle = _middle(self._scene, marks, width, ascii_only=options.ascii_only)
        above = [*_header(self._title, self._scene), middle]
        said = _sections(console, self._scene, width, tall=tall)
        used = len(above) - 1 + len(console.render_lines(middle, options.update(height=None))) + len(said)
        yield from above
        yield from said
        if not self._final:
            yield Rule(characters="-" if options.ascii_only else "─", style="dim")
            # The rule, and the legend below.
            yield from _timeline(self._timeline, max(1, height - used - 2))
        yield _legend(self._scene, marks, ascii_only=options.ascii_only)


def _header(title: Title, scene: Scene) -> Iterator[RenderableType]:
    speed = "" if title.speed is None else f"  {title.speed:g}x"
    row = Table.grid(expand=True)
    row.add_column(no_wrap=True, overflow="ellipsis")
    row.add_column(justify="right", no_wrap=True)
    name = Text.assemble(("ebbtide demo", "bold cyan"), "  ", (title.scenario, "bold"))
    row.add_row(name, Text.assemble(_progress(scene), "   ", (clock(scene.at), "bold"), speed))
    yield row
    yield _one_line(Text(title.summary, style="dim"))


def _progress(scene: Scene) -> tuple[str, str]:
    if scene.load is not None:
        return load_picture.progress(scene.load)
    return f"{scene.serving}/{scene.wanted} pods Ready", "green" if scene.serving == scene.wanted else "yellow"


def _middle(scene: Scene, marks: _Marks, width: int, *, ascii_only: bool) -> Table:
    """Zones with their nodes and pods; or where data is loaded, tables and workers."""
    if scene.load is None:
        return _zones(scene, marks, width)
    blocked = (zone for zone in scene.zones if scene.state_of(SPOT, zone) not in _OPEN)
    return load_picture.panels(scene.load, blocked, _load_marks(ascii_only), side_by_side=width >= _SIDE_BY_SIDE)


def _load_marks(ascii_only: bool) -> load_picture.Marks:
    return load_picture.ASCII_MARKS if ascii_only else load_picture.MARKS


# --- zones -----------------------------------------------------------------------------------------------------------


def _zones(scene: Scene, marks: _Marks, width: int) -> Table:
    side_by_side = width >= _SIDE_BY_SIDE
    rows = max(_ROOM, *(len(scene.in_zone(zone)) for zone in scene.zones))
    panels = [_zone(scene, zone, marks, rows if side_by_side else len(scene.in_zone(zone))) for zone in scene.zones]
    grid = Table.grid(expand=True)
    if side_by_side:
        for _ in panels:
            grid.add_column(ratio=1)
        grid.add_row(*panels)
    else:
        grid.add_column(ratio=1)
        for panel in panels:
            grid.add_row(panel)
    return grid


def _zone(scene: Scene, zone: str, marks: _Marks, rows: int) -> Panel:
    state = scene.state_of(SPOT, zone)
    style = _STATE_STYLES.get(state, "default")
    title = Text.assemble((zone, "bold"), " ", (state, f"bold {style}"))
    nodes = scene.in_zone(zone)
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True, min_width=_NODE_NAME)
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    for node in nodes:
        grid.add_row(_name(node), _node_marks(node, marks), _pods(node, marks))
    for _ in range(rows - len(nodes)):
        grid.add_row("", "", "")
    return Panel(grid, title=title, title_align="left", border_style=style, box=ROUNDED, padding=(0, 0, 0, 1))


def _name(node: NodeView) -> Text:
    if not node.ready:
        return Text(node.name, style="dim italic")
    if node.group != SPOT:
        return Text(node.name, style="dim")
    return Text(node.name, style="bold green" if node.age < 2 * _JUST_MOVED else "bold")


def _node_marks(node: NodeView, marks: _Marks) -> Text:
    shown = (
        (node.signal_age is not None, marks.signal, "bold red"),
        (node.prevented, marks.prevented, "bold yellow"),
        (node.cordoned, marks.cordoned, "blue"),
        (not node.ready, marks.not_ready, "dim"),
        (node.leaving, marks.leaving, "red"),
    )
    text = Text()
    for holds, mark, style in shown:
        if holds:
            text.append(mark, style)
    text.pad_right(max(0, 3 - len(text)))
    return text


def _pods(node: NodeView, marks: _Marks) -> Text:
    """The pods, and how old the node's signal is."""
    text = Text()
    for pod in node.pods:
        text.append_text(_pod(pod, marks))
    if node.signal_age is not None:
        text.append(f" {clock(node.signal_age)}", "red")
    return text


def _pod(pod: PodView, marks: _Marks) -> Text:
    """The mark takes the gap before the cell."""
    name, style = _cell_name(pod.name), _APP_STYLES.get(pod.app, "reverse")
    match pod.phase:
        case Phase.LEAVING:
            return Text.assemble((marks.leaving, "red"), (name, "red strike"))
        case Phase.STARTING:
            return Text.assemble((marks.starting, "yellow"), (name, "black on yellow"))
        case Phase.WAITING:
            return Text.assemble(" ", (name, "bold yellow"))
        case _:
            return Text.assemble(" ", (name, "bold black on green" if pod.moved < _JUST_MOVED else style))


def _cell_name(pod: str) -> str:
    """Three of these fit beside a node's name in half of 80 columns."""
    parts = pod.split("-")
    return pod if len(parts) <= 2 else f"{parts[0]}…{parts[-1][-2:]}"


# --- what waits, and who decided what --------------------------------------------------------------------------------


def _sections(console: Console, scene: Scene, width: int, *, tall: bool) -> list[RenderableType]:
    more = 1 if tall else 0
    room = width - _LABEL
    if scene.load is not None:
        return [
            *_section("clients", [load_picture.clients(scene.load)], 1, console, room),
            *_section("autoscaler", _autoscaler(scene), 1 + more, console, room),
            *_section("ebbtide", _ebbtide(scene), 2 + more, console, room),
        ]
    return [
        *_section("waiting", _waiting(scene), 2 + more, console, room),
        *_section("autoscaler", _autoscaler(scene), 2 + more, console, room),
        *_section("ebbtide", _ebbtide(scene), 2 + 2 * more, console, room),
    ]


def _section(label: str, parts: Sequence[Text], height: int, console: Console, room: int) -> Iterator[Text]:
    """The parts, each wrapped, on exactly that many lines; the first part is never cut in favour of the others."""
    wrapped = [line for part in parts for line in part.wrap(console, room)]
    cut = len(wrapped) > height
    lines = [*wrapped[:height], *([Text()] * (height - len(wrapped)))]
    if cut:
        lines[-1] = lines[-1].copy()
        lines[-1].truncate(room - 1)
        lines[-1].append("…")
    for number, line in enumerate(lines):
        head = label if number == 0 else ""
        yield _one_line(Text.assemble((head.ljust(_LABEL), "dim"), line))


def _waiting(scene: Scene) -> list[Text]:
    if not scene.waiting:
        return [Text("no pod waits for a node", style="dim")]
    cells = Text()
    for pod in scene.waiting:
        cells.append_text(_pod(pod, _MARKS))
    cells = cells[1:]
    refusal = next((pod.refusal for pod in scene.waiting if pod.refusal), "the scheduler has not looked yet")
    return [cells, Text(refusal.replace(" nodes are available", ""), style="dim")]


def _autoscaler(scene: Scene) -> list[Text]:
    choice = scene.choice
    if choice is None:
        words = "has not looked yet" if scene.waiting else "has nothing to decide"
        return [Text(words, style="dim")]
    growth = choice.growth
    verdict = f"grows {growth.grown} by {growth.nodes}" if growth.grown else "grows nothing"
    pods = count(len(growth.waiting), "pod")
    first = Text.assemble((f"{clock(choice.at)} ", "dim"), (verdict, "yellow"), f" for {pods}")
    ordered = [f"{count} in {zone}" for zone, count in scene.ordered.items()]
    if ordered:
        first.append(f"; on order: {listed(ordered)}", "dim")
    refused = [each for each in growth.considered if each.against]
    against = "; ".join(f"not {each.group}: {each.against} (template: {each.source})" for each in refused)
    taken = next((each.source for each in growth.considered if each.group == growth.grown), "")
    return [first, Text(against or f"(template: {taken})", style="dim")]


def _ebbtide(scene: Scene) -> list[Text]:
    told = [cell for cell in scene.cells if cell.state != "open" or cell.why]
    if not scene.cells:
        return [Text("is not there", style="dim")]
    if not told:
        return [Text("every zone is open; no node is signalled", style="dim")]
    parts = []
    for cell in told:
        state = (cell.state, f"bold {_STATE_STYLES.get(cell.state, 'default')}")
        parts.append(Text.assemble((f"{clock(cell.since)} ", "dim"), f"{cell.name} ", state, f": {cell.why}"))
        parts += [Text(f"{pod} stays for now: {reason}", style="yellow") for pod, reason in scene.held_back.items()]
        if cell.reason and cell.reason != cell.why:
            parts.append(Text(cell.reason, style="dim"))
    return parts


# --- below -----------------------------------------------------------------------------------------------------------


def _timeline(timeline: Sequence[Line], height: int) -> Iterator[Text]:
    shown = timeline[-height:]
    for line in shown:
        style = _VOICE_STYLES[line.voice]
        voice = "" if line.voice is Voice.CLUSTER else f"{line.voice.value} "
        yield _one_line(Text.assemble((f"{clock(line.at):>5}  ", "dim"), (voice, f"bold {style}"), (line.text, style)))
    for _ in range(height - len(shown)):
        yield Text()


def _legend(scene: Scene, marks: _Marks, *, ascii_only: bool) -> Text:
    meanings = _meanings(marks) if scene.load is None else load_picture.meanings(_load_marks(ascii_only))
    parts: list[tuple[str, str]] = []
    for mark, style, meaning in meanings:
        parts += [(mark, style), (f" {meaning}  ", "dim")]
    return _one_line(Text.assemble(*parts))


def _meanings(marks: _Marks) -> tuple[tuple[str, str, str], ...]:
    return (
        (marks.signal, "bold red", "signal"),
        (marks.prevented, "bold yellow", "no-growth taint"),
        (marks.cordoned, "blue", "cordoned"),
        (marks.not_ready, "dim", "not Ready"),
        (marks.starting, "yellow", "starting"),
        (marks.leaving, "red", "leaving"),
    )


def _one_line(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text
