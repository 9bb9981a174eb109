"""The document of `/api/v1/state` and `ebbtide status`: leader, cells, blocked zones.

While this process leads it shows what the controllers know; otherwise what can be read off the nodes alone.
"""

from collections.abc import Iterable, Mapping

from ebbtide.clock import Clock
from ebbtide.config.rebalance import NodeRebalance
from ebbtide.kube.lease_record import Record
from ebbtide.model import Cell, NodeFacts, format_time
from reconciler.rebalance.describe import Document, blocked_zones, cell_document, group_nodes, inferred
from reconciler.rebalance.report import CellStatus


def document(
    nodes: Iterable[NodeFacts],
    leader: Record | None,
    known: Mapping[Cell, CellStatus] | None,
    rules: NodeRebalance,
    clock: Clock,
) -> Document:
    """`known` is what the leading controllers say of each cell, None where nobody leads in this process."""
    now = clock.now()
    groups = group_nodes(nodes)
    cells = {facts.cell: facts for group in groups.values() for facts in group.cells.values()}
    if known is None:
        known = {cell: inferred(groups[cell.group], cell, rules, now) for cell in cells}
    return {
        "leader": leader_document(leader),
        "cells": [
            cell_document(cell, known[cell], cells[cell].nodes if cell in cells else (), rules, now)
            for cell in sorted(known)
        ],
        "webhook": {"blockedZones": blocked_zones(groups, rules)},
    }


def leader_document(leader: Record | None) -> Document:
    """Who leads, and since when; both null while nobody does."""
    if leader is None or not leader.holder:
        return {"identity": None, "since": None}
    since = None if leader.acquired is None else format_time(leader.acquired)
    return {"identity": leader.holder, "since": since}
