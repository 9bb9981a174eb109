"""Stores → frozen facts: the nodes by cell, kept up to date event by event, so that a look costs one cell."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from ebbtide.config.rebalance import NodeRebalance
from ebbtide.exclusion.volumes import BoundVolumes
from ebbtide.kube.store import Store
from ebbtide.model import Cell, NamespaceFacts, NodeFacts, PodFacts, VolumeFacts
from reconciler.rebalance.evictions import Surroundings
from reconciler.rebalance.memory import Memory
from reconciler.rebalance.plan import CellFacts, GroupFacts


class Cells:
    """Index of nodes: group → zone → node name → facts. Nodes outside any cell are not in it."""

    def __init__(self, nodes: Iterable[NodeFacts]) -> None:
        self._groups: dict[str, dict[str, dict[str, NodeFacts]]] = {}
        for node in nodes:
            self._changed(None, node)

    @classmethod
    def following(cls, nodes: Store[NodeFacts]) -> "Cells":
        """The index of a store, kept up to date."""
        cells = cls(nodes.values())
        nodes.subscribe(cells._changed)
        return cells

    def __iter__(self) -> Iterator[Cell]:
        return (Cell(group, zone) for group, zones in self._groups.items() for zone in zones)

    def of_group(self, group: str) -> tuple[Cell, ...]:
        return tuple(Cell(group, zone) for zone in self._groups.get(group, ()))

    def live(self, group: str) -> dict[Cell, NodeFacts]:
        """The group's cells that have live nodes, each with one of them."""
        found = {
            Cell(group, zone): next((node for node in nodes.values() if not node.deleting), None)
            for zone, nodes in self._groups.get(group, {}).items()
        }
        return {cell: node for cell, node in found.items() if node is not None}

    def nodes(self, cell: Cell) -> tuple[NodeFacts, ...]:
        """The cell's nodes by name, those being deleted too."""
        nodes = self._groups.get(cell.group, {}).get(cell.zone, {})
        return tuple(nodes[name] for name in sorted(nodes))

    def _changed(self, old: NodeFacts | None, new: NodeFacts | None) -> None:
        if old is not None and old.cell is not None and (new is None or new.cell != old.cell):
            self._remove(old.cell, old.name)
        if new is not None and new.cell is not None:
            self._groups.setdefault(new.cell.group, {}).setdefault(new.cell.zone, {})[new.name] = new

    def _remove(self, cell: Cell, name: str) -> None:
        zones = self._groups.get(cell.group, {})
        nodes = zones.get(cell.zone, {})
        nodes.pop(name, None)
        if not nodes:
            zones.pop(cell.zone, None)
        if not zones:
            self._groups.pop(cell.group, None)


class Snapshot:
    """Facts for `decide`: a cell with what is remembered of it, and its group's other cells where they matter."""

    def __init__(self, cells: Cells, memory: Memory, rules: NodeRebalance) -> None:
        self._cells = cells
        self._memory = memory
        self._rules = rules

    def group_of(self, cell: Cell, monotonic: float) -> GroupFacts:
        others = self._cells.of_group(cell.group) if self._rules.min_open_zones else ()
        return GroupFacts(cell.group, {each.zone: self.cell(each, monotonic) for each in {cell, *others}})

    def cell(self, cell: Cell, monotonic: float) -> CellFacts:
        memory, nodes = self._memory.known(cell), self._cells.nodes(cell)
        return CellFacts(
            cell=cell,
            nodes=nodes,
            quiet_for=_since(memory.quiet_since, monotonic),
            incomplete_for=_since(memory.incomplete_since, monotonic),
            restrained=memory.restrained(nodes, monotonic),
            seen_for={node.name: monotonic - memory.seen[node.uid] for node in nodes if node.uid in memory.seen},
            unnoted={n.name: memory.unnoted[n.uid].until - monotonic for n in nodes if n.uid in memory.unnoted},
        )


class PodSurroundings:
    """Facts for `evictions`: what decides about a pod besides itself.

    `volumes` are there only with `zonal-volume-policy = "hold"`.
    """

    def __init__(self, namespaces: Store[NamespaceFacts], volumes: BoundVolumes | None = None) -> None:
        self._namespaces = namespaces
        self._volumes = volumes

    def on_change(self, handler: Callable[[], None]) -> None:
        """Calls `handler` whenever something that decides about pods has changed."""
        self._namespaces.subscribe(lambda _old, _new: handler())
        if self._volumes is not None:
            self._volumes.on_change(handler)

    async def wait_known(self) -> None:
        """Returns when everything that decides about pods has been read once."""
        await self._namespaces.wait_synced()
        if self._volumes is not None:
            await self._volumes.wait_known()

    def of(self, node: NodeFacts, pods: tuple[PodFacts, ...]) -> Surroundings:
        """Costs what these pods cost, however many namespaces there are."""
        named = {pod.namespace: self._namespaces.get(pod.namespace) for pod in pods}
        ignored = frozenset(name for name, facts in named.items() if facts is not None and facts.ignored)
        return Surroundings(node, ignored, self._behind_claims(pods))

    def _behind_claims(self, pods: tuple[PodFacts, ...]) -> Mapping[str, VolumeFacts]:
        if self._volumes is None:
            return {}
        bound = ((pod.namespace, self._volumes.behind(pod.namespace, pod.claims)) for pod in pods if pod.claims)
        return {f"{namespace}/{claim}": volume for namespace, found in bound for claim, volume in found.items()}


def _since(instant: float | None, monotonic: float) -> float:
    return 0.0 if instant is None else monotonic - instant
