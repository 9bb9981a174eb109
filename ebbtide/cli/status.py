"""`ebbtide status`: every zone of every node group, from the leader or, without one, from the cluster itself."""

import asyncio
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import structlog
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ebbtide.cli.asking import add_flags, ask, duration, print_json
from ebbtide.clock import SystemClock
from ebbtide.config import Settings
from ebbtide.errors import EbbtideError
from ebbtide.kube.client import Client
from ebbtide.kube.errors import KubeError
from reconciler import state
from reconciler.inquiry import Inquiry

log = structlog.stdlib.get_logger(__name__)

_EVERY_SECONDS: Final = 2.0
_STYLES: Final = {
    "open": "green",
    "waiting": "yellow",
    "blocked": "cyan",
    "cached": "cyan",
    "partial": "bold red",
    "ineffective": "bold red",
    "stale-template": "bold red",
}


def add_arguments(parser: ArgumentParser) -> None:
    add_flags(parser)
    parser.add_argument("--watch", action="store_true", help="show it anew every two seconds until interrupted")


def run(arguments: Namespace) -> int:
    return ask(arguments, partial(_watch if arguments.watch else _once, arguments.output))


async def _once(form: str, client: Client, settings: Settings) -> int:
    found = await document(Inquiry(client, settings), settings)
    if form == "json":
        print_json(found)
    else:
        Console(highlight=False).print(table(found))
    return 0


async def _watch(form: str, client: Client, settings: Settings) -> int:
    """Until interrupted; a document or a table every time where there is no terminal to redraw."""
    inquiry, console = Inquiry(client, settings), Console(highlight=False)
    if form == "json" or not console.is_terminal:
        while True:
            await _once(form, client, settings)
            await asyncio.sleep(_EVERY_SECONDS)
    with Live(console=console, auto_refresh=False) as live:
        while True:
            live.update(table(await document(inquiry, settings)), refresh=True)
            await asyncio.sleep(_EVERY_SECONDS)


async def document(inquiry: Inquiry, settings: Settings) -> dict[str, Any]:
    """The leader's document, or the same made from the cluster; `source` says which."""
    leader = await inquiry.leader()
    if leader is not None and leader.holder:
        try:
            return {"source": "leader", **await inquiry.state_of_leader(leader)}
        except (KubeError, EbbtideError) as error:
            log.info("the leader cannot be asked, reading the cluster instead", reason=str(error))
    nodes = (await inquiry.nodes()).values()
    return {"source": "cluster", **state.document(nodes, leader, None, settings.node_rebalance, SystemClock())}


def table(found: dict[str, Any]) -> RenderableType:
    """The document for people."""
    rows = Table("GROUP", "ZONE", "STATE", "FOR", "SIGNALS", "OLDEST", "NODES", "TAINTED", "CORDONED", "WHY", box=None)
    for cell in found["cells"]:
        rows.add_row(*_row(cell))
    body: RenderableType = rows if found["cells"] else Text("no node belongs to a zone of a node group")
    return Group(_head(found), body)


def _head(found: dict[str, Any]) -> Text:
    leader = found["leader"]["identity"]
    source = "as the leader sees it" if found["source"] == "leader" else "read off the cluster"
    return Text(f"leader: {leader or 'none'} ({source})", style="bold" if leader else "bold red")


def _row(cell: dict[str, Any]) -> list[RenderableType]:
    nodes = cell["nodes"]
    since = datetime.now(UTC) - datetime.fromisoformat(cell["since"])
    oldest = duration(cell["oldestSignalAgeSeconds"]) if cell["signalNodes"] else "-"
    return [
        Text(cell["group"]),
        Text(cell["zone"]),
        Text(cell["state"], style=_STYLES.get(cell["state"], "")),
        "-" if cell["state"] == "open" else duration(since.total_seconds()),
        str(cell["signalNodes"]),
        oldest,
        str(len(nodes)),
        str(sum(node["prevent"] for node in nodes)),
        str(sum(node["cordoned"] for node in nodes)),
        Text(cell["reason"]),
    ]
