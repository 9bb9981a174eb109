"""Which zones of which group are blocked, kept up to date node by node.

A zone is blocked for a group as long as any live node of that cell carries the prevent taint: the pods follow the block
from its first taint to its last.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ebbtide import vocabulary
from ebbtide.kube.store import Store
from ebbtide.model import Cell, NodeFacts


@dataclass(frozen=True, slots=True)
class GroupZones:
    """One node group: the zones in which it has live nodes, those of them that are blocked, and each zone's labels.

    `labels` are the keys under which the live nodes of a zone carry it: one, unless nodes differ.
    """

    live: frozenset[str] = frozenset()
    blocked: frozenset[str] = frozenset()
    labels: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(slots=True)
class _Tally:
    """The live nodes of one cell: how many, how many of them carry the prevent taint, how many use which label."""

    live: int = 0
    prevented: int = 0
    labels: Counter[str] = field(default_factory=Counter)

    @property
    def shape(self) -> tuple[bool, bool, frozenset[str]]:
        """What decisions depend on."""
        return self.live > 0, self.prevented > 0, frozenset(self.labels)


class _Count:
    """The zones of all groups, counted node by node. A step costs the same however many nodes there are."""

    def __init__(self, prevent_taint_key: str) -> None:
        self.groups: Mapping[str, GroupZones] = {}
        self._key = prevent_taint_key
        self._tallies: dict[str, dict[str, _Tally]] = {}

    def move(self, old: NodeFacts | None, new: NodeFacts | None) -> list[str]:
        """A node has come, changed or gone; returns the groups whose zones are others now."""
        before, after = self._place(old), self._place(new)
        if before == after:
            return []
        cells = {place[0] for place in (before, after) if place is not None}
        shapes = {cell: self._tally(cell).shape for cell in cells}
        self._count(before, -1)
        self._count(after, 1)
        changed = sorted({cell.group for cell in cells if self._tally(cell).shape != shapes[cell]})
        for group in changed:
            self._renew(group)
        return changed

    def _place(self, node: NodeFacts | None) -> tuple[Cell, bool, str] | None:
        """Cell, whether it is prevented there, and zone label of a node that counts."""
        if node is None or node.cell is None or node.deleting:
            return None
        prevented = node.taint(self._key, vocabulary.PREVENT_TAINT_EFFECT) is not None
        return node.cell, prevented, node.zone_label

    def _tally(self, cell: Cell) -> _Tally:
        return self._tallies.setdefault(cell.group, {}).setdefault(cell.zone, _Tally())

    def _count(self, place: tuple[Cell, bool, str] | None, step: int) -> None:
        if place is None:
            return
        cell, prevented, label = place
        tally = self._tally(cell)
        tally.live += step
        tally.prevented += step * prevented
        tally.labels[label] += step
        if not tally.labels[label]:
            del tally.labels[label]

    def _renew(self, group: str) -> None:
        zones = {zone: tally for zone, tally in self._tallies[group].items() if tally.live}
        if not zones:
            del self._tallies[group]
            self.groups = {name: each for name, each in self.groups.items() if name != group}
            return
        self._tallies[group] = zones
        found = GroupZones(
            live=frozenset(zones),
            blocked=frozenset(zone for zone, tally in zones.items() if tally.prevented),
            labels={zone: frozenset(tally.labels) for zone, tally in zones.items()},
        )
        self.groups = {**self.groups, group: found}


def group_zones(nodes: Iterable[NodeFacts], prevent_taint_key: str) -> Mapping[str, GroupZones]:
    """The zones of each group that has live nodes."""
    count = _Count(prevent_taint_key)
    for node in nodes:
        count.move(None, node)
    return count.groups


class BlockedZones:
    """The same of a store of nodes, kept up to date."""

    def __init__(self, nodes: Store[NodeFacts], prevent_taint_key: str) -> None:
        self._count = _Count(prevent_taint_key)
        self._handlers: list[Callable[[str], None]] = []
        for node in nodes.values():
            self._count.move(None, node)
        nodes.subscribe(self._changed)

    @property
    def groups(self) -> Mapping[str, GroupZones]:
        """The zones of each group that has live nodes. What was handed out stays as it is; a change makes another."""
        return self._count.groups

    def on_change(self, handler: Callable[[str], None]) -> None:
        """Calls `handler` with the group whose zones have changed, after the change."""
        self._handlers.append(handler)

    def _changed(self, old: NodeFacts | None, new: NodeFacts | None) -> None:
        for group in self._count.move(old, new):
            for handler in self._handlers:
                handler(group)
