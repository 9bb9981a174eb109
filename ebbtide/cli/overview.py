"""The state as a table for people, at any width of a terminal."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ebbtide.cli.asking import duration, plain
from ebbtide.cli.tables import table
from ebbtide.cli.workers import workers
from ebbtide.kube.client import SILENT_AFTER
from reconciler.sources import Answer
from reconciler.state import Source

_STYLES: Final = {
    "open": "green",
    "waiting": "yellow",
    "blocked": "cyan",
    "cached": "cyan",
    "partial": "bold red",
    "ineffective": "bold red",
    "stale-template": "bold red",
}
_NAMES: Final = ("GROUP", "ZONE", "STATE", "FOR", "SIGNALS", "NODES", "TAINTED", "CORDONED")
# From here on the reasons have room beside the figures; below it each has lines of its own.
_WIDE: Final = 132
_MOST_NAMES: Final = 10
_SOURCES: Final = {
    Source.LEADER: "as the leader sees it",
    Source.DRY_RUN: "as a dry run sees it, which changes nothing",
    Source.NODES: "read off the nodes",
}
# Which label was looked for the document does not say; where the nodes are read here, a note does.
_NO_CELLS: Final = (
    "no node belongs to a zone of a node group: label the nodes (in the launch template or node group), or set "
    "node-rebalance.node-group-label, for the reconciler and for this command"
)


def picture(answer: Answer, width: int) -> RenderableType:
    """The whole state: who leads, every zone (those with something about them first), why, and what to do; workers."""
    found = answer.document
    cells = sorted(found["cells"], key=lambda cell: (not _is_news(cell), cell["group"], cell["zone"]))
    parts: list[RenderableType] = [_head(found)]
    parts += [Padding(plain(f"note: {note}", "yellow"), (0, 0, 0, 0)) for note in answer.notes]
    if (age := found.get("nodesAgeSeconds", 0.0)) > SILENT_AFTER:
        unheard = f"nothing was heard of the nodes for {duration(age)}: what is shown may be out of date"
        parts.append(plain(unheard, "bold red"))
    if not found["rebalance"]["run"]:
        off = "zone rebalance is switched off (node-rebalance.run = false): nothing is done about what is shown here"
        parts.append(plain(off, "bold red"))
    if found.get("outside"):
        names = ", ".join(found["outside"][:_MOST_NAMES]) + (" …" if len(found["outside"]) > _MOST_NAMES else "")
        left_out = f"signalled, but without the labels of a node group and a zone, and left alone: {names}"
        parts.append(plain(f"note: {left_out}", "yellow"))
    parts.append(Text())
    parts.append(_cells(cells, found["at"], width) if cells else plain(_NO_CELLS))
    if width < _WIDE:
        parts += _reasons(cells)
    parts += workers(found.get("workers"), width)
    return Group(*parts)


def _head(found: dict[str, Any]) -> Text:
    leader, seen = found["leader"], _SOURCES.get(found["source"], found["source"])
    if leader["identity"] is None:
        return plain(f"leader: none ({seen})", "bold red")
    since = f" for {_age(leader['since'], found['at'])}" if leader["since"] else ""
    silent = _seconds(leader["renewed"], found["at"]) if leader["renewed"] else 0.0
    if silent > 2 * leader["leaseDurationSeconds"]:
        late = f"has not renewed its lease for {duration(silent)}"
        return plain(f"leader: {leader['identity']}, which {late} ({seen})", "bold red")
    return plain(f"leader: {leader['identity']}{since} ({seen})", "bold")


def _cells(cells: list[dict[str, Any]], at: str, width: int) -> Table:
    names: tuple[str, ...] = _NAMES
    rows = [_row(cell, at) for cell in cells]
    if width >= _WIDE:
        names = (*names, "WHY")
        rows = [[*row, plain(_why(cell))] for row, cell in zip(rows, cells, strict=True)]
    return table(names, rows, width, keys=3, folded=("GROUP", "ZONE", "WHY"))


def _row(cell: dict[str, Any], at: str) -> list[Text]:
    nodes, signals = cell["nodes"], cell["signalNodes"]
    figures = (
        len(nodes),
        sum(node["prevent"] for node in nodes),
        sum(node["cordoned"] for node in nodes),
    )
    return [
        plain(cell["group"]),
        plain(cell["zone"]),
        plain(cell["state"], _STYLES.get(cell["state"], "")),
        plain(_age(cell["since"], at) if cell["since"] and cell["state"] != "open" else "-"),
        plain(f"{signals}, {duration(cell['oldestSignalAgeSeconds'])}" if signals else "-"),
        *(plain(figure or "-") for figure in figures),
    ]


def _reasons(cells: list[dict[str, Any]]) -> Iterator[RenderableType]:
    for cell in filter(_is_news, cells):
        yield Text()
        yield plain(f"{cell['group']}/{cell['zone']}: {cell['state']}", _STYLES.get(cell["state"], ""))
        yield Padding(plain(_why(cell)), (0, 0, 0, 2))


def _why(cell: dict[str, Any]) -> str:
    return f"{cell['reason']}. {cell['advice']}" if cell.get("advice") else str(cell["reason"])


def _is_news(cell: dict[str, Any]) -> bool:
    """Whether there is more to say about a zone than that it is open."""
    return cell["state"] != "open" or cell["signalNodes"] > 0 or any(node["prevent"] for node in cell["nodes"])


def _age(since: str, at: str) -> str:
    return duration(_seconds(since, at))


def _seconds(since: str, at: str) -> float:
    """Between two times of the same document, so that nobody's clock has to agree with ours."""
    return (datetime.fromisoformat(at) - datetime.fromisoformat(since)).total_seconds()
