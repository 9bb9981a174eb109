"""What is so on the cluster and since when, noted at the storage itself as it changes.

It is what a program with a perfect memory and no delay would know, and no code of the product has a part in it.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping

from ebbtide.sim.kinds import MUTATING_WEBHOOKS, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS
from ebbtide.sim.stored import Event, Stored
from tests.simulation.draws import is_signalled
from tests.simulation.oracle import CellName, carriers, cells, exclusion, is_ignored
from tests.simulation.pod_events import QUIET_NAMESPACE
from tests.simulation.stage import Stage

# A fact that is older than this has reached every replica whose watches work; seconds.
SLACK = 0.1


class Facts:
    """Times are those of the loop."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._since: dict[Hashable, float] = {}
        self._complete_at: dict[CellName, float] = {}
        self._claims_changed_at = 0.0
        self._zones: Mapping[str, tuple[str, ...]] = {}
        self._zones_changed_at: dict[str, list[float]] = defaultdict(list)
        for kind in (NODES, NAMESPACES, MUTATING_WEBHOOKS):
            stage.storage.listen(self._changed, kind)
        stage.storage.listen(self._claim_changed, PERSISTENT_VOLUME_CLAIMS)

    # --- questions ---------------------------------------------------------------------------------------------

    def cell_is_ignored(self, cell: CellName) -> bool:
        """For long enough that everybody knows."""
        return self._long("ignored", cell)

    def namespace_is_ignored(self, name: str) -> bool:
        return name == QUIET_NAMESPACE and self._long("quiet")

    def webhook_is_away(self) -> bool:
        return self._long("no webhook")

    def claims_are_known(self) -> bool:
        return self._stage.time - self._claims_changed_at > SLACK

    def signalled_since(self, node: Stored) -> float | None:
        return self._since.get(("signalled", node.uid))

    def cell_signalled_since(self, cell: CellName) -> float | None:
        return self._since.get(("signalled", cell))

    def complete_at(self, cell: CellName) -> float:
        """When every live node of the cell carried our taint last, but for those that nobody may know of yet."""
        self._note_complete()
        return self._complete_at.get(cell, float("-inf"))

    def zones_changed(self, group: str, within: float) -> bool:
        """Whether the zones to be avoided by the group's pods have changed lately, as everybody knows."""
        ages = (self._stage.time - time for time in self._zones_changed_at[group])
        return any(SLACK < age < within for age in ages)

    def zones_are_known(self, group: str) -> bool:
        """Whether everybody knows which zones the group's pods are to avoid."""
        times = self._zones_changed_at[group]
        return not times or self._stage.time - times[-1] > SLACK

    def _long(self, *what: Hashable) -> bool:
        since = self._since.get(what)
        return since is not None and self._stage.time - since > SLACK

    # --- notes -------------------------------------------------------------------------------------------------

    def _changed(self, _: Event) -> None:
        now = set(self._so())
        self._since = {what: self._since.get(what, self._stage.time) for what in now}
        self._note_complete()
        self._note_zones()

    def _so(self) -> Iterator[Hashable]:
        """Everything that is so now."""
        for cell, nodes in cells(self._stage.storage).items():
            if any(map(is_ignored, nodes)):
                yield "ignored", cell
            for node in nodes:
                uid = node["metadata"]["uid"]
                if is_signalled(node):
                    yield "signalled", cell
                    yield "signalled", uid
                if not carriers([node]):
                    yield "clean", cell, uid
        quiet = self._stage.storage.peek(NAMESPACES, QUIET_NAMESPACE)
        if quiet is not None and is_ignored(quiet.body):
            yield ("quiet",)
        if not any(self._stage.storage.scan(MUTATING_WEBHOOKS)):
            yield ("no webhook",)

    def _note_complete(self) -> None:
        for cell, nodes in cells(self._stage.storage).items():
            if not any(self._long("clean", cell, node["metadata"]["uid"]) for node in nodes):
                self._complete_at[cell] = self._stage.time

    def _note_zones(self) -> None:
        zones = {group: exclusion(self._stage.storage, group) for group, _ in cells(self._stage.storage)}
        for group in zones.keys() | self._zones.keys():
            if zones.get(group) != self._zones.get(group):
                self._zones_changed_at[group].append(self._stage.time)
        self._zones = zones

    def _claim_changed(self, _: Event) -> None:
        self._claims_changed_at = self._stage.time
