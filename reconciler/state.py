"""The document of `/api/v1/state`: leader, cells, blocked zones, workers and tasks, decisions.

Status page and `ebbtide status` show it. A process that leads, or runs dry, shows what its controllers know. Any other
reads it off the nodes, and so does the command when no reconciler answers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ebbtide.config.rebalance import NodeRebalance
from ebbtide.kube.lease_record import Record
from ebbtide.model import Cell, NodeFacts, format_time
from reconciler.engine.events import Told
from reconciler.rebalance.describe import Document, blocked_zones, cell_document, group_nodes, inferred
from reconciler.rebalance.status import CellStatus
from reconciler.scaler.describe import NO_WORKERS, WorkersNow


class Source(StrEnum):
    """What the states of the cells rest on."""

    LEADER = "leader"
    DRY_RUN = "dry-run"
    NODES = "nodes"


@dataclass(frozen=True, slots=True)
class Known:
    """What the controllers of this process say of each cell, of workers and of tasks, and what they did lately.

    `decisions` are in the order of their time. `answering` is what this process is called in the election, "" for one
    that does not stand. `nodes_age` are the seconds since the API server was last heard of about the nodes.
    """

    cells: Mapping[Cell, CellStatus]
    source: Source
    workers: WorkersNow = NO_WORKERS
    decisions: Sequence[Told] = ()
    answering: str = ""
    nodes_age: float = 0.0


NOTHING_KNOWN = Known({}, Source.NODES)


def document(
    nodes: Iterable[NodeFacts], leader: Record | None, known: Known, rules: NodeRebalance, now: float
) -> Document:
    """A cell that no controller has looked at (yet) is read off its nodes.

    `source` says what the rest is from, `at` when that was so.
    """
    present = tuple(nodes)
    groups = group_nodes(present)
    facts = {each.cell: each for group in groups.values() for each in group.cells.values()}
    unknown = {cell: inferred(groups[cell.group], cell, rules, now) for cell in facts.keys() - known.cells.keys()}
    statuses = {**known.cells, **unknown}
    return {
        "at": format_time(now),
        "source": str(known.source),
        "answeredBy": known.answering or None,
        "nodesAgeSeconds": known.nodes_age,
        "rebalance": {"run": rules.run, "maxSignalSeconds": rules.max_rebalance_signal_time},
        "leader": leader_document(leader),
        "cells": [
            cell_document(cell, statuses[cell], facts[cell].nodes if cell in facts else (), rules, now)
            for cell in sorted(statuses)
        ],
        "outside": sorted(node.name for node in present if _is_left_out(node, rules)),
        "webhook": {"blockedZones": blocked_zones(present, rules)},
        "workers": known.workers.document(),
        "decisions": [decision_document(told) for told in reversed(known.decisions)],
    }


def _is_left_out(node: NodeFacts, rules: NodeRebalance) -> bool:
    """Whether the node has a signal and belongs to no zone of a node group, so that nothing is done about it."""
    return node.cell is None and not node.deleting and node.taint(rules.rebalance_signal_taint_key) is not None


def leader_document(leader: Record | None) -> Document:
    """Who leads, since when, and when that was last confirmed; all null while nobody does."""
    if leader is None or not leader.holder:
        return {"identity": None, "since": None, "renewed": None, "leaseDurationSeconds": None}
    return {
        "identity": leader.holder,
        "since": _time(leader.acquired),
        "renewed": _time(leader.renewed),
        "leaseDurationSeconds": leader.duration,
    }


def decision_document(told: Told) -> Document:
    """One entry of `decisions`: an event as it was told on its object."""
    event = told.event
    about = event.regarding
    return {
        "at": format_time(told.at),
        "type": event.kind,
        "reason": event.reason,
        "action": event.action,
        "note": event.note,
        "regarding": {"kind": about.resource.kind, "namespace": about.namespace or None, "name": about.name},
    }


def _time(epoch: float | None) -> str | None:
    return None if epoch is None else format_time(epoch)
